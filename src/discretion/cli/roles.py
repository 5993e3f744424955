"""`discretion roles IN`: propose a role for each column, with the reason, and write a plan to be read and confirmed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import check_files, common_options, print_json, print_table, say
from discretion.cli.schema_options import missing_codes_option, reading_options, take_missing_codes, take_reading

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.dataset import Dataset
    from discretion.data.detect import Proposal

# The steps and requirements of a proposed plan: what is left out, moved, put together and asked for.

K = 5
_FOUND_BY = 0.05
"""A number is moved if more than this share of the records has a value that fewer than k people have."""
_POOLED = 10
"""Sensitive categories with fewer records are put together."""
_MOST_POOLED = 0.1
"""Codes are shortened where more than this share of the records would be pooled."""
_CATEGORIES = 20
_RECORDS_A_TERM = 20
"""A model with fewer records for each of its terms would repeat the data."""
_INTERVALS = 5
"""Terms that a number takes which is generalized before it predicts others."""
_TAIL = 0.01
_LINKED = (0.2, 0.5)
"""Largest share of the people whom a linkage over everything may find, where all sensitive columns are moved, and
where some stand as they are."""
_GUARDED = 3
"""Records that must agree in quasi-identifiers and sensitive categories where these would find too many people."""
_ROOM = 0.8
"""Share of the limit that the trial may reach: numbers that were dealt out anew still tell a little."""
_TELLS = 0.9
"""Share of the records from which on a column is said to tell another."""
_GROUPING = {"drop-identifiers", "generalize", "group-categories", "km-generalization", "optimal-generalization"}
_ENOUGH = 100
"""In smaller files chance alone may find more people than the limit allows."""


@dataclass(frozen=True)
class ProposedProtection:
    """What is proposed to protect a file, worded as the end of a plan."""

    data: Dataset
    proposals: Sequence[Proposal]
    moves_all: bool = False
    """all sensitive numbers are moved, also those of which each value is frequent"""
    guards: bool = False
    """cells are suppressed where too few records agree in the sensitive categories as well"""

    @cached_property
    def quasi(self) -> list[Proposal]:
        """The columns that an intruder may know, without sets."""
        return [p for p in self.proposals if "quasi" in p.roles and p.type != "set"]

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Give the columns that name nobody but are dropped too, and why, with the way to publish them."""
        found: dict[str, str] = {}
        for p in self.proposals:
            if "household" in p.roles:
                found[p.column] = (
                    "who lives together; counting rows gives back the size of a household, and few are alike. To "
                    "publish it (numbered anew), take it off this list and require `household-k-anonymity`"
                )
            elif "unit" in p.roles:
                found[p.column] = (
                    "which records are of one person, and by which number; k counts people by it all the same. To "
                    "publish it (numbered anew), take it off this list: who knows several of a person finds more"
                )
            elif p.type == "set" and p.role != "identifier" and not self._has_code_items(p):
                found[p.column] = (
                    "sets of items, by which most people stand alone. To publish them, write a hierarchy of the items "
                    f"and the step `km-generalization: {{columns: [{quoted(p.column)}], k: {K}, m: 2, item_hierarchy: "
                    "…}` with the requirement `km-anonymity`"
                )
            elif p.role == "other" and p.distinct > 1:
                found[p.column] = (
                    f"{p.distinct:,} different values, which no step protects: taken off this list, it is published "
                    "exactly as it is"
                )
            elif "stratum" in p.roles and (told := self._told_by(p.column)):
                found[p.column] = (
                    f"it tells {', '.join(told)} of nearly everybody, which get less detail. To publish it, give it "
                    "less detail too"
                )
            elif p in self._categories and self._pooled(p.column) > 0.5:
                found[p.column] = (
                    f"most values stand in fewer than {self._least} records, or all but one do. To publish it, write "
                    "groups that make sense (`group-categories`)"
                )
        return found

    def _told_by(self, column: str) -> list[str]:
        """Name the quasi-identifiers of which a column tells the values of nine tenths of the records."""
        import polars as pl

        told = []
        for name in (p.column for p in self.quasi if p.distinct > 1 and p.column != column):
            pairs = self.data.frame.group_by(column, name).len()
            right = int(pairs.group_by(column).agg(pl.col("len").max())["len"].sum())
            usual = int(pairs.group_by(name).agg(pl.col("len").sum())["len"].to_numpy().max())
            if right >= _TELLS * len(self.data) > usual:
                told.append(name)
        return told

    @cached_property
    def _sets(self) -> list[Proposal]:
        kept = [p for p in self.proposals if p.type == "set" and p.role in ("quasi", "sensitive")]
        return [p for p in kept if p.column not in self.left_out]

    @cached_property
    def _confidential(self) -> list[Proposal]:
        return [p for p in self.proposals if p.role == "sensitive" and p.type != "set" and p.distinct > 1]

    @cached_property
    def _categories(self) -> list[Proposal]:
        """The sensitive columns of text with categories that few records have."""
        found = [p for p in self._confidential if not self.data.is_numeric(p.column) and p.type != "date"]
        return [p for p in found if self._sizes(p.column).min() < K]

    @property
    def _least(self) -> int:
        return _POOLED if len(self.data) >= 20 * _POOLED else K

    def _sizes(self, column: str) -> Any:
        codes = self.data.codes(column)
        present = [value is not None for value in codes.values]
        return codes.counts_and_rows[0][present]

    def _pooled(self, column: str) -> float:
        """Give the share of the records that would be pooled; all of them where one category would be left."""
        sizes = self._shortened(column)
        small = sizes[sizes < self._least]
        if len(sizes) - len(small) < (1 if small.sum() >= self._least else 2):
            return 1.0
        return float(small.sum() / sizes.sum())

    def _shortened(self, column: str) -> Any:
        """Give the sizes of the categories, of codes by their first three characters where that is proposed."""
        if column not in self._shortened_codes:
            return self._sizes(column)
        heads = self.data.frame[column].drop_nulls().cast(str).str.head(3)
        return heads.value_counts()["count"].to_numpy()

    @cached_property
    def _shortened_codes(self) -> dict[str, int]:
        """Give the level at which codes have three characters left, for columns with many rare ones."""
        found: dict[str, int] = {}
        for p in self._categories:
            sizes = self._sizes(p.column)
            rare = float(sizes[sizes < self._least].sum() / sizes.sum())
            if p.column in self._code_lengths and rare > _MOST_POOLED:
                found[p.column] = self._code_lengths[p.column] - 3
        return found

    def _has_code_items(self, p: Proposal) -> bool:
        items = self._cells(p.column).list.explode().drop_nulls().str.strip_chars().unique()
        return len(items) > 1 and bool(items.str.contains(_CODE).all())

    def _cells(self, column: str) -> pl.Series:
        import polars as pl

        cells = self.data.frame[column].drop_nulls()
        return cells.str.split("|") if cells.dtype == pl.String else cells.cast(pl.List(pl.String))

    @property
    def hierarchies(self) -> dict[str, dict[str, Any]]:
        """Give the hierarchies of sensitive codes, besides those of the quasi-identifiers."""
        return {column: {"masking": {}} for column in self._code_lengths if column not in self.left_out}

    def about_levels(self, column: str) -> str:
        """Say, where codes are sensitive, which levels have a meaning, as a remark at the end of a line."""
        if column not in self.hierarchies:
            return ""
        longest = self._code_lengths[column]
        return f"  # codes: level {longest - 3} leaves three characters, level {longest - 1} the first"

    @cached_property
    def _code_lengths(self) -> dict[str, int]:
        """Give the length of the longest code, for sensitive columns of codes with more than three characters."""
        from discretion.data.detect import are_codes

        found: dict[str, int] = {}
        for p in self._confidential:
            if not self.data.is_numeric(p.column) and p.type == "nominal":
                texts = [str(value) for value in self.data.codes(p.column).values if value is not None]
                if (longest := max(map(len, texts))) > 3 and are_codes(texts):
                    found[p.column] = longest
        return found

    @cached_property
    def _moved(self) -> list[str]:
        """Name the sensitive numbers of which many stand so rarely that one of them finds a record.

        A number that the members of a household, or the records of a person, share counts once.
        """
        return [
            p.column
            for p in self._confidential
            if self.data.is_numeric(p.column)
            and p.type == "continuous"
            and (self.moves_all or self._stands_alone(p.column))
        ]

    def _stands_alone(self, column: str) -> bool:
        import polars as pl

        owners = [p.column for p in self.proposals if {"household", "unit"} & {*p.roles}]
        frame = self.data.frame.select(column, *owners).drop_nulls(column)
        people = pl.struct(owners).n_unique() if owners else pl.len()
        rare = frame.group_by(column).agg(people.alias("people"), pl.len().alias("rows")).filter(pl.col("people") < K)
        return bool(rare["rows"].sum() > _FOUND_BY * frame.height)

    @cached_property
    def _predictors(self) -> list[str]:
        """Name the columns whose relation with moved numbers is kept: the few that a model with enough records holds.

        What matters most to users comes first; numbers take one term, categories one each.
        """
        from discretion.data.detect import propose_importance

        worth = propose_importance(self.proposals)
        present = [self.data.frame[name].is_not_null() for name in self._moved]
        complete = present[0].to_numpy().copy() if present else None
        for more in present[1:]:
            complete &= more.to_numpy()
        room = (0 if complete is None else int(complete.sum())) // _RECORDS_A_TERM - 1
        others = [*sorted(self.quasi, key=lambda p: -worth[p.column]), *self._confidential]
        chosen: list[str] = []
        for p in others:
            if p.column in self._moved or p.column in self.left_out or p.distinct < 2:
                continue
            number = self.data.is_numeric(p.column) and p.type in ("continuous", "ordinal")
            known = "quasi" in p.roles  # put into intervals first, each a term
            terms = min(p.distinct, _INTERVALS if known else 1) if number else p.distinct + (p.missing > 0)
            if (number or (p.type == "nominal" and p.distinct <= _CATEGORIES)) and terms <= room:
                chosen.append(p.column)
                room -= terms
        return chosen

    def _tails(self) -> list[str]:
        """Write the steps after which the largest and the smallest numbers cannot be told apart."""
        lines: list[str] = []
        for p in self._confidential:
            if not self.data.is_numeric(p.column) or p.type != "continuous":
                continue
            if p.column in self._moved and not self._predictors:
                continue  # becomes the mean of a group, which no single value tells
            values = self.data.frame[p.column].drop_nulls()
            share = max(_TAIL, 2 * K / len(values))
            if share > 0.1:
                continue
            name = quoted(p.column)
            if int((values == values.max()).sum()) < K:
                lines.append(f"  - top-code: {{column: {name}, quantile: {1 - share:.4g}, replace: mean}}")
            if int((values == values.min()).sum()) < K:
                lines.append(f"  - bottom-code: {{column: {name}, quantile: {share:.4g}, replace: mean}}")
        note = "  # The largest and smallest numbers are what people recognize: each tail gets its mean."
        return [note, *lines] if lines else []

    def _moves(self) -> list[str]:
        """Write the step that moves numbers of which many stand once in the file."""
        if not self._moved:
            return []
        columns = listed(self._moved)
        alone = [name for name in self._moved if self._stands_alone(name)]
        note = "  # Many of these numbers stand once in the file: who knows the exact one of a person finds the record."
        if alone != self._moved:
            note = "  # Together with the other columns these numbers are those of one person: who knows them finds it."
        if self._predictors:
            return [
                note,
                "  # Dealing them out anew keeps their distribution, and relations with the predictors as published;",
                "  # others are lost. It comes after these lost detail, which dealt values would tell otherwise.",
                "  # Leave the step out only if nobody outside can know such a number.",
                f"  - shuffle: {{columns: [{columns}], predictors: [{listed(self._predictors)}]}}",
            ]
        return [
            note,
            f"  # Each becomes the mean of at least {K} similar records, whom nobody tells apart by it: totals stay.",
            f"  - mdav: {{columns: [{columns}], k: {K}, precision: original}}",
        ]

    def _groups(self) -> list[str]:
        lines: list[str] = []
        kept = [p.column for p in self._categories if p.column not in self.left_out]
        shortened = {column: level for column, level in self._shortened_codes.items() if column in kept}
        if kept:
            lines.append("  # A category that few people have finds them: codes are shortened, rare ones put together.")
        if shortened:
            levels = ", ".join(f"{quoted(column)}: {level}" for column, level in shortened.items())
            lines.append(f"  - generalize: {{levels: {{{levels}}}}}")
        small = [column for column in kept if self._shortened(column).min() < K]
        return [
            *lines,
            *(f"  - group-categories: {{column: {quoted(name)}, smaller_than: {self._least}}}" for name in small),
        ]

    def _drops(self) -> list[str]:
        names = [p.column for p in self.proposals if "identifier" in p.roles]
        if not self.left_out:
            return ["  - drop-identifiers"] if names else []
        return [
            f"  # Left out{', besides the columns that name people' if names else ''}:",
            *(f"  # {quoted(column)}: {reason}." for column, reason in self.left_out.items()),
            f"  - drop-identifiers: {{columns: [{listed([*names, *self.left_out])}]}}",
        ]

    def _set_steps(self) -> list[str]:
        note = [
            "  # Whoever knows two items of a person and nothing else is left with five records; who knows more of",
            "  # them, or items and age, may still find one: leave the column out if that can be known.",
        ]
        return [
            *(note if self._sets else []),
            *(
                f"  - km-generalization: {{columns: [{quoted(p.column)}], k: {K}, m: 2, "
                "item_hierarchy: {masking: {}}, suppression_limit: 0.05}"
                for p in self._sets
            ),
        ]

    def lines(self) -> list[str]:
        """Write the steps, and what must hold before anything is published."""
        from discretion.data.detect import is_lopsided, propose_importance

        confidential = [p for p in self._confidential if p.column not in self.left_out]
        lopsided = [p.column for p in confidential if is_lopsided(self.data, p.column)]
        mixed = [p.column for p in confidential if p.column not in lopsided]
        models = [f"distinct-l-diversity: {{l: 2, sensitive: {quoted(name)}}}" for name in mixed]
        models = [f"k-anonymity: {{k: {K}}}", *models] if self.quasi else []
        steps = [*self._drops(), *self._groups(), *self._set_steps()]
        steps += self._tails() if self.quasi else []
        dealt = bool(self._moved and self._predictors)
        steps += [] if dealt else self._moves()
        worth = propose_importance(self.proposals)
        if models:
            steps += [
                "  - optimal-generalization:",
                "      suppression_limit: 0.05  # largest share of the records that may be dropped",
                "      models:",
                *(f"        - {model}" for model in models),
                "      # What the detail of a column is worth to users: what weighs little is given up first.",
                "      importance:",
                *(f"        {quoted(name)}: {weight:g}" for name, weight in worth.items()),
                *self._bounds(),
                *self._guard(),
                *(self._moves() if dealt else []),
                *(self._last(models, dealt) if self.guards or dealt else []),
            ]
        if worth and any("weight" in p.roles for p in self.proposals):
            by = [name for name, weight in worth.items() if weight == max(worth.values())]
            steps += [
                "  # An exact weight tells the stratum it was made for, and often the person.",
                f"  - reissue-weights: {{by: [{listed(by)}], smallest: {K}}}",
            ]
        models += [f"km-anonymity: {{k: {K}, m: 2, columns: [{quoted(p.column)}]}}" for p in self._sets]
        linkage = self._linkage(confidential)
        required = [f"  - {model}" for model in models]
        if not models and self._moved:  # nothing but amounts, as of firms
            columns = listed(self._moved)
            required = [
                f"  - k-anonymity: {{k: {K}, columns: [{columns}]}}",
                f"  # Whoever knows them finds one of at least {K} records that are alike.",
                f"  - distance-linkage: {{columns: [{columns}], at_most: {1 / K + 0.01}}}",
            ]
        if models and linkage and len(self.data) >= _ENOUGH:
            required += [*self._why_limit(), f"  - {linkage}"]
            linkage = ""
        return [
            *(
                ["steps:", *steps]
                if steps
                else ["# Nothing that identifies was found: values go out as they are.", "steps: none"]
            ),
            "",
            "# What must hold before anything is published.",
            *(
                f"# Nearly all records share one value of {quoted(name)}, so that no class is asked for a second one: "
                "`group-attack` in the report tells what is learned."
                for name in (lopsided if self.quasi else [])
            ),
            *(["requirements:", *required] if required else ["requirements: none"]),
            *(
                [
                    "  # Would stop a release in which whoever knows all these columns finds people:",
                    *self._why_limit(),
                    f"  # - {linkage}",
                ]
                if models and linkage
                else []
            ),
        ]

    def _last(self, models: Sequence[str], dealt: bool) -> list[str]:
        """Write the step that makes the models hold again after cells were suppressed or values dealt out."""
        return [
            *(
                ["  # Values that were dealt out may be alike in a class: what must hold is made to hold."]
                if dealt
                else []
            ),
            "  - local-suppression:",
            "      models:",
            *(f"        - {model}" for model in models),
        ]

    def _guard(self) -> list[str]:
        """Write the steps without which quasi-identifiers and sensitive categories together would find most people."""
        if not self.guards:
            return []
        columns = listed([p.column for p in self.quasi] + self.kept)
        worth = ", ".join(f"{quoted(name)}: 2" for name in self.kept)
        least = K if self._sets else _GUARDED  # sets that are suppressed must not leave items that fewer have
        return [
            f"  # Values of {listed(self.kept)} stay with their records. Tried on this file, they and the columns",
            "  # above together find more people than the limit below allows: cells are suppressed where fewer than",
            f"  # {least} records agree in all of them, and what the classes then need. To lose less, leave",
            "  # the column out (drop-identifiers), put more values together (group-categories) or change some (pram).",
            f"  - local-suppression: {{columns: [{columns}], k: {least}, importance: {{{worth}}}}}",
        ]

    @property
    def limit(self) -> float:
        """Give the largest share of the people whom a linkage over everything may find."""
        return _LINKED[bool(self.kept)]

    @cached_property
    def kept(self) -> list[str]:
        """Name the published columns, sensitive or of sets, whose values stay with their records."""
        return [p.column for p in (*self._confidential, *self._sets) if p.column not in {*self.left_out, *self._moved}]

    def share_found(self, text: str, base: Path) -> float:
        """Try the steps that group records on the data: the share of the people whom who knows all the rest finds.

        That is the number of different records, the columns that are dealt out anew left out. 0 where no limit is
        proposed; where the search fails, the run will say so.
        """
        import yaml

        from discretion.data.dataset import Dataset
        from discretion.errors import DiscretionError
        from discretion.release.plan import Plan
        from discretion.release.study import Study

        if not self.quasi or not self.kept or len(self.data) < _ENOUGH:
            return 0.0
        try:
            plan = Plan.from_dict(yaml.safe_load(text), base)
            study = Study(Dataset(self.data.frame, schema=plan.schema), seed=0)
            for step in plan.steps:
                if step.method.kind in _GROUPING:
                    study = study.apply(step)
        except DiscretionError:
            return 0.0
        left = study.current
        return len(left.classes([*(p.column for p in self.quasi), *self.kept])) / max(len(left), 1)

    def _linkage(self, confidential: Sequence[Proposal]) -> str:
        known = [p.column for p in self.quasi]
        if not known or not (confidential or self._sets):
            return ""
        columns = listed([*known, *(p.column for p in (*confidential, *self._sets))])
        return f"distance-linkage: {{columns: [{columns}], at_most: {self.limit}}}"

    def _why_limit(self) -> list[str]:
        """Say where the largest share of people that a linkage may find comes from."""
        if self.kept:
            return [
                f"  # at_most: values of {listed(self.kept)} stay with their records, so that who knows them finds",
                f"  # many; {_LINKED[1]} stops what finds most people. {_LINKED[0]} is proposed where every sensitive",
                "  # column is dealt out anew. Set what your users and the law allow.",
            ]
        return [
            f"  # at_most: every sensitive column is dealt out anew, so that {_LINKED[0]} can be asked for;",
            f"  # where some stay with their records, {_LINKED[1]} is proposed. Set what your users and the law allow.",
        ]

    def _bounds(self) -> list[str]:
        """Write the least level of postal codes: three characters are as fine as most tables need."""
        from discretion.data.words import says_postal_code

        found: dict[str, int] = {}
        for p in self.quasi:
            texts = [str(value) for value in self.data.codes(p.column).values if value is not None]
            postal = says_postal_code(p.said) or "postal codes" in p.reason
            if postal and p.type == "nominal" and len({len(text) for text in texts}) == 1 and len(texts[0]) > 3:
                found[p.column] = len(texts[0]) - 3
        if not found:
            return []
        return [
            "      # Postal codes: three characters at most.",
            f"      levels: {{{', '.join(f'{quoted(name)}: [{level}, null]' for name, level in found.items())}}}",
        ]


_CODE = r"^(?:[A-Za-z]{1,4}[-_. ]?\d[0-9A-Za-z.]*|\d{3,})$"


def listed(columns: Sequence[str]) -> str:
    """Write columns one after the other."""
    return ", ".join(map(quoted, columns))


def quoted(text: object) -> str:
    """Write text so that YAML reads it back as text."""
    plain = str(text)
    return (
        plain
        if plain.replace("_", "").isalpha() and plain.lower() not in _YAML_WORDS
        else json.dumps(plain, ensure_ascii=False)
    )


_YAML_WORDS = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}


@click.command()
@click.argument("source", metavar="IN")
@click.option("--out", "-o", metavar="PLAN", help="write the proposals to this plan file, to be read and confirmed")
@click.option("--force", is_flag=True, help="overwrite the plan file if it exists")
@missing_codes_option
@reading_options
@common_options
def roles(source: str, out: str | None, force: bool, as_json: bool, quiet: bool, **reading: Any) -> None:
    """Propose roles for the columns of a file, with the reasons."""
    from discretion.data.detect import propose, with_missing
    from discretion.data.read import read

    given = take_missing_codes(reading)
    options = take_reading(reading)
    if out is not None:
        check_files([out], force=force)
    data = read(source, missing_codes=given, report=lambda text: say(f"{source}: {text}", quiet), **options)
    proposals = propose(data)
    found = {p.column: p.missing_codes for p in proposals if p.missing_codes}
    if out is not None:
        _write_plan(source, with_missing(data, found), proposals, Path(out), options, {**given, **found})
        say(f"proposals written to {out}; read them, then set `confirmed: true`", quiet)
    if as_json:
        fields = ("column", "role", "roles", "type", "reason", "confidence", "distinct", "missing", "missing_codes")
        print_json({"roles": [{name: getattr(p, name) for name in fields} for p in proposals]})
        return
    known = [p for p in proposals if "quasi" in p.roles]
    rows = [(p.column, ", ".join(p.roles), p.type, p.confidence, p.reason) for p in proposals]
    print_table(f"{len(data):,} rows", ("column", "role", "type", "confidence", "reason"), rows)
    if found:
        listed = "; ".join(f"{name}: {', '.join(map(str, codes))}" for name, codes in found.items())
        say(f"taken for codes of missing values, which the plan lists under `missing_codes`: {listed}", quiet)
    if len(known) > _MANY:
        say(f"{len(known)} {_TOO_MANY}", quiet)


def _write_plan(
    source: str,
    data: Dataset,
    proposals: Sequence[Proposal],
    path: Path,
    options: dict[str, Any],
    codes: Mapping[str, Sequence[object]],
) -> None:
    from discretion.data.detect import propose_hierarchy
    from discretion.data.write import write_text

    if "://" not in source and source != "-":
        source = os.path.relpath(source, path.parent)
    lines = [
        "# Proposed by `discretion roles`. Read every line, correct it, then set `confirmed: true`:",
        "# a plan whose roles are not confirmed does not run.",
        "confirmed: false",
        "",
    ]
    if options:
        lines += [
            "data:",
            f"  path: {quoted(source)}",
            *(f"  {k}: {json.dumps(v, ensure_ascii=False)}" for k, v in options.items()),
        ]
    else:
        lines.append(f"data: {quoted(source)}")
    known = sum("quasi" in p.roles for p in proposals)
    lines += [
        "",
        *([f"# {known} {_TOO_MANY}"] if known > _MANY else []),
        "roles:",
        *(f"  {quoted(p.column)}: {_listed(p.roles)}  # {p.confidence} confidence: {p.reason}" for p in proposals),
    ]
    lines += ["", "types:", *(f"  {quoted(p.column)}: {p.type}" for p in proposals)]
    if codes:
        lines += [
            "",
            "# Numbers that stand for missing values. Take out what is a value: listed here, it is none to any step or",
            "# attack; a column that no step changes goes out as it came in, codes and all.",
            "missing_codes:",
            *(f"  {quoted(name)}: {json.dumps(list(listed), ensure_ascii=False)}" for name, listed in codes.items()),
        ]
    quasi = [p for p in proposals if "quasi" in p.roles]
    found = {p.column: rule for p in quasi if (rule := propose_hierarchy(data, p)) is not None}
    protection = ProposedProtection(data, proposals)
    found |= protection.hierarchies
    if found:
        lines += [
            "",
            "# What a value becomes at each level, from fine to coarse; after the last it is hidden (*). Categories",
            "# are put together by how rare they are: better, write groups that make sense,",
            "# `groups: {levels: [{married: [married, separated], not married: [single, widowed]}]}`.",
        ]
        lines.append("hierarchies:")
        for name, rule in found.items():
            lines.append(f"  {quoted(name)}: {json.dumps(rule, ensure_ascii=False)}{protection.about_levels(name)}")
    for moves_all, guards in ((False, False), (True, False), (True, True)):
        protection = replace(protection, moves_all=moves_all, guards=guards)
        text = "\n".join([*lines, "", *protection.lines(), "", _output(source, path.parent), ""])
        if not guards and protection.share_found(text, path.parent) <= _ROOM * protection.limit:
            break
    write_text(path, text, overwrite=True)


def _output(source: str, beside: Path) -> str:
    """Write where the release goes; in the format that the data came in, so that labels of codes are kept.

    Where a release stands there already it is another one, which must not be overwritten with its journal.
    """
    from discretion.data.text import EXTENSIONS
    from discretion.release.plan import OUTPUT_FORMATS

    found = EXTENSIONS.get(Path(source).suffix.lower(), "csv")
    kept = found != "csv" and found in OUTPUT_FORMATS
    taken = any((beside / name).exists() for name in ("release", "release-private"))
    folder = quoted(f"{Path(source).stem}-release") if taken else "release"
    return f"output: {{folder: {folder}, format: {found}}}" if kept else f"output: {folder}"


def _listed(roles: Sequence[str]) -> str:
    return roles[0] if len(roles) == 1 else f"[{', '.join(roles)}]"


_MANY = 10
_TOO_MANY = (
    "columns count as known to an intruder (quasi): no two people are alike in so many, and most will be hidden. "
    "Give those that nobody outside can know (answers, measurements) the role sensitive, and leave out what nobody "
    "needs."
)
