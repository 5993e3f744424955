"""Small random data with hierarchies, and models with their definitions in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

import discretion as dc
from discretion.model import PrivacyModel

from .naive import Class, Fails, Problem

TABLES = {
    "age": [[str(a), f"{a // 2 * 2}-{a // 2 * 2 + 1}", "young" if a < 4 else "old", "*"] for a in range(9)],
    "town": [["A", "north", "*"], ["B", "north", "*"], ["C", "south", "*"], ["D", "south", "*"], ["E", "south", "*"]],
    "sex": [["f", "*"], ["m", "*"]],
}
COLUMNS = list(TABLES)


def frame(seed: int, rows: int = 40) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": [str(a) for a in np.minimum(rng.geometric(0.3, rows) - 1, 7)],
            "town": rng.choice(list("ABCD"), rows, p=[0.5, 0.3, 0.15, 0.05]),
            "sex": rng.choice(["f", "m"], rows),
            "illness": rng.choice(["flu", "cold", "gout", "none"], rows, p=[0.4, 0.3, 0.1, 0.2]),
        }
    )


def dataset(table: pl.DataFrame) -> dc.Dataset:
    roles = dict.fromkeys(COLUMNS, "quasi") | {"illness": "sensitive"}
    return dc.Dataset(table, roles=roles, hierarchies=TABLES)


def naive(table: pl.DataFrame, fails: Sequence[Fails], **more: object) -> Problem:
    return Problem(table.to_dicts(), TABLES, fails, **more)  # type: ignore[arg-type]


def illnesses(table: pl.DataFrame, members: Class) -> Counter[str]:
    column = table["illness"].to_list()
    return Counter(column[i] for i in members)


def smaller_than(k: int) -> Callable[[pl.DataFrame], Fails]:
    return lambda table: lambda members: len(members) < k


def fewer_values(least: int) -> Callable[[pl.DataFrame], Fails]:
    return lambda table: lambda members: len(illnesses(table, members)) < least


def less_mixed(least: float) -> Callable[[pl.DataFrame], Fails]:
    def fails(table: pl.DataFrame, members: Class) -> bool:
        shares = [count / len(members) for count in illnesses(table, members).values()]
        return -sum(p * math.log(p) for p in shares) < math.log(least) - 1e-12

    return lambda table: lambda members: fails(table, members)


def further_than(t: float) -> Callable[[pl.DataFrame], Fails]:
    def fails(table: pl.DataFrame, members: Class) -> bool:
        whole = Counter(table["illness"].to_list())
        own = illnesses(table, members)
        return sum(abs(own[v] / len(members) - whole[v] / len(table)) for v in whole) / 2 > t + 1e-12

    return lambda table: lambda members: fails(table, members)


MODELS: dict[str, tuple[list[PrivacyModel], list[Callable[[pl.DataFrame], Fails]]]] = {
    "k": ([dc.KAnonymity(k=3)], [smaller_than(3)]),
    "k and distinct l": ([dc.KAnonymity(k=2), dc.DistinctLDiversity(l=2)], [smaller_than(2), fewer_values(2)]),
    "entropy l": ([dc.EntropyLDiversity(l=1.7)], [less_mixed(1.7)]),
    "t": ([dc.TCloseness(t=0.25, distance="equal")], [further_than(0.25)]),
    "k and t": ([dc.KAnonymity(k=4), dc.TCloseness(t=0.4, distance="equal")], [smaller_than(4), further_than(0.4)]),
}
