"""Build the documentation: a page for every part, made from its class, then the site (no network is used)."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

from discretion.part import Part, all_parts, is_confidential

HERE = Path(__file__).parent
FAMILIES = {
    "method": "Methods",
    "model": "Privacy models",
    "risk": "Measures of risk",
    "utility": "Measures of utility",
    "rule": "Rules for cells of tables",
}


def page(part: type[Part]) -> str:
    """Write the page of a part: its docstring and a table of its fields."""
    text = inspect.cleandoc(part.__doc__ or "")
    body, _, rest = text.partition("References\n----------\n")
    references, _, examples = rest.partition("Examples\n--------\n")
    lines = [
        f"# {part.__name__}",
        "",
        f"`{part.kind}` in plans and on the command line",
        "",
        body.strip(),
        "",
        "## Fields",
        "",
    ]
    lines += ["| field | default | meaning |", "|---|---|---|"]
    for name, field in part.model_fields.items():
        default = "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"
        secret = " *(confidential)*" if is_confidential(field) else ""
        meaning = (field.description or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| `{name}` | {default} | {meaning}{secret} |")
    lines += [
        "",
        "## Example",
        "",
        "```pycon",
        examples.strip(),
        "```",
        "",
        "## References",
        "",
        references.strip(),
        "",
    ]
    return "\n".join(lines)


def write_parts(folder: Path) -> None:
    """Write all pages and their index."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    index = ["# Parts", ""]
    for family, title in FAMILIES.items():
        index += [f"## {title}", ""]
        for part in (p for p in all_parts() if p.family == family):
            (folder / f"{part.kind}.md").write_text(page(part), encoding="utf-8")
            index.append(f"- [{part.__name__}]({part.kind}.md): {part.summary()}")
        index.append("")
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")


def main() -> int:
    """Write the pages and build the site strictly: a broken link is an error."""
    write_parts(HERE / "parts")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(HERE.parent / "mkdocs.yml")]
    return subprocess.run(command, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
