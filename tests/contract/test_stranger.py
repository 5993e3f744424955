"""A method that somebody adds in one file passes every contract test with no other edit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import discretion as dc

ROOT = Path(__file__).parents[2]
PACKAGE = Path(dc.__file__).parent


def written() -> str:
    """Give the method that CONTRIBUTING.md shows."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return page.partition("```python\n")[2].partition("```")[0]


def package_with(extra: str, folder: Path) -> None:
    """Lay out the package again, by links, with one more file among the methods."""
    made = folder / "discretion"
    (made / "protect").mkdir(parents=True)
    for source in (PACKAGE, PACKAGE / "protect"):
        for item in source.iterdir():
            target = made / item.relative_to(PACKAGE)
            if not target.exists() and item.name != "__pycache__":
                target.symlink_to(item)
    (made / "protect" / "stranger.py").write_text(extra, encoding="utf-8")


def contract(extra: str, folder: Path) -> subprocess.CompletedProcess[str]:
    package_with(extra, folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k"]
    return subprocess.run(
        [*command, "round-to-base or RoundToBase or test_the_index_finds", str(ROOT / "tests" / "contract")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_method_of_the_guide_passes_with_no_other_edit(tmp_path: Path) -> None:
    run = contract(written(), tmp_path)
    assert run.returncode == 0, run.stdout[-3000:]
    passed = int(run.stdout.split(" passed")[0].split()[-1])
    assert passed > 20, run.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "failing"),
    [
        ("/ self.base) *", "/ self.base + rng.random(block.shape)) *", "test_draws_follow_the_seed"),
        ("what values become multiples of", "", "test_every_field_is_documented"),
    ],
)
def test_a_method_that_breaks_its_word_is_told(tmp_path: Path, right: str, wrong: str, failing: str) -> None:
    assert right in written()
    run = contract(written().replace(right, wrong), tmp_path)
    assert run.returncode == 1 and f"{failing}[round-to-base]" in run.stdout, run.stdout[-3000:]
