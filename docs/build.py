"""Build the documentation: a page for every part, made from its class, then the site (no network is used)."""

from __future__ import annotations

import doctest
import inspect
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from live import FAMILIES

from discretion.measure import Measure
from discretion.part import Part, all_parts, is_confidential

HERE = Path(__file__).parent
SITE = HERE.parent / "site"
_NATURES = {
    "method": "protection method",
    "model": "privacy model",
    "risk": "measure of risk",
    "utility": "measure of utility",
    "rule": "rule for cells of tables",
    "table-protection": "protection of tables",
    "table-engine": "engine of cell suppression",
}
_LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
"""Elements of a page that make a browser fetch something, and the attribute that says from where."""


# --- pages of parts ----------------------------------------------------------------------------------------------


def page(part: type[Part], guides: list[tuple[str, str]]) -> str:
    """Write the page of a part: its docstring, a table of its fields, its example, its guides."""
    text = inspect.cleandoc(part.documentation())
    body, _, rest = text.partition("References\n----------\n")
    references, _, examples = rest.partition("Examples\n--------\n")
    lines = [f"# {part.__name__}", "", _nature(part), "", body.strip(), ""]
    lines += ["## Example", "", "```pycon", examples.strip(), "```", ""]
    lines += ["## Fields", "", *_fields(part), ""]
    if guides:
        lines += ["## Guides", "", ", ".join(f"[{title}](../{name})" for title, name in guides), ""]
    lines += ["## References", "", references.strip(), ""]
    return "\n".join(lines)


def _nature(part: type[Part]) -> str:
    """Say in a line what the part is, how plans call it, and how its figure reads."""
    article = "An" if part.family == "table-engine" else "A"
    line = f"*{article} {_NATURES[part.family]}; `{part.kind}` in plans and on the command line."
    if issubclass(part, Measure):
        low, high = ("" if bound is None else f"{bound:g}" for bound in part.limits)
        span = f"from {low} to {high}" if low and high else f"from {low} up" if low else f"up to {high}" if high else ""
        needs = "the original and the release" if part.needs == "both" else "one data set"
        line += f" The figure lies {span}" if span else " The figure has no bounds"
        line += f"; {part.better} is better. It needs {needs}."
    return line + "*"


def _fields(part: type[Part]) -> list[str]:
    if not part.model_fields:
        return ["None."]
    rows = ["| field | default | meaning |", "|---|---|---|"]
    for name, field in part.model_fields.items():
        default = "required" if field.is_required() else _shown(field.get_default(call_default_factory=True))
        secret = " *(confidential)*" if is_confidential(field) else ""
        meaning = part.about(name).replace("|", "\\|").replace("\n", " ")
        rows.append(f"| `{name}` | {default} | {meaning}{secret} |")
    return rows


def _shown(default: object) -> str:
    """Write a default as a user would; what is empty or a part of its own is said in words."""
    if default is None or default == () or (hasattr(default, "keys") and not default):
        return "none"
    if isinstance(default, Part):
        return f"`{type(default).__name__}`"
    text = repr(default)
    return f"`{text}`" if len(text) <= 40 else f"`{type(default).__name__}()`"


def guides_of(parts: list[type[Part]]) -> dict[str, list[tuple[str, str]]]:
    """Find the pages that name each part."""
    found: dict[str, list[tuple[str, str]]] = {part.kind: [] for part in parts}
    for file in sorted(HERE.glob("*.md")):
        text = file.read_text(encoding="utf-8")
        title = text.partition("\n")[0].lstrip("# ")
        names = set(re.findall(r"\b[A-Z]\w+", text))
        for part in parts:
            if part.__name__ in names and re.search(rf"(`|dc\.){part.__name__}\b", text):
                found[part.kind].append((title, file.name))
    return found


def write_parts(folder: Path) -> list[str]:
    """Write all pages and their index; give the names of parts whose example does not do what it says."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    parts = list(all_parts())
    guides = guides_of(parts)
    index = ["# Parts", "", "Every method, model, measure and rule, made from its class; each example was run.", ""]
    for family, title in FAMILIES.items():
        index += [f"## {title}", "", "| name | in plans | what it does |", "|---|---|---|"]
        for part in (p for p in parts if p.family == family):
            (folder / f"{part.kind}.md").write_text(page(part, guides[part.kind]), encoding="utf-8")
            index.append(f"| [{part.__name__}]({part.kind}.md) | `{part.kind}` | {part.summary()} |")
        index.append("")
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")
    return [part.__name__ for part in parts if not runs(part)]


def runs(part: type[Part]) -> bool:
    """Run the example of a part and tell whether it gives what it says."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    found = doctest.DocTestFinder(recurse=False).find(part, part.__name__, globs={})
    return bool(found) and all(runner.run(case).failed == 0 for case in found)


# --- the site ----------------------------------------------------------------------------------------------------


class _Requests(HTMLParser):
    """Collects what a page makes a browser fetch from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at the address of an element that is loaded."""
        given = dict(attrs)
        address = given.get(_LOADED.get(tag, "")) or ""
        style = given.get("style") or ""
        if re.match(r"(https?:)?//", address) or re.search(r"url\(\s*['\"]?(https?:)?//", style):
            self.found.append(f"<{tag}> {address or style}")


def external_requests(site: Path) -> list[str]:
    """Name everything in the built site that would be fetched from the network."""
    found = []
    for file in sorted(site.rglob("*.html")):
        parser = _Requests()
        parser.feed(file.read_text(encoding="utf-8"))
        found += [f"{file.relative_to(site)}: {one}" for one in parser.found]
    for file in sorted(site.rglob("*.css")):
        text = file.read_text(encoding="utf-8")
        found += [
            f"{file.relative_to(site)}: {one}" for one in re.findall(r"(?:url\(|@import )['\"]?https?://[^)'\"]+", text)
        ]
    return found


def main() -> int:
    """Write the pages and build the site strictly: a broken link, a wrong example or a request is an error."""
    if wrong := write_parts(HERE / "parts"):
        print("examples that do not give what they say:", ", ".join(wrong), file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(HERE.parent / "mkdocs.yml")]
    code = subprocess.run(command, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode
    if code == 0 and (requests := external_requests(SITE)):
        print("the site would fetch from the network:", *requests, sep="\n  ", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
