"""`discretion hierarchy`: make hierarchies from the values of a column, look at them, and check them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import check_files, common_options, print_json, print_table, say, shown
from discretion.cli.schema_options import reading_options, structured, take_reading
from discretion.errors import DataError, PlanError

if TYPE_CHECKING:
    from discretion.data.hierarchy import Hierarchy, HierarchyLevels, Rows


@click.group(name="hierarchy")
def hierarchy() -> None:
    """Make hierarchies from the values of a column, look at them, and check them."""


@hierarchy.command()
@click.argument("source", metavar="IN")
@click.argument("column", metavar="COLUMN")
@click.option("--masking", is_flag=True, help="mask one more character at each level: 80222, 8022*, 802**, …")
@click.option("--keep", type=int, metavar="N", help="with --masking: characters that stay until the top")
@click.option("--side", type=click.Choice(["right", "left"]), help="with --masking: where masking begins")
@click.option("--intervals", type=float, metavar="WIDTH", help="intervals of this width, doubled at each further level")
@click.option("--levels", type=int, metavar="N", help="with --intervals: number of levels, the last of which is *")
@click.option("--origin", type=float, metavar="NUMBER", help="with --intervals: a bound of intervals; default 0")
@click.option(
    "--cuts",
    multiple=True,
    metavar="A,B,…",
    help="bounds of the intervals of one level; once for each level, fine first",
)
@click.option("--dates", metavar="LEVELS", help="coarsen dates: month, quarter, year, decade, separated by commas")
@click.option("--groups", multiple=True, metavar="YAML", help="groups of one level: '{couple: [married]}'; fine first")
@click.option("--tree", metavar="FILE", help="nested mappings with lists of values at the bottom (YAML or JSON)")
@click.option("--out", "-o", metavar="FILE", help="where the hierarchy is written; default: standard output")
@click.option("--force", is_flag=True, help="overwrite the file if it exists")
@reading_options
@common_options
def make(source: str, column: str, out: str | None, force: bool, as_json: bool, quiet: bool, **options: Any) -> None:
    """Make a hierarchy for the values of a column and write it as a CSV file, one row per value.

    The file lists the values of the data: keep it as private as they are.
    """
    from discretion.data.hierarchy import hierarchy_text
    from discretion.data.write import write_text

    reading = take_reading(options)
    recipe = _recipe(options)
    if as_json and out == "-":
        raise PlanError("--json and --out - both go to standard output; write the hierarchy to a file")
    if out not in (None, "-"):
        check_files([str(out)], force=force)
    levels = _bound(recipe, _values(source, column, reading, quiet), column)
    text = hierarchy_text(levels.table)
    if out not in (None, "-"):
        write_text(Path(str(out)), text, overwrite=force)
        say(f"written: {out} ({levels.size:,} values, levels 0 to {levels.height})", quiet)
    elif not as_json:
        click.echo(text, nl=False)
    if as_json:
        rows = {"rows": [list(row) for row in zip(*levels.table, strict=True)]} if out is None else {"written": out}
        print_json({"column": column, **_described(levels), **rows})


def _bound(recipe: Hierarchy, values: list[Any], column: str) -> HierarchyLevels:
    """Work out the levels; every value must have a row, and one that a file does not keep as it is, is an error."""
    from discretion.data.hierarchy import canonical

    levels = recipe.bind(values, column)
    levels.rows([canonical(value) for value in values])
    padded = sum(label != label.strip() for label in levels.table[0])
    if padded:
        raise DataError(f"column {column!r}: {padded:,} values begin or end with spaces, which a hierarchy file drops")
    return levels


@hierarchy.command()
@click.argument("file", metavar="FILE")
@click.option("--delimiter", help="delimiter of the file, instead of the one found")
@common_options
def show(file: str, delimiter: str | None, as_json: bool, quiet: bool) -> None:  # noqa: ARG001 - shows results only
    """Show the levels of a hierarchy file: how many labels each has, and how many values they stand for."""
    from discretion.data.hierarchy import TableHierarchy

    levels = TableHierarchy.from_rows(_rows(file, delimiter), source=_name(file)).bind([])
    if as_json:
        print_json({"file": _name(file), **_described(levels)})
        return
    rows = [
        (str(one["level"]), f"{one['labels']:,}", f"{one['smallest']:,}", shown(one["mean"]), f"{one['largest']:,}",
         ", ".join(one["first"]) + (" …" if one["labels"] > len(one["first"]) else ""))
        for one in _described(levels)["levels"]
    ]  # fmt: skip
    heads = ("level", "labels", "smallest", "mean", "largest", "first labels")
    print_table(f"{_name(file)}: {levels.size:,} values (sizes: values under a label)", heads, rows, (0, 1, 2, 3, 4))


@hierarchy.command()
@click.argument("file", metavar="FILE")
@click.option("--data", "source", metavar="IN", help="data whose values must have a row")
@click.option("--column", metavar="COLUMN", help="column of the data that the hierarchy is for")
@click.option("--file-delimiter", metavar="TEXT", help="delimiter of FILE, instead of the one found")
@reading_options
@common_options
def check(
    file: str, source: str | None, column: str | None, file_delimiter: str | None, as_json: bool, quiet: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Check a hierarchy file, and whether it fits a column. Exit code 2: the file is wrong, 3: values have no row.

    Finds rows of different length, values with two rows, levels that do not nest, labels that mean different things at
    two levels, and values of the column without a row; and tells what is worth knowing without being wrong.
    """
    from discretion.data.hierarchy import check_hierarchy

    if (source is None) != (column is None):
        raise PlanError("give both --data IN and --column COLUMN, or neither")
    if file == "-" and source == "-":
        raise PlanError("FILE and --data cannot both be standard input")
    rows = _rows(file, file_delimiter)
    values = None if source is None else _values(source, str(column), take_reading(options), quiet)
    checked = check_hierarchy(rows, values)
    if as_json:
        listed = [{"kind": f.kind, "fault": f.error is not None, "count": f.count, "text": f.text,
                   "examples": f.examples} for f in checked.findings]  # fmt: skip
        print_json({"file": _name(file), "column": column, "holds": not checked.faults, "findings": listed})
    for finding in checked.findings:
        say(f"{'error' if finding.error else 'note'}: {_name(file)}: {finding.text}", quiet and finding.error is None)
    if not checked.faults:
        say(f"{_name(file)}: nothing is wrong" + ("" if column is None else f" for column {column!r}"), quiet)
    return min((finding.error.exit_code for finding in checked.faults if finding.error), default=0)


def _recipe(options: dict[str, Any]) -> Hierarchy:
    """Build the hierarchy that the options ask for; exactly one rule must be named."""
    from discretion.data.hierarchy import Hierarchy

    rules = ("masking", "intervals", "cuts", "dates", "groups", "tree")
    named = [rule for rule in rules if options[rule] not in (None, False, ())]
    if len(named) != 1:
        listed = ", ".join(f"--{rule}" for rule in rules)
        raise PlanError(f"give exactly one of {listed}" + (f", not {len(named)}" if named else ""))
    (rule,) = named
    _refuse_foreign(options, rule)
    if rule == "masking":
        given = {"keep": options["keep"], "side": options["side"]}
        return Hierarchy.masking(**{name: value for name, value in given.items() if value is not None})
    if rule == "intervals":
        if options["levels"] is None:
            raise PlanError("--intervals needs --levels N")
        return Hierarchy.intervals(options["intervals"], options["levels"], options["origin"] or 0)
    if rule == "cuts":
        return Hierarchy.intervals(cuts=[_numbers(text) for text in options["cuts"]])
    if rule == "dates":
        return Hierarchy.dates(*(level.strip() for level in options["dates"].split(",")))
    if rule == "groups":
        return Hierarchy.of({"groups": {"levels": [structured(text, "--groups") for text in options["groups"]]}})
    return Hierarchy.of({"tree": _tree(options["tree"])})


_BELONG = {"keep": "masking", "side": "masking", "levels": "intervals", "origin": "intervals"}


def _refuse_foreign(options: dict[str, Any], rule: str) -> None:
    wrong = [name for name, owner in _BELONG.items() if options[name] is not None and owner != rule]
    if wrong:
        raise PlanError([f"--{name} goes with --{_BELONG[name]}, not with --{rule}" for name in wrong])


def _numbers(text: str) -> list[float]:
    try:
        return [float(item) for item in text.strip("[] ").split(",") if item.strip()]
    except ValueError:
        raise PlanError(f"--cuts {text!r}: expected numbers with commas between them") from None


def _tree(file: str) -> Any:
    from discretion.data.hierarchy import decode_hierarchy

    if file != "-" and not Path(file).is_file():
        raise PlanError(f"--tree: no file {file!r}")
    content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    tree = structured(decode_hierarchy(content), f"--tree {file}")
    if not isinstance(tree, dict):
        raise PlanError(f"--tree {file}: expected nested mappings with lists of values at the bottom")
    return tree


def _values(source: str, column: str, reading: dict[str, Any], quiet: bool) -> list[Any]:
    """Read the different values of a column, missing ones left out."""
    from discretion.data.read import read

    data = read(source, columns=[column], report=lambda text: say(f"{source}: {text}", quiet), **reading)
    return [value for value in data.codes(column).values if value is not None]


def _name(file: str) -> str:
    return "standard input" if file == "-" else file


def _rows(file: str, delimiter: str | None) -> Rows:
    from discretion.data.hierarchy import decode_hierarchy, hierarchy_rows, split_rows

    if file == "-":
        return split_rows(decode_hierarchy(sys.stdin.buffer.read()), "standard input", delimiter)
    return hierarchy_rows(file, delimiter)


_FIRST = 4


def _described(levels: HierarchyLevels) -> dict[str, Any]:
    """Describe each level: its labels, how many values they stand for, and the first of them."""
    found = []
    for level in range(levels.height + 1):
        counts = levels.leaves_under(level)
        found.append(
            {
                "level": level,
                "labels": len(counts),
                "smallest": min(counts.values()),
                "mean": levels.size / len(counts),
                "largest": max(counts.values()),
                "first": list(counts)[:_FIRST],
            }
        )
    return {"values": levels.size, "levels": found}
