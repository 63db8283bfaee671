"""How long `rappor density` takes over many windows and slots of one metric.

Aggregates are drawn and mapped, slot by slot, each slot's windows as one series. They are also
written as files and mapped by the command in a process of its own, from its imports and reading to
the table, CSV, Parquet, GeoJSON, PNG and HTML.

Beside each window mapped alone, as if there were no others. How true maps are is measured by
benchmarks/location.py and `rappor simulate location-maps`.

By default a week of the shortest and of the longest encoding. All four over a month are 600 maps,
each made twice.

Usage: python benchmarks/density.py [--days 7] [--cells 32] [--alone 10]
       [--encodings symbol-2,symbol-5,bloom-8,bloom-32] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from _run import Comparison, child, run, seconds

from decoder.density.cells import places_of
from decoder.density.maps import estimate_density, estimate_density_series
from decoder.density.slots import slot_places
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate

DECLARED = """
[metrics.places]
kind = "location"
description = "The usual place"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [42.0, -72.8, 42.5, -72.4]
rows = {side}
columns = {side}
levels = [0]
slots = ["night 0-5", "morning 5-10", "midday 10-15", "evening 15-20", "late 20-24"]
mode = "memo"
num_cohorts = 64
epsilon_infinity = {for_life}
epsilon_one = {a_report}
{encoding}
"""
ENCODINGS = {
    "symbol-2": 'encoding = "symbol"\nnum_symbols = 2',
    "symbol-5": 'encoding = "symbol"\nnum_symbols = 5',
    "bloom-8": 'num_bits = 8\nmechanism = "l-osue"\nmax_memoized_values = 3',
    "bloom-32": 'num_bits = 32\nmechanism = "l-osue"\nmax_memoized_values = 3',
}
FIRST, REPORTS, SEED = date(2026, 10, 1), 100_000, 1
FOR_LIFE, A_REPORT = 3.0, 1.5  # epsilons of a cell


def town(values: tuple[str, ...], slot: int) -> np.ndarray:
    """Two quarters, which lie elsewhere in each slot; a twentieth is outside."""
    at = np.array([[int(part) for part in value.split("-")[1:]] for value in values[:-1]])
    side = at.max() + 1
    centres = ((0.25 + 0.03 * slot, 0.25), (0.7, 0.6 - 0.03 * slot))
    near = sum(np.exp(-((at / side - c) ** 2).sum(axis=1) / 0.03) for c in centres)
    return np.append(0.95 * (near + 0.02) / (near + 0.02).sum(), 0.05)


def drawn(encoding: str, side: int, days: int) -> Iterator[Aggregate]:
    """One aggregate a slot and day."""
    rng = np.random.default_rng(SEED)
    text = DECLARED.format(
        side=side, encoding=ENCODINGS[encoding], for_life=FOR_LIFE, a_report=A_REPORT
    )
    for slot, metric in enumerate(parse_metrics(text).parts("places")):
        assert metric.location is not None
        values = places_of([metric.location]).finest
        shares = town(values, slot)
        for number in range(days):
            day = FIRST + timedelta(days=number)
            one, _ = draw_aggregate(list(values), shares, REPORTS, metric.params, rng, metric.name)
            yield replace(one, definition=metric.to_dict(), params_id=metric.params_id,
                          first_day=day, last_day=day)  # fmt: skip


def job(aggregates: list[Aggregate]) -> float:
    """Seconds of the command, all its threads and processes."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, one in enumerate(aggregates):
            path = Path(folder, f"{number}.json")
            path.write_text(one.to_json())
            files += ["--aggregate", str(path)]
        command = [sys.executable, "-m", "rappor_cli", "density", "places", *files]
        return child([*command, "-o", folder]).processor


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """For each encoding the series: its time, and its maps."""
    encodings = chosen.encodings.split(",")[: 1 if chosen.small else None]
    days, side, most = (2, 16, 5) if chosen.small else (chosen.days, chosen.cells, chosen.alone)
    for encoding in encodings:
        aggregates = list(drawn(encoding, side, days))
        whole = job(aggregates)  # first: it leaves the compiled parts on the disk
        times = []
        for first in range(0, len(aggregates), days):
            windows = [[one] for one in aggregates[first : first + days]]
            took = seconds(lambda w=windows: [*estimate_density_series(w)])
            times.append(took / days)
        places = slot_places(aggregates[:1])
        apart = aggregates[:: max(1, len(aggregates) // most)][:most]
        alone = tuple(seconds(lambda a=one: estimate_density([a], places=places)) for one in apart)
        name = f"{days} windows of {side**2:,} cells, 64 cohorts, {encoding}"
        yield Comparison(
            "", f"a map of a series, {name}", "s", tuple(times), "each window by itself", alone,
            note=f"the whole command {whole:.1f} s for {len(aggregates)} maps, files and pictures",
        )  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--cells", type=int, default=32, help="rows and columns of the grid")
    parser.add_argument("--encodings", default="symbol-2,bloom-32", help=", ".join(ENCODINGS))
    parser.add_argument("--alone", type=int, default=10, help="windows mapped one by one")


if __name__ == "__main__":
    run(__doc__, measure, options)
