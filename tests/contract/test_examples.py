"""Every example in the documentation runs and gives what it says."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path

import pytest

import discretion as dc
from discretion.part import all_parts

ROOT = Path(__file__).parents[2]
CLASSES = [*all_parts(), dc.Dataset, dc.Study, dc.Plan]


@pytest.mark.parametrize("cls", CLASSES, ids=[c.__name__ for c in CLASSES])
def test_docstring(cls: type) -> None:
    found = doctest.DocTestFinder(recurse=False).find(cls, cls.__name__, globs={})
    assert found and found[0].examples, f"{cls.__name__} has no example"
    for case in found:
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(case)
        assert result.failed == 0


def blocks(path: Path) -> Iterator[str]:
    """Yield the Python blocks of a page; a block that begins with `# not run` is shown only."""
    for piece in path.read_text(encoding="utf-8").split("```python\n")[1:]:
        code = piece.partition("```")[0]
        if not code.startswith("# not run"):
            yield code


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if any(blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    people = dc.datasets.census(4000, seed=1).frame.drop("diagnoses", "birth_date", "municipality", "household")
    people = people.filter(people["age"] < 80)
    people.drop("person_id" if page.name == "README.md" else []).write_csv("census.csv")
    regions = people["region"].unique().sort().to_list()
    Path("region.csv").write_text(
        "".join(f"{name};{'north' if i < 6 else 'south'};*\n" for i, name in enumerate(regions))
    )
    Path("plan.yaml").write_text(plan_of(ROOT / "README.md"), encoding="utf-8")
    names: dict[str, object] = {}
    for code in blocks(page):
        exec(compile(code, str(page), "exec"), names)


def plan_of(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]


def test_the_plan_in_the_readme_is_valid(tmp_path: Path) -> None:
    (tmp_path / "region.csv").write_text("a;north;*\n")
    (tmp_path / "plan.yaml").write_text(plan_of(ROOT / "README.md"), encoding="utf-8")
    plan = dc.Plan.load(tmp_path / "plan.yaml")
    assert len(plan.steps) == 3 and len(plan.requirements) == 2
