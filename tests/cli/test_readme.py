"""Every block of the README, the tour and the page on tuning runs as it stands, in order, in what the demo left."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from discretion.cli.app import run
from tests.cli.conftest import Cli

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BEFORE = ("make web", "make demo", "make test", "cd demo && . ../.venv/bin/activate")
"""Lines of the README that lead to the folder of the demo; the test stands in it."""
LEFT = {
    "README.md": [
        "out",
        "out-private",
        "anonymized.csv",
        "public",
        "public-private",
        "proposed.yaml",
        "map.html",
        "best.yaml",
        "tuned",
    ],
    "docs/tour.md": ["out", "plan-of-today.yaml", "again", "assessment.html"],
    "docs/tuning.md": ["map.html", "best.yaml", "tuned.html", "tuned.svg", "tuned", "comparison.html", "a.csv"],
}
"""What the blocks of each page write."""
pytestmark = pytest.mark.xdist_group("demo")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme") / "demo"
    assert run(["demo", "--out", str(folder), "--quiet", "--json"]) == 0
    return folder


def commands(block: str) -> Iterator[list[str]]:
    """Yield the commands of a block without those that lead to the folder; anything but `discretion` is a fault."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and shlex.join(words) not in [shlex.join(shlex.split(known)) for known in BEFORE]:
            assert words[0] == "discretion", line
            yield words[1:]


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md", pytest.param("docs/tuning.md", marks=pytest.mark.slow)])
def test_every_block_runs_in_order(
    page: str, demo: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(demo, folder)
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for language, block in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if language == "yaml":
            named = re.match(r"# ([\w-]+\.yaml)\n", block)
            assert named, f"a plan of {page} does not say as which file it is saved"
            assert not Path(named[1]).exists()
            Path(named[1]).write_text(block, encoding="utf-8")
        elif language == "python":
            exec(compile(block, page, "exec"), names)
        else:
            assert language in ("sh", "bash"), language
            for words in commands(block):
                done = cli(*words)
                assert done.code == 0, (words, done.err)
    assert [name for name in LEFT[page] if not Path(name).exists()] == []
