"""Run the benchmarks and print the tables; exit code 1 if a ratio is over its limit."""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    anonymize,
    categorical,
    growth,
    linkage,
    microaggregation,
    microdata,
    mondrian,
    online_audit,
    online_dp,
    online_ledger,
    online_service,
    peers,
    probabilistic,
    protect_values,
    risk_classes,
    startup,
    suda,
    suppression,
    tables,
    tables_suppress,
    tables_audit,
    tables_round,
    tune,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--growth", action="store_true", help="also the table of growth from 10⁵ to 10⁷ rows (minutes)")
    options = parser.parse_args()
    print(f"{'job':44} {'base':28} {'CPU s':>8} {'base s':>8} {'ratio':>7} {'limit':>6}")
    failed = 0
    for source in (
        startup,
        microdata,
        microaggregation,
        linkage,
        anonymize,
        mondrian,
        suppression,
        probabilistic,
        protect_values,
        categorical,
        peers,
        risk_classes,
        suda,
        tables,
        tables_suppress,
        tables_audit,
        tables_round,
        tune,
        online_audit,
        online_dp,
        online_ledger,
        online_service,
    ):
        for line in source.lines():
            failed += not line.holds
            print(
                f"{line.job:44} {line.base:28} {line.seconds:8.3f} {line.base_seconds:8.3f} {line.ratio:7.2f} "
                f"{line.limit:6.2f}{'' if line.holds else '  OVER'}"
            )
    if options.growth:
        print(f"\n{'CPU seconds and extra memory (× input columns)':32}" + "".join(f"{n:>20,}" for n in growth.SIZES))
        for name, cells in growth.rows():
            print(f"{name:32}" + "".join(f"{cell:>20}" for cell in cells))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
