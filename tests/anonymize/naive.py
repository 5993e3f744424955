"""A reference that evaluates every node of a small lattice straight from the definitions, record by record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

Class = list[int]
Fails = Callable[[Class], bool]


@dataclass(frozen=True)
class Evaluated:
    levels: tuple[int, ...]
    score: float
    suppressed: int
    kept: tuple[int, ...]
    """sizes of the classes that are kept"""


@dataclass(frozen=True)
class Problem:
    rows: Sequence[Mapping[str, str]]
    tables: Mapping[str, Sequence[Sequence[str]]]
    """column → its hierarchy: rows of (value, label at level 1, …)"""
    fails: Sequence[Fails] = ()
    average_risk: float | None = None
    weights: Mapping[str, float] | None = None
    factor: float = 0.5

    @property
    def columns(self) -> list[str]:
        return list(self.tables)

    def labels(self, levels: Sequence[int]) -> list[tuple[str, ...]]:
        up = [
            {row[0]: row[level] for row in self.tables[name]} for name, level in zip(self.columns, levels, strict=True)
        ]
        return [tuple(up[j][row[name]] for j, name in enumerate(self.columns)) for row in self.rows]

    def leaves(self, place: int, level: int) -> Counter[str]:
        return Counter(row[level] for row in self.tables[self.columns[place]])

    def evaluate(self, levels: Sequence[int], loss: str) -> Evaluated:
        labels = self.labels(levels)
        classes: dict[tuple[str, ...], Class] = {}
        for number, label in enumerate(labels):
            classes.setdefault(label, []).append(number)
        gone = {label for label, members in classes.items() if any(fails(members) for fails in self.fails)}
        if self.average_risk is not None:
            gone |= self._risky(classes, gone, levels, loss)
        suppressed = sum(len(classes[label]) for label in gone)
        kept = {label: members for label, members in classes.items() if label not in gone}
        score = self._score(loss, levels, labels, classes, gone)
        return Evaluated(tuple(levels), score, suppressed, tuple(len(members) for members in kept.values()))

    def _risky(
        self, classes: Mapping[tuple[str, ...], Class], gone: set[tuple[str, ...]], levels: Sequence[int], loss: str
    ) -> set[tuple[str, ...]]:
        left = [label for label in classes if label not in gone]

        def cost(label: tuple[str, ...]) -> float:
            size = len(classes[label])
            shares = [self.leaves(j, levels[j])[label[j]] / len(self.tables[c]) for j, c in enumerate(self.columns)]
            if loss == "loss":
                return round(math.prod(1 + size * share for share in shares), 9)
            if loss == "ambiguity":
                return size * math.prod(
                    share * len(self.tables[c]) for share, c in zip(shares, self.columns, strict=True)
                )
            return 0.0

        left.sort(key=lambda label: (len(classes[label]), cost(label), classes[label][0]))
        assert self.average_risk is not None
        dropped: set[tuple[str, ...]] = set()
        while left and len(left) > self.average_risk * sum(len(classes[label]) for label in left) * (1 + 1e-12):
            dropped.add(left.pop(0))
        return dropped

    def _score(
        self,
        loss: str,
        levels: Sequence[int],
        labels: Sequence[tuple[str, ...]],
        classes: Mapping[tuple[str, ...], Class],
        gone: set[tuple[str, ...]],
    ) -> float:
        n, m = len(self.rows), len(self.columns)
        s = 2 * self.factor if self.factor < 0.5 else 1.0
        g = 1.0 if self.factor <= 0.5 else 1 - 2 * (self.factor - 0.5)
        weight = [(self.weights or {}).get(name, 1.0) for name in self.columns]
        weight = [one / max(weight) for one in weight]
        suppressed = [i for i in range(n) if labels[i] in gone]
        sizes = [len(self.tables[name]) for name in self.columns]
        if loss == "loss":
            total = 1.0
            for j in range(m):
                shares = [self.leaves(j, levels[j])[label[j]] / sizes[j] for label in labels]
                cost = sum(
                    share + s * (1 - share) if labels[i] in gone else g * share for i, share in enumerate(shares)
                )
                low = g * n / sizes[j]
                own = 0.0 if sizes[j] == 1 else max(0.0, (cost - low) / (n - low))
                total *= (1 + weight[j] * math.floor(own * 1e10 + 1e-4) / 1e10) ** (1 / m)
            return total - 1
        if loss == "precision-loss":
            heights = [len(self.tables[name][0]) - 1 for name in self.columns]
            return sum(
                weight[j] * (g * (n - len(suppressed)) * (levels[j] / heights[j] if heights[j] else 0)
                             + s * len(suppressed)) / n
                for j in range(m)
            ) / m  # fmt: skip
        if loss == "height":
            return sum(weight[j] * levels[j] for j in range(m))
        if loss == "aecs":
            return n / (s * (len(classes) - len(gone)) + (g if gone else 0)) if len(classes) > len(gone) or gone else 0
        if loss == "discernibility":
            return sum(n * len(c) if label in gone else len(c) ** 2 for label, c in classes.items())
        if loss == "ambiguity":
            whole = math.prod(sizes)
            leaves = [self.leaves(j, levels[j]) for j in range(m)]
            return sum(
                len(c) * (whole if label in gone else math.prod(leaves[j][label[j]] for j in range(m)))
                for label, c in classes.items()
            )
        if loss == "discernibility-star":
            return sum(len(c) ** 2 for c in classes.values())
        if loss.startswith("kl"):
            return self._divergence(levels, labels, classes, gone, arx=loss == "kl-arx")
        if loss == "entropy-based":
            largest = math.log(math.prod(sizes))
            total = 0.0
            for j in range(m):
                leaves = self.leaves(j, levels[j])
                for label in labels:
                    part = math.log(leaves[label[j]]) / largest
                    whole = math.log(sizes[j]) / largest
                    total += weight[j] * (part + s * (whole - part) if label in gone else g * part)
            return total
        assert loss in ("entropy", "normalized-entropy")
        lost = self.entropies(labels, suppressed, g, s)
        if loss == "normalized-entropy":
            counted = [Counter(row[name] for row in self.rows) for name in self.columns]
            most = [-sum(c * math.log2(c / n) for c in values.values()) for values in counted]
            lost = [bits / all_bits if all_bits else 0.0 for bits, all_bits in zip(lost, most, strict=True)]
        return sum(one * bits for one, bits in zip(weight, lost, strict=True))

    def _divergence(
        self,
        levels: Sequence[int],
        labels: Sequence[tuple[str, ...]],
        classes: Mapping[tuple[str, ...], Class],
        gone: set[tuple[str, ...]],
        *,
        arx: bool,
    ) -> float:
        n = len(self.rows)
        combinations = Counter(tuple(row[name] for name in self.columns) for row in self.rows)
        domain = math.prod(len(table) for table in self.tables.values())
        out = sum(len(classes[label]) for label in gone)
        total = 0.0
        for row, label in zip(self.rows, labels, strict=True):
            p = combinations[tuple(row[name] for name in self.columns)] / n
            area = math.prod(self.leaves(j, levels[j])[label[j]] for j in range(len(levels)))
            q = out / n / domain if label in gone else len(classes[label]) / n / area
            total += (p if arx else 1 / n) * math.log2(p / q)
        return total

    def entropies(
        self, labels: Sequence[tuple[str, ...]], suppressed: Sequence[int], g: float = 1.0, s: float = 1.0
    ) -> list[float]:
        """Give the bits that each column loses."""
        found = []
        for j, name in enumerate(self.columns):
            values = Counter(row[name] for row in self.rows)
            groups = Counter(label[j] for label in labels)
            hidden = Counter(labels[i][j] for i in suppressed)
            plain = -sum(math.log2(values[row[name]] / groups[labels[i][j]]) for i, row in enumerate(self.rows))
            lost = -sum(c * math.log2(c / len(suppressed)) for c in hidden.values())
            found.append(g * plain + s * lost)
        return found

    def everything(self, loss: str) -> list[Evaluated]:
        heights = [len(table[0]) for table in self.tables.values()]
        return [self.evaluate(levels, loss) for levels in product(*map(range, heights))]

    def best(self, loss: str, limit: float) -> Evaluated | None:
        allowed = math.floor(limit * len(self.rows) + 1e-9)
        found = [node for node in self.everything(loss) if node.suppressed <= allowed and node.kept]
        return min(found, key=lambda node: node.score, default=None)
