"""A strict little reader of HTML: balanced tags, headings, pictures, references."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "br", "hr", "img", "input", "link"}


@dataclass
class Page:
    """What was found in a page."""

    tags: list[str] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    svgs: int = 0
    titled: int = 0
    faults: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.stack: list[str] = []
        self.heading = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.tags.append(tag)
        given = {key: value or "" for key, value in attrs}
        self.page.attributes += [(tag, key, value) for key, value in given.items()]
        if "id" in given:
            self.page.ids.append(given["id"])
        if tag == "a":
            self.page.links.append(given.get("href", ""))
        if tag == "svg":
            self.page.svgs += 1
            if given.get("role") != "img":
                self.page.faults.append("an svg without role=img")
        if tag == "title" and self.stack and self.stack[-1] == "svg":
            self.page.titled += 1
        if tag == "th" and given.get("scope") not in ("row", "col"):
            self.page.faults.append("a th without scope")
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.page.tags.append(tag)
        self.page.attributes += [(tag, key, value or "") for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.page.faults.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] == "style":
            return
        self.page.text.append(data)
        if self.stack and self.stack[-1] in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.page.headings.append((int(self.stack[-1][1]), data))


def read(html: str) -> Page:
    """Read a page and collect its faults."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    if reader.stack:
        reader.page.faults.append(f"never closed: {reader.stack}")
    return reader.page


def assert_sound(html: str) -> Page:
    """Assert everything that must hold for every report."""
    page = read(html)
    assert page.faults == []
    assert html.startswith("<!DOCTYPE html>")
    assert '<html lang="en">' in html
    assert page.tags.count("h1") == 1
    levels = [level for level, _ in page.headings]
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert page.titled == page.svgs == page.tags.count("desc")
    assert "script" not in page.tags
    assert not {"img", "link", "iframe", "object"} & set(page.tags)
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert "url(" not in html
    assert not any(key.startswith("on") or key == "src" for _, key, _ in page.attributes)
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert "NaN" not in html
    assert ">nan<" not in html
    assert len(html.encode()) < 1_000_000
    return page
