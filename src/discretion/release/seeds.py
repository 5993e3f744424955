"""Seed files: a secret seed, and (hashed) what published releases drew from it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from discretion.context import SMALL_SEED, Context, keyed_hash, new_seed
from discretion.data.write import alone_beside, write_text
from discretion.errors import PlanError

_HEX_DIGITS = 32
_USED = "used "
OTHER_STEPS = "steps that draw nothing, or the columns"
"""Under this name stands what the steps do as a whole, beside the keys of those that draw."""


def seed_text(seed: int) -> str:
    """Write a seed as 0x and at least 32 digits."""
    return f"0x{seed:0{_HEX_DIGITS}x}\n"


@dataclass(frozen=True)
class SeedFile:
    """A seed with what was published from it; each use holds for every step that drew a keyed hash of its stream."""

    path: Path
    seed: int
    long: bool
    """at least 128 bits as they are written, and not a small number with zeros before it"""
    uses: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def new(cls, path: str | Path) -> SeedFile:
        """Draw a seed and write it into a new file that only the owner may read."""
        file = Path(path)
        write_text(file, seed_text(new_seed()), private=True)
        return cls.read(file)

    @classmethod
    def read(cls, path: str | Path) -> SeedFile:
        """Read a seed file: a whole number, decimal or 0x… hexadecimal, then a line for each published use."""
        file = Path(path)
        if not file.is_file():
            raise PlanError(f"no seed file {str(path)!r}; `discretion seed new {path}` makes one")
        first, *rest = file.read_text(encoding="utf-8").strip().splitlines() or [""]
        if not re.fullmatch(r"\d+|0x[0-9a-fA-F]+", first) or not all(line.startswith(_USED) for line in rest):
            raise PlanError(f"the seed file {file.name!r} must hold one whole number and nothing else but its uses")
        try:
            uses = tuple(json.loads(line.removeprefix(_USED)) for line in rest)
        except json.JSONDecodeError:
            raise PlanError(f"the seed file {file.name!r} is damaged: a line on its use cannot be read") from None
        seed = int(first, 0)
        long = seed >= SMALL_SEED and (not first.startswith("0x") or len(first) >= 2 + _HEX_DIGITS)
        return cls(file, seed, long, uses)

    def require_long(self) -> None:
        """Refuse a seed that somebody could enumerate."""
        if not self.long:
            raise PlanError(
                f"the seed file {self.path.name!r} holds a small seed: anybody who knows one original value could try "
                "them all and undo the protection. `discretion seed new FILE` draws one of 128 bits; for a "
                "demonstration on invented data the plan may say `demo: true`"
            )

    def allow(self, drawn: Mapping[str, bytes]) -> None:
        """Refuse another release from this seed, unless it draws exactly what a published one drew."""
        wanted = hashed(self.seed, drawn)
        if not wanted or not self.uses or wanted in self.uses:
            return
        known = {pair for use in self.uses for pair in use.items()}
        other = [step for step in wanted if step != OTHER_STEPS and (step, wanted[step]) not in known] or [OTHER_STEPS]
        raise PlanError(
            f"the seed file {self.path.name!r} was used for a release that drew otherwise (different here: "
            f"{', '.join(other)}). Two copies of the same people with independent noise can be averaged: two equal "
            "ones leave 0.71 of the noise; and by the same noise the records of two files are joined. Other measures, "
            "requirements and reports are free; for other steps or data "
            "take a new seed file (`discretion seed new FILE`) and name the earlier release under `previous:`, make a "
            "coarser copy by `from:` the journal of the finer one, or let draws belong to people (`by_person: true`) "
            "from the first delivery on"
        )

    def remember(self, drawn: Mapping[str, bytes]) -> None:
        """Add a published use, if it is new; the file is replaced whole, and of two runs at once the second sees it."""
        with alone_beside(self.path):
            now = SeedFile.read(self.path)
            now.allow(drawn)
            if drawn and hashed(self.seed, drawn) not in now.uses:
                text = self.path.read_text(encoding="utf-8").rstrip() + "\n" + use_line(self.seed, drawn)
                write_text(self.path, text, overwrite=True, private=True)


def use_line(seed: int, drawn: Mapping[str, bytes]) -> str:
    """Give the line that a seed file keeps of a use; nothing was drawn: no line."""
    return f"{_USED}{json.dumps(hashed(seed, drawn), sort_keys=True)}\n" if drawn else ""


def hashed(seed: int, drawn: Mapping[str, bytes]) -> dict[str, str]:
    """Hash the keys from which steps drew, under the seed."""
    secret = Context(seed).secret
    return {step: keyed_hash(secret, "used", step, key).hex()[:32] for step, key in drawn.items()}
