"""The cache of compiled kernels, and being told of a compile. Run in new processes: compiling happens once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from discretion.kernels import jit

PROGRAM = """
import sys
import numpy as np
from discretion.kernels.jit import on_first_compile
told = []
with on_first_compile(lambda: told.append(1)):
    from discretion.kernels.swap import block_shuffle, swap_partners
    block_shuffle(10, 5, np.zeros(10))
    swap_partners(10, 5, np.zeros(10))
    block_shuffle(10, 5, np.zeros(10))
    {more}
loaded = "numba" in sys.modules
import numba
print(len(told), repr(numba.config.CACHE_DIR), loaded)
"""
MAKES_ARRAYS = "from discretion.kernels.rollup import small_classes; small_classes(np.arange(3), 2)"


def run(more: str = "", **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(more=more)],
        env=inherited | {"NUMBA_OPT": "3"} | environment,  # with a setting, nothing that came with a wheel is used
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(("more", "kept", "numba_again"), [("", "*.code", False), (MAKES_ARRAYS, "*.nbi", True)])
def test_told_once_when_compiling_and_not_when_loaded_from_the_users_cache(
    tmp_path: Path, more: str, kept: str, numba_again: bool
) -> None:
    assert run(more, XDG_CACHE_HOME=str(tmp_path)) == "1 '' True"  # and numba's own setting is as it was
    assert list((tmp_path / "discretion" / "numba").rglob(kept))
    assert run(more, XDG_CACHE_HOME=str(tmp_path)) == f"0 '' {numba_again}"


def test_a_cache_folder_chosen_for_numba_is_respected(tmp_path: Path) -> None:
    told, setting, _ = run(NUMBA_CACHE_DIR=str(tmp_path / "mine")).split()
    assert (told, setting) == ("1", repr(str(tmp_path / "mine")))
    assert list((tmp_path / "mine").rglob("*.code"))


def test_without_a_writable_folder_kernels_still_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert run(XDG_CACHE_HOME=str(blocked)) == "1 '' True"


def test_code_for_another_processor_or_that_was_cut_off_is_compiled_again(tmp_path: Path) -> None:
    here = {"XDG_CACHE_HOME": str(tmp_path)}
    assert run(**here) == "1 '' True"
    assert run(NUMBA_CPU_NAME="generic", **here) == "1 '' True"
    assert run(**here) == "0 '' False"
    for file in (tmp_path / "discretion" / "numba").rglob("*.code"):
        file.write_bytes(file.read_bytes()[:-100])
    assert run(**here) == "1 '' True"


def test_folder_follows_the_sources(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    folder = jit.cache_folder()
    assert folder is not None
    assert folder.parent == tmp_path / "discretion" / "numba"
    monkeypatch.setattr(jit, "_fingerprint", lambda: "other")
    assert jit.cache_folder() == tmp_path / "discretion" / "numba" / "other"


def test_importing_kernels_does_not_import_numba() -> None:
    program = "import sys; import discretion.kernels.linkage; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_only_kernels_of_the_package_count() -> None:
    told: list[int] = []

    @jit.kernel
    def twice(x: float) -> float:
        return 2 * x

    with jit.on_first_compile(lambda: told.append(1)):
        assert twice(1.5) == 3.0
    assert told == []


class Pair(NamedTuple):
    one: np.ndarray
    other: np.ndarray


@jit.lean_helper
def weighted(x: float, factor: float) -> float:
    return x * factor


@jit.lean_kernel
def all_kinds(
    n: int, factor: float, flag: bool, small: np.int32, key: np.uint64, pair: Pair, more: np.ndarray | None,
    matrix: np.ndarray, out: np.ndarray,
) -> tuple[int, float, bool]:  # fmt: skip
    total = 0.0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            total += weighted(matrix[i, j], factor)
    for i in range(n):
        out[i] = pair.one[i] * (10 if flag else 1) + pair.other[i] + small
        if more is not None:
            out[i] += more[i]
    return int(key >> np.uint64(1)), total, n > 2


@pytest.mark.parametrize(
    ("kind", "layout", "more"),
    [
        (np.float64, "C", None),
        (np.int32, "F", np.arange(4)),
        (np.int64, "strided", None),
        (np.bool_, "read-only", np.ones(4)),
    ],
)
def test_arguments_and_results_of_every_kind(kind: type, layout: str, more: np.ndarray | None) -> None:
    rng = np.random.default_rng(1)
    one, matrix = rng.integers(0, 2, 4).astype(kind), rng.normal(size=(6, 8))
    matrix = {"F": np.asfortranarray(matrix), "strided": matrix[::2, 1::3]}.get(layout, matrix)
    matrix.flags.writeable = layout != "read-only"
    for flag in (True, False):
        given = (3, 0.5, flag, np.int32(-7), np.uint64(2**64 - 1), Pair(one, np.arange(4.0)), more, matrix)
        out, wanted = np.full(4, 0.25), np.full(4, 0.25)
        found = all_kinds(*given, out)
        assert found == (2**63 - 1, pytest.approx(0.5 * matrix.sum()), True)
        wanted[:3] = one[:3] * (10.0 if flag else 1.0) - 7 + np.arange(3) + (0 if more is None else more[:3])
        np.testing.assert_array_equal(out, wanted)


def test_a_kernel_that_fails_raises_and_a_helper_called_from_python_runs_as_written() -> None:
    @jit.lean_kernel
    def divided(x: int, y: int) -> int:
        return x // y

    assert divided(7, 2) == 3
    with pytest.raises(ArithmeticError):
        divided(7, 0)
    assert weighted(3.0, 2.0) == 6.0


def test_what_cannot_be_called_without_numba_is_called_through_it() -> None:
    @jit.lean_kernel
    def double(x: complex) -> complex:
        return 2 * x

    assert double(1j) == 2j
    assert double(1.5) == 3.0
    assert double.ready  # type: ignore[attr-defined]
    assert double(2**63) == 2**64 % 2**64


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep a kernel in LLVM's language, as a wheel does, and make numba unusable."""
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jit, "BUILT", tmp_path / "built.zip")
    kinds: list[str] = []
    given = (np.arange(5.0), np.zeros(5))
    jit.unpack(given, kinds, [])
    compiled = running_sums._compile(given)  # type: ignore[attr-defined]
    head = json.dumps(list(jit.code_of(compiled, kinds)[1:]))
    with zipfile.ZipFile(jit.BUILT, "w") as archive:
        archive.comment = json.dumps(jit.built_for()).encode()
        archive.writestr(jit.name_of(running_sums, kinds), f"{head}\n{compiled.library.get_llvm_str()}")
    monkeypatch.setattr(jit._LeanKernel, "_compile", unusable)
    return jit.BUILT


class NumbaWasAskedError(Exception):
    pass


def unusable(*_: object) -> None:
    raise NumbaWasAskedError


@jit.lean_kernel
def running_sums(x: np.ndarray, out: np.ndarray) -> int:
    total = 0.0
    for i in range(x.size):
        total += x[i]
        out[i] = total
    return x.size


def again() -> np.ndarray:
    running_sums.ready.clear()  # type: ignore[attr-defined]
    out = np.zeros(5)
    assert running_sums(np.arange(5.0), out) == 5
    return out


def test_what_came_with_a_wheel_is_compiled_without_numba_and_kept(built: Path) -> None:
    told: list[int] = []
    with jit.on_first_compile(lambda: told.append(1)):
        assert again().tolist() == [0, 1, 3, 6, 10] and told == [1]
        built.unlink()
        assert again().tolist() == [0, 1, 3, 6, 10] and told == [1]


@pytest.mark.parametrize("change", ["sources", "setting", "cut off", "other types"])
def test_what_came_with_a_wheel_is_not_used_where_it_does_not_fit(
    built: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change == "sources":
        monkeypatch.setattr(jit, "_fingerprint", lambda: "other")
    elif change == "setting":
        monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    elif change == "cut off":
        built.write_bytes(built.read_bytes()[:-30])
    else:
        with pytest.raises(NumbaWasAskedError):
            running_sums(np.arange(5), np.zeros(5))
        return
    with pytest.raises(NumbaWasAskedError):
        again()
