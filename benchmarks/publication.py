"""Time and loss of the k-anonymiser on Adult, and time of the risk of a million rows.

Usage: python benchmarks/publication.py [--rows 30000] [--small 5000]
Needs ../shared/data/adult.csv.xz. Times are of the processor, in seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from publication.disclosure_risk import METHODS, assess_risk
from publication.k_anonymity import (
    Anonymised,
    anonymise,
    anonymise_in_one_pass,
    anonymise_in_packets,
)
from tests.publication.adult import adult, adult_columns
from tests.publication.test_risk_properties import large_table

KS = (2, 3, 5, 10, 50, 461, 1000)


def main() -> None:
    """Print three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--small", type=int, default=5_000)
    given = parser.parse_args()
    print(f"greedy and packets, {given.rows} rows, 8 columns")
    table = adult(given.rows)
    columns = adult_columns(table)
    for k in KS:
        report("greedy", k, lambda k=k: anonymise(table, columns, k))
        report("packets", k, lambda k=k: anonymise_in_packets(table, columns, k))
    print(f"variants, {given.small} rows")
    small = adult(given.small)
    few = adult_columns(small)
    for k in (3, 5, 10):
        report("greedy", k, lambda k=k: anonymise(small, few, k))
        report("greedy, 2 threads", k, lambda k=k: anonymise(small, few, k, workers=2))
        report("packets", k, lambda k=k: anonymise_in_packets(small, few, k))
        report("one pass", k, lambda k=k: anonymise_in_one_pass(small, few, k, map_blocks=map))
    print("risk of strata, a million rows, 6 identifiers, 3 % missing in each")
    for sizes in ([2, 4, 6, 10, 12, 20], [2, 8, 20, 50, 100, 300]):
        values, domain = large_table(1_000_000, sizes, 0.03)
        for method in METHODS:
            start = time.process_time()
            found = assess_risk(values, domain, method)  # type: ignore[arg-type]
            spent = time.process_time() - start
            keys = domain.num_candidate_keys()
            print(f"  {method:<9} {keys:>11} keys, minimum {found.minimum}: {spent:.1f} s")


def report(name: str, k: int, make: Callable[[], Anonymised]) -> None:
    """Print one line."""
    start, wall = time.process_time(), time.perf_counter()
    made = make()
    spent, passed = time.process_time() - start, time.perf_counter() - wall
    print(
        f"  {name:<18} k = {k:<5} {len(made.counts):>6} classes, height loss "
        f"{made.height_loss:.3f}, leaf loss {made.leaf_loss:.3f}, suppressed "
        f"{made.completeness:.3f}: {spent:.1f} s (wall {passed:.1f})",
        flush=True,
    )


if __name__ == "__main__":
    main()
