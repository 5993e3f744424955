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
    outputs,
    parties,
    peers,
    probabilistic,
    protect_values,
    release,
    risk_classes,
    scale,
    startup,
    suda,
    suppression,
    synthetic,
    synthetic_private,
    tables,
    tables_audit,
    tables_round,
    tables_suppress,
    tune,
    web,
)

SOURCES = {
    source.__name__.rpartition(".")[2]: source
    for source in (
        startup,
        microdata,
        microaggregation,
        linkage,
        anonymize,
        mondrian,
        suppression,
        synthetic_private,
        probabilistic,
        protect_values,
        categorical,
        peers,
        release,
        risk_classes,
        scale,
        suda,
        synthetic,
        tables,
        tables_suppress,
        tables_audit,
        tables_round,
        tune,
        online_audit,
        online_dp,
        online_ledger,
        online_service,
        outputs,
        parties,
        web,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--growth", action="store_true", help="also the table of growth from 10⁵ to 10⁷ rows (minutes)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"run only these: {', '.join(SOURCES)}")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(SOURCES)):
        parser.error(f"unknown: {', '.join(unknown)}")
    chosen = [SOURCES[name] for name in options.names] or list(SOURCES.values())
    print(f"{'job':44} {'base':28} {'CPU s':>8} {'base s':>8} {'ratio':>7} {'limit':>6}")
    failed = 0
    for source in chosen:
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
