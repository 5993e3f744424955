"""`discretion apply KIND IN OUT`: one method on one file; its options come from the method's fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import click

from discretion.cli.console import all_or_nothing, check_outputs, common_options, print_json, progress_bar, say
from discretion.cli.schema_options import (
    keep_order_option,
    order_file_option,
    read_with,
    schema_options,
    seed_option,
    source_options,
    structured,
    take_schema,
)
from discretion.errors import PlanError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from discretion.data.dataset import Dataset
    from discretion.part import Part


@click.group()
def seed() -> None:
    """Make seed files: the secret from which releases draw."""


@seed.command()
@click.argument("file")
@common_options
def new(file: str, as_json: bool, quiet: bool) -> None:
    """Draw a seed of 128 bits from the operating system and write it into a new file that only you may read."""
    from discretion.release.journal import SeedFile

    made = SeedFile.new(file)
    if as_json:
        print_json({"file": str(made.path)})
    say(f"a new seed in {made.path}: keep it secret; name it as `seed_file:` in the plan or by --seed-file", quiet)


_LEDGER = "privacy budget that pays for it: {path: FILE, table: NAME, epsilon: NUMBER, delta: NUMBER}"
_SCALARS = (str, int, float, bool, type(None))


class MethodCommands(click.Group):
    """One subcommand for each registered method, built when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name the methods."""
        from discretion.part import find, index

        return [kind for kind, e in index().items() if (e.family or find(kind).family) == "method"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Build the command of a method; an unknown one is an error with a hint."""
        from discretion.part import index

        if cmd_name in self.list_commands(ctx):
            return LazyMethodCommand(cmd_name, index()[cmd_name].summary)
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Suggest a method for a name that does not exist."""
        from discretion.errors import unknown

        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise PlanError(unknown("method", args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)


class LazyMethodCommand(click.Command):
    """Loads the method only when it is run or asked for help."""

    def __init__(self, kind: str, summary: str) -> None:
        super().__init__(kind, short_help=summary, callback=lambda **options: _run(kind, options))
        self._loaded = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Give the parameters, taken from the method's fields."""
        if not self._loaded:
            self._load()
        return super().get_params(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the method's docstring."""
        from discretion.part import find

        self.help = "\b\n" + help_of(find(self.name or "").documentation())
        super().format_help_text(ctx, formatter)

    def _load(self) -> None:
        from discretion.part import find

        part = find(self.name or "")
        shell = click.Command(None, params=[])
        decorated = _file_options(lambda **_: None)
        self.params = [click.Argument(["source"], metavar="IN"), click.Argument(["target"], metavar="OUT")]
        own = [_option(name, field, part.about(name)) for name, field in part.model_fields.items()]
        taken = {flag for option in own for flag in option.opts}
        others = reversed(getattr(decorated, "__click_params__", shell.params))
        if getattr(part, "private", False):
            own.append(click.Option(["--ledger"], metavar="YAML", help=_LEDGER))
        self.params += [*own, *(option for option in others if not taken & set(option.opts))]
        self._loaded = True


def help_of(docstring: str) -> str:
    """Give a docstring as help: without examples, and with each section's title on a line of its own."""
    text = inspect.cleandoc(docstring).partition("\nExamples\n")[0]
    return re.sub(r"(?m)^(\w+)\n-{3,}\n", r"\1:\n\n", text)


def _file_options(function: Any) -> Any:
    function = common_options(function)
    function = click.option("--dry-run", is_flag=True, help="protect, but write nothing")(function)
    function = click.option("--force", is_flag=True, help="overwrite OUT if it exists")(function)
    function = order_file_option(keep_order_option(seed_option(function)))
    function = source_options(function)
    return schema_options(function)


def _option(name: str, field: FieldInfo, about: str) -> click.Option:
    """Turn a field of a part into an option; pydantic checks the value."""
    from discretion.part import holds_parts, literal_options

    flag = "--" + name.replace("_", "-")
    help_text = about.replace("`", "")
    if field.annotation is bool:
        return click.Option([f"field_{name}", f"{flag}/--no-{flag[2:]}"], default=None, help=help_text)
    if holds_parts(field):
        shape = "KIND[:{FIELD: VALUE}]" + (", may be given several times" if is_many(field) else "")
        return click.Option(
            [f"field_{name}", flag],
            multiple=is_many(field),
            required=field.is_required(),
            help=f"{help_text} ({shape})",
            metavar="KIND[:FIELDS]",
        )
    options = literal_options(field.annotation)
    kind: Any = click.Choice(options) if options else str
    default = None if field.is_required() or field.default in (None, ()) else field.default
    if default is not None and default.__class__.__name__ != "PydanticUndefinedType":
        help_text += f" [default: {default}]"
    return click.Option(
        [f"field_{name}", flag],
        type=kind,
        required=field.is_required(),
        help=help_text,
        metavar=_metavar(field),
    )


def _metavar(field: FieldInfo) -> str | None:
    """Name the shape of a value; what holds lists or mappings inside is written as in a plan."""
    text = str(field.annotation)
    if field.annotation is Any or any(_is_deep(kind) for kind in _kinds(field.annotation)):
        return "YAML"
    if "Mapping" in text:
        return "COLUMN=VALUE,…"
    if "tuple" in text:
        return "A,B,…"
    return "NUMBER" if "float" in text or "int" in text else None


def _kinds(annotation: Any) -> list[Any]:
    """List what a value may be, without `Optional` and the validators of `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [kind for one in get_args(annotation) for kind in _kinds(one)]
    return [annotation]


def _is_deep(kind: Any) -> bool:
    """Tell whether a list or a mapping holds lists, mappings or objects."""
    if get_origin(kind) not in (tuple, Mapping):
        return False
    held = [one for argument in get_args(kind) if argument is not ... for one in _kinds(argument)]
    return any(get_origin(one) in (tuple, Mapping) or one not in _SCALARS for one in held)


def is_many(field: FieldInfo) -> bool:
    """Tell whether a field takes several values."""
    return "tuple" in str(field.annotation)


def part_spec(text: str, option: str) -> Any:
    """Read a part from an option's text: KIND, KIND:{field: value}, or what a plan writes, as JSON."""
    from discretion.data.documents import yaml_value

    if text.lstrip().startswith(("{", "[")):
        return structured(text, option)
    kind, _, fields = text.partition(":")
    try:
        spec = yaml_value(fields) if fields.strip() else {}
    except ValueError:
        raise PlanError(f"{option} {text!r}: expected KIND or KIND:{{field: value}}") from None
    return {kind.strip(): spec}


def _parts(given: Any, field: FieldInfo, option: str) -> Any:
    """Read the parts of a field: one, or several options of which each may hold a list."""
    if not is_many(field):
        return part_spec(given, option)
    specs = [part_spec(text, option) for text in given]
    return [one for spec in specs for one in (spec if isinstance(spec, list) else [spec])]


def parse_field(text: Any, annotation: Any, option: str) -> Any:
    """Turn an option's text into what the field expects: lists by commas, mappings by `name=value`, or YAML."""
    if not isinstance(text, str):
        return text
    shape = str(annotation)
    if annotation not in (str, str | None) and text.lstrip().startswith(("{", "[")):
        return structured(text, option)
    if "Mapping" in shape:
        pairs = [item.partition("=") for item in text.split(",") if item.strip()]
        return {name.strip(): value.strip() for name, _, value in pairs}
    if "tuple" in shape:
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def build_part(kind: str, options: dict[str, Any]) -> Part:
    """Build a part from options named `field_…`, which are taken out of the mapping."""
    from discretion.part import find, holds_parts

    part = find(kind)
    given = {name: options.pop(f"field_{name}") for name in part.model_fields}
    fields = {}
    for name, value in given.items():
        field = part.model_fields[name]
        if value is None or value == ():
            continue
        option = "--" + name.replace("_", "-")
        inside = holds_parts(field)
        fields[name] = _parts(value, field, option) if inside else parse_field(value, field.annotation, option)
    return part(**fields)


@click.command(cls=MethodCommands, name="apply", subcommand_metavar="KIND IN OUT [OPTIONS]")
def apply() -> None:
    """Protect a file by one method: discretion apply KIND IN OUT."""


_LOOKED_AT = 10_000
"""Rows from which columns without a role are guessed."""


def write_released(
    released: Dataset, original: Dataset, seed: int, target: str, options: dict[str, Any], quiet: bool
) -> None:
    """Write protected data in a random order of rows, or in its own with `--keep-order`; say which."""
    from discretion.data.households import codes_lost, codes_without_definition, publishable
    from discretion.data.write import replacing, write
    from discretion.release.journal import write_order
    from discretion.release.order import missing_words, order_words, permuted

    if options["dry_run"]:
        return
    keep = options["keep_order"]
    data = publishable(released) if keep else permuted(released, seed)
    write(data, target, overwrite=options["force"])
    if options["order_file"]:
        with replacing(Path(options["order_file"]), overwrite=options["force"], private=True) as temporary:
            write_order(temporary, original, data)
    say(order_words("keep" if keep else "permute", data), quiet)
    spss = target.lower().endswith((".sav", ".zsav"))
    for words in missing_words(codes_lost(data), codes_without_definition(data, spss)):
        say(words, quiet)
    _name_telling(data, quiet)


_WHO = ("identifier", "unit", "household")


def _name_telling(data: Dataset, quiet: bool) -> None:
    """Name identifiers, and columns that nobody gave a role and that look as if they told who somebody is."""
    from discretion.data.detect import propose

    if known := data.having("identifier"):
        say(f"note: the file holds identifiers ({', '.join(known)}); `apply drop-identifiers` takes them out", quiet)
    looks = propose(data.frame.head(_LOOKED_AT))
    telling = [one for one in looks if one.role in _WHO and not data.schema[one.column].has_role]
    if telling:
        names = ", ".join(f"{one.column} ({one.role})" for one in telling)
        say(
            f"note: published as they are, though they look as if they told who somebody is: {names}. Drop them, or "
            "give roles: `discretion roles IN -o plan.yaml` proposes a plan that judges every column",
            quiet,
        )


def _run(kind: str, options: dict[str, Any]) -> None:
    from discretion.context import Context, new_seed
    from discretion.data.native import bounding_numbers
    from discretion.method import Method
    from discretion.release.journal import SeedFile

    method = build_part(kind, options)
    schema, reading = take_schema(options)
    quiet, source, target = options["quiet"], options["source"], options["target"]
    check_outputs(
        target, options["order_file"],
        force=options["force"], as_json=options["as_json"], dry_run=options["dry_run"],
    )  # fmt: skip
    seeds = SeedFile.read(options["seed_file"]) if options["seed_file"] else None
    seed = seeds.seed if seeds else new_seed()
    if not isinstance(method, Method):
        raise click.UsageError(f"{kind} is not a method")
    with bounding_numbers(method.private):
        data = read_with(source, schema, reading, quiet)
    if options.get("ledger"):
        from discretion.release.plan import Plan

        budget = Plan.from_dict({"ledger": structured(options["ledger"], "--ledger")}).budget
        if budget is not None:
            budget.charge(method, data)
            say(budget.account(), options["quiet"])
    with progress_bar(quiet) as progress:
        ran = method.run(data, Context(seed, kind, progress))
    released, drawn = ran.data, {} if ran.drawn is None else {kind: ran.drawn}
    if seeds is not None:
        seeds.allow(drawn)
        if not options["dry_run"]:
            seeds.remember(drawn)
    with all_or_nothing(target, options["order_file"]):
        write_released(released, data, seed, target, options, quiet)
    say(
        f"{kind}: {len(released)} rows × {len(released.columns)} columns {'' if options['dry_run'] else f'→ {target}'}",
        quiet,
    )
    if not options["dry_run"]:
        say("nothing was required of this file: to publish, put the method into a plan (`discretion run`)", quiet)
    if options["as_json"]:
        print_json(
            {
                "kind": kind,
                "rows": len(released),
                "columns": list(released.columns),
                "written": not options["dry_run"],
            }
        )
