"""Reference files of other tools; tests that need them are skipped when they are not there."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(os.environ.get("DISCRETION_SHARED", Path(__file__).parents[3] / "shared"))


def columns(name: str, wanted: list[str]) -> dict[str, np.ndarray]:
    """Read columns of numbers of a file of sdcMicro's results; an empty cell is NaN."""
    path = SHARED / "golden" / "sdcmicro" / name
    if not path.exists():
        pytest.skip(f"no reference file {name}")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {c: np.array([float(r[c]) if r[c] not in ("", "NA") else np.nan for r in rows]) for c in wanted}
