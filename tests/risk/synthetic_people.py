"""People to attack: a population from which the data, its copy, a control group and an honest release are drawn."""

from __future__ import annotations

import numpy as np
import polars as pl


def people(rows: int, seed: int, missing: bool = False) -> pl.DataFrame:
    """Draw people; the seed decides who. One column name has a space, one is shared by few."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, 4))
    frame = pl.DataFrame(
        {
            "body size": z[:, 0] + 0.5 * z[:, 1],
            "age": rng.integers(18, 80, rows),
            "region": rng.choice(list("uvwxyz"), rows),
            "ill": np.where(z[:, 0] + z[:, 2] > 0, "yes", "no"),
            "income": 2 * z[:, 0] + z[:, 3],
        }
    )
    if missing:
        for column in frame.columns:
            frame = frame.with_columns(pl.when(pl.Series(rng.random(rows) > 0.1)).then(pl.col(column)).alias(column))
    return frame


EVERY = ["body size", "age", "region", "ill", "income"]
