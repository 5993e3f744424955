"""Run the examples of the pages while the site is built, show what they print, and link the names of parts."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discretion.part import index
from discretion.release.example import PEOPLE, write_example

ROOT = Path(__file__).parents[1]
WIDTH = 110
"""Longest line of what an example prints beside a table; longer sentences are broken."""

FAMILIES = {
    "method": "Methods",
    "model": "Privacy models",
    "risk": "Measures of risk",
    "utility": "Measures of utility",
    "rule": "Rules for cells of tables",
    "table-protection": "Protections of tables",
    "table-engine": "Engines of cell suppression",
}
"""The families of parts and their headings."""

_FENCE = re.compile(r"^```python\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<![\[`\\])`(?:dc\.)?(?P<name>[A-Z]\w+)(?:\([^`]*\))?`(?![\]`])")
_BOX = frozenset("│┌└╞─┆")


def blocks(text: str) -> Iterator[str]:
    """Yield the Python blocks of a page; a block that begins with `# not run` is shown only."""
    for found in _FENCE.finditer(text):
        if not found[1].startswith("# not run"):
            yield found[1]


def prepare(folder: Path, page: str) -> None:
    """Write the files that the examples of a page read: data, hierarchies and plan of the demo, as it leaves them."""
    if "census.csv" in page or "hierarchies/" in page:
        write_example(folder, PEOPLE)


def on_config(config: Any, **_: Any) -> Any:
    """Put the pages of the parts into the navigation, below `Reference`."""
    reference = next(item for item in config.nav if "Reference" in item)["Reference"]
    for family, title in FAMILIES.items():
        kinds = {entry.name: entry.kind for entry in index().values() if entry.family == family}
        reference.append({title: [{name: f"parts/{kinds[name]}.md"} for name in sorted(kinds)]})
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put what each example prints below it, and link the names of parts to their pages."""
    source = page.file.src_uri
    if not source.startswith("parts/"):
        markdown = _with_output(markdown, source)
    return link_parts(markdown, source)


def _with_output(markdown: str, source: str) -> str:
    if not any(blocks(markdown)):
        return markdown
    names: dict[str, object] = {}

    def shown(found: re.Match[str]) -> str:
        code = found[1]
        if code.startswith("# not run"):
            return found[0].replace("# not run\n", "", 1)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), _plain_tables():
            exec(compile(code, source, "exec"), names)
        text = printed.getvalue()
        shape = "" if _BOX & set(text) else " .words"  # sentences are broken by the browser, tables are not
        text = _narrow(text) if not shape else text
        return f"{found[0]}\n``` {{ .text .output{shape} }}\n{text.rstrip()}\n```\n" if text else found[0]

    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), markdown)
        os.chdir(folder)
        try:
            return _FENCE.sub(shown, markdown)
        finally:
            os.chdir(home)


def _plain_tables() -> Any:
    """Print frames without their shape and types."""
    import polars as pl

    return pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, tbl_width_chars=WIDTH)


def _narrow(text: str) -> str:
    """Break long sentences; tables stay as they are."""
    lines: list[str] = []
    for line in text.splitlines():
        lines += [line] if len(line) <= WIDTH or _BOX & set(line) else textwrap.wrap(line, WIDTH)
    return "".join(f"{line}\n" for line in lines)


def link_parts(markdown: str, source: str) -> str:
    """Turn the name of a part in a sentence or a table into a link to its page."""
    pages = {entry.name: entry.kind for entry in index().values()}
    here = Path(source).stem if source.startswith("parts/") else ""
    folder = "" if source.startswith("parts/") else "parts/"

    def linked(found: re.Match[str]) -> str:
        kind = pages.get(found["name"])
        return found[0] if kind is None or kind == here else f"[{found[0]}]({folder}{kind}.md)"

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        lines.append(line if fenced or line.startswith(("#", "```")) else _CODE.sub(linked, line))
    return "\n".join(lines)
