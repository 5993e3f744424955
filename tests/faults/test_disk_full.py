"""A full disk, or a user who gives up, at every stage of writing: nothing partial, nothing lost, nothing left."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.errors import DataError
from tests.faults.breaking import STAGES, disk_full, failing
from tests.release.survey import PLAN, put_survey

PUBLIC = ["codebook.html", "codebook.md", "codebook.xml", "data.csv", "report.html", "report.json"]
PRIVATE = ["decisions.json", "journal.json", "order.npy", "plan.yaml", "report.html", "seed"]


def tree(folder: Path) -> dict[str, bytes | None]:
    """Give everything below a folder, hidden things and empty folders included."""
    return {str(f.relative_to(folder)): f.read_bytes() if f.is_file() else None for f in sorted(folder.rglob("*"))}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dc.Release:
    plan = PLAN[: PLAN.index("output:")]
    return dc.Plan.load(put_survey(tmp_path_factory.mktemp("data"), plan)).run(seed=1)


def is_whole(folder: Path) -> bool:
    """Tell whether a release stands there with every file, the data being what the report says."""
    import hashlib

    if sorted(f.name for f in (folder / "out").iterdir()) != PUBLIC:
        return False
    report = json.loads((folder / "out" / "report.json").read_text())
    return report["data"]["sha256"] == hashlib.sha256((folder / "out" / "data.csv").read_bytes()).hexdigest()


def write_with_faults(release: dc.Release, folder: Path, stage: str, error: object, *, overwrite: bool) -> int:
    """Let every call of a stage fail in turn; give the number of failures seen."""
    folder.mkdir()
    if overwrite:
        release.write(folder / "out", folder / "secret")
    before = tree(folder)
    failed = 0
    for number in range(1, 100):
        with failing(stage, number, error) as counter:  # type: ignore[arg-type]
            try:
                release.write(folder / "out", folder / "secret", overwrite=overwrite)
            except (DataError, KeyboardInterrupt) as caught:
                failed += 1
                assert tree(folder) == before, (stage, number)
                if isinstance(caught, DataError):
                    assert "the disk is full" in str(caught), (stage, number)
                continue
        assert is_whole(folder), (stage, number)
        if counter.calls < number:
            break
        if not overwrite:  # a failure that does no harm, as that of flushing a folder's name
            release.write(folder / "out", folder / "secret", overwrite=True)
            for place in ("out", "secret"):
                for file in (folder / place).iterdir():
                    file.unlink()
                (folder / place).rmdir()
        else:
            before = tree(folder)
    return failed


LEAST = {"fsync": 8, "replace": 1, "rename": 2, "mkdir": 2, "chmod": 5, "write": 6}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("error", [disk_full, KeyboardInterrupt], ids=["disk full", "interrupt"])
def test_a_first_release_appears_whole_or_not_at_all(
    release: dc.Release, tmp_path: Path, stage: str, error: object
) -> None:
    assert write_with_faults(release, tmp_path / "x", stage, error, overwrite=False) >= LEAST[stage]


@pytest.mark.parametrize("stage", STAGES)
def test_an_earlier_release_survives(release: dc.Release, tmp_path: Path, stage: str) -> None:
    failed = write_with_faults(release, tmp_path / "x", stage, disk_full, overwrite=True)
    assert failed >= LEAST[stage] + (2 if stage == "rename" else 0)


# --- a limit of the operating system, so that the writers of each format meet it themselves -------------------------


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


EXCEL = pytest.param("xlsx", marks=pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
"""xlsxwriter leaves an open archive behind when it cannot write; the garbage collector complains of it later."""


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", EXCEL, "jsonl", "dta", "sav", "xpt"])
def test_every_format_of_data_fails_cleanly(release: dc.Release, tmp_path: Path, kind: str) -> None:
    from dataclasses import replace

    wanted = replace(release, plan=release.plan.with_output(format=kind))
    with files_at_most(700), pytest.raises(DataError):
        wanted.write(tmp_path / "out", tmp_path / "secret")
    assert tree(tmp_path) == {}
    wanted.write(tmp_path / "out", tmp_path / "secret")
    assert (tmp_path / "out" / f"data.{kind}").stat().st_size > 700  # so the limit was met


# --- the command line ------------------------------------------------------------------------------------------------


def test_exit_code_and_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put_survey(tmp_path)
    before = tree(tmp_path)
    with failing("rename", 2):
        assert run(["run", str(path), "--json"]) == 3
    out, err = capsys.readouterr()
    assert "the disk is full; nothing was published" in err and json.loads(out)["error"]["exit_code"] == 3
    assert tree(tmp_path) == before


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put_survey(tmp_path)
    (tmp_path / "file").write_text("in the way")
    before = tree(tmp_path)
    assert run(["run", str(path), "--out", str(tmp_path / "file" / "out")]) == 3
    assert "was not written" in capsys.readouterr().err and tree(tmp_path) == before


def test_apply_keeps_the_old_file(tmp_path: Path) -> None:
    put_survey(tmp_path)
    (tmp_path / "new.csv").write_text("old")
    before = tree(tmp_path)
    command = ["apply", "top-code", str(tmp_path / "survey.csv"), str(tmp_path / "new.csv")]
    for stage in ("fsync", "replace"):
        with failing(stage, 1):
            assert run([*command, "--column", "age", "--at", "40", "--force"]) == 3
        assert tree(tmp_path) == before
