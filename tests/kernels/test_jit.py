"""The cache of compiled kernels, and being told of a compile. Run in new processes: compiling happens once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from discretion.kernels import jit

PROGRAM = """
import numpy as np
from discretion.kernels.jit import on_first_compile
told = []
with on_first_compile(lambda: told.append(1)):
    from discretion.kernels.rank_swap import block_shuffle, swap_partners
    block_shuffle(10, 5, np.zeros(10))
    swap_partners(10, 5, np.zeros(10))
    block_shuffle(10, 5, np.zeros(10))
import numba
print(len(told), repr(numba.config.CACHE_DIR))
"""


def run(**environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_told_once_when_compiling_and_not_when_loaded_from_the_users_cache(tmp_path: Path) -> None:
    assert run(XDG_CACHE_HOME=str(tmp_path)) == "1 ''"  # and numba's own setting is as it was
    assert list((tmp_path / "discretion" / "numba").rglob("*.nbi"))
    assert run(XDG_CACHE_HOME=str(tmp_path)) == "0 ''"


def test_a_cache_folder_chosen_for_numba_is_respected(tmp_path: Path) -> None:
    told, setting = run(NUMBA_CACHE_DIR=str(tmp_path / "mine")).split(maxsplit=1)
    assert (told, setting) == ("1", repr(str(tmp_path / "mine")))
    assert list((tmp_path / "mine").rglob("*.nbi"))


def test_without_a_writable_folder_kernels_still_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert run(XDG_CACHE_HOME=str(blocked)) == "1 ''"


def test_folder_follows_the_sources(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = jit.cache_folder()
    assert folder is not None
    assert folder.parent == tmp_path / "discretion" / "numba"
    monkeypatch.setattr(jit, "_fingerprint", lambda: "other")
    assert jit.cache_folder() == tmp_path / "discretion" / "numba" / "other"


def test_importing_the_module_does_not_import_numba() -> None:
    program = "import sys; import discretion.kernels.jit; print('numba' in sys.modules)"
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
