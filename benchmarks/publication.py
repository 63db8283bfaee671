"""Time and loss of the k-anonymiser on Adult, and time of the risk of a million rows.

The rivals are our own variants: the packets of rows, and the risk method that counts every key.

Usage: python benchmarks/publication.py [--rows 30000] [--data FOLDER] [--records FILE] [--small]
Needs adult.csv.xz: the training split of Adult (UCI Machine Learning Repository), compressed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from _run import DATA, Comparison, missing, run, seconds

from disclosure_control.disclosure_risk import METHODS, assess_risk
from disclosure_control.k_anonymity import Anonymised, anonymise, anonymise_in_packets
from tests.publication import adult as adult_data
from tests.publication.test_risk_properties import large_table

KS = (2, 3, 5, 10, 50, 461, 1000)
MISSING = 0.03
TABLES = ([2, 4, 6, 10, 12, 20], [2, 8, 20, 50, 100, 300])


def anonymised(rows: int, ks: tuple[int, ...]) -> Iterator[Comparison]:
    """The whole table at each k, greedy and in packets."""
    table = adult_data.adult(rows)
    columns = adult_data.adult_columns(table)
    for k in ks:
        slow, close = timed(lambda k=k: anonymise(table, columns, k))
        quick, loose = timed(lambda k=k: anonymise_in_packets(table, columns, k))
        yield Comparison(
            "", f"anonymise {rows:,} rows, 8 columns, k = {k}", "s", (quick,),
            "the greedy method, all rows at once", (slow,),
            note=f"height loss {loose.height_loss:.3f}, greedy {close.height_loss:.3f}; "
            f"{len(loose.counts):,} and {len(close.counts):,} classes",
        )  # fmt: skip


def timed(make: Callable[[], Anonymised]) -> tuple[float, Anonymised]:
    """Seconds, and what was made."""
    found: list[Anonymised] = []
    return seconds(lambda: found.append(make())), found[0]


def risks(rows: int) -> Iterator[Comparison]:
    """Each method on tables of few and of many keys."""
    for sizes in TABLES:
        values, domain = large_table(rows, sizes, MISSING)
        keys = domain.num_candidate_keys()
        for method in METHODS:
            took = seconds(lambda m=method: assess_risk(values, domain, m))
            name = f"risk of {rows:,} rows, 6 identifiers, {keys:,} keys, {method}"
            yield Comparison("", name, "s", (took,))


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Both."""
    adult_data.FILE = chosen.data / "adult.csv.xz"
    told = missing("the k-anonymiser", adult_data.FILE, "adult.csv.xz, the training split of UCI's "
                   "Adult")  # fmt: skip
    if told:
        yield told
    else:
        rows = 5_000 if chosen.small else chosen.rows
        yield from anonymised(rows, KS[1:4] if chosen.small else KS)
    yield from risks(100_000 if chosen.small else 1_000_000)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--data", type=Path, default=DATA)


if __name__ == "__main__":
    run(__doc__, measure, options)
