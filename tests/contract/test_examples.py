"""Every example in the documentation runs and gives what it says."""

from __future__ import annotations

import doctest
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import discretion as dc
from discretion.part import Family, all_parts

ROOT = Path(__file__).parents[2]
CLASSES = [*all_parts(), dc.Dataset, dc.Study, dc.Plan]


@pytest.mark.parametrize("cls", CLASSES, ids=[c.__name__ for c in CLASSES])
def test_docstring(cls: type) -> None:
    found = doctest.DocTestFinder(recurse=False).find(cls, cls.__name__, globs={})
    assert found and found[0].examples, f"{cls.__name__} has no example"
    for case in found:
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(case)
        assert result.failed == 0


LIVE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "live.py"))


def blocks(path: Path) -> Iterator[str]:
    """Yield the Python blocks of a page, as the site runs them."""
    yield from LIVE["blocks"](path.read_text(encoding="utf-8"))


IN_ORDER = ("tour.md", "tuning.md")
"""Pages that run with their commands, as the README does: tests/cli/test_readme.py."""
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if any(blocks(page)) and page.name not in IN_ORDER]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    LIVE["prepare"](tmp_path, page.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for code in blocks(page):
        exec(compile(code, str(page), "exec"), names)


def test_names_of_parts_become_links() -> None:
    text = "`Mdav` and `dc.Mdav(k=3)`, [`Mdav`](x.md), `Nobody`\n```python\n`Mdav`\n```\n# `Mdav`"
    linked = "[`Mdav`](parts/mdav.md) and [`dc.Mdav(k=3)`](parts/mdav.md), [`Mdav`](x.md), `Nobody`"
    assert LIVE["link_parts"](text, "tour.md") == text.replace(text.partition("\n")[0], linked)
    assert LIVE["link_parts"]("`Mdav`", "parts/mdav.md") == "`Mdav`"
    assert LIVE["link_parts"]("`Mdav`", "parts/sse.md") == "[`Mdav`](mdav.md)"


def test_every_page_stands_in_the_navigation_and_every_entry_is_a_page() -> None:
    from yaml import safe_load

    def entries(item: Any) -> Iterator[str]:
        if isinstance(item, str):
            yield item
        else:
            for inner in item.values() if isinstance(item, dict) else item:
                yield from entries(inner)

    named = set(entries(safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert named == {page.name for page in (ROOT / "docs").glob("*.md")} | {"parts/index.md"}


def test_every_family_has_pages() -> None:
    assert set(LIVE["FAMILIES"]) == set(get_args(Family)) >= {part.family for part in all_parts()}


def test_an_address_on_the_network_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    build = runpy.run_path(str(ROOT / "docs" / "build.py"), run_name="build")
    (tmp_path / "a.html").write_text(
        '<a href="https://x.org">ok</a><img src="b.png"><script src="//x.org/s.js"></script>'
    )
    (tmp_path / "a.css").write_text("@import 'https://x.org/f.css'; p { background: url(b.png) }")
    found = build["external_requests"](tmp_path)
    assert [line.partition(":")[0] for line in found] == ["a.html", "a.css"]
