"""A policy, the files of two decodings and a map, and the rows of a release."""

import csv
from datetime import timedelta
from pathlib import Path

import numpy as np

from decoder.density.cells import places_of
from rappor_cli.main import main
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import declared_aggregate, draw_aggregate
from tests.cli.density_support import DAY, DECLARED
from tests.metric_texts import declaration, word

POLICY = """
owner = "stats@example.org"
audience = "public"
min_reports = 1000
min_low = 0.02
rounding = 0.001
reports_rounding = 100
sealed_after_days = 0
strata = ["slot"]
"""


LENGTHS = ["2 letters", "3 letters", "4-5 letters", "6 or more"]
METRICS = word("word") + declaration(
    "length", "category", categories=LENGTHS,
    num_cohorts=1, fallback="2 letters", mechanism="l-osue",
    epsilon_infinity=4.0, epsilon_one=2.0, max_memoized_values=2,
)  # fmt: skip


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "release.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def decode_two(folder: Path) -> Path:
    """Folders of `rappor decode -o`: strings, and categories of which one is rare."""
    rng, metrics = np.random.default_rng(0), parse_metrics(METRICS).metrics
    words = ["the", "to", *(f"word{i}.example.org" for i in range(50))]
    of_words = np.array([0.4, 0.2, *np.full(50, 0.008)])
    cases = {"word": (words, of_words), "length": (LENGTHS, np.array([0.5, 0.3, 0.198, 0.002]))}
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    for name, (values, shares) in cases.items():
        metric = metrics[name]
        found, _ = draw_aggregate(values, shares, 40_000, metric.params, rng, name)
        found = declared_aggregate(found, metric, DAY, DAY)
        (folder / f"{name}.json").write_text(found.to_json())
        listed = ["--candidates", str(folder / "words.txt")] if name == "word" else []
        assert main(["decode", "--aggregate", str(folder / f"{name}.json"), *listed,
                     "-o", str(folder / name)]) == 0  # fmt: skip
    return folder


def decode_density(folder: Path) -> Path:
    """A crowd in the south-west of 8 by 8 quadkeys, and a little elsewhere."""
    declared = (
        DECLARED.replace('grid = "square"', 'grid = "quadkey"')
        .replace("rows = 3\ncolumns = 3\n", "")
        .replace("levels = [0]", "levels = [7]")
        .replace("box = [0, 0, 8, 8]", "box = [0.1, 0.1, 11, 11]")
    )
    rng, paths = np.random.default_rng(0), []
    for metric in parse_metrics(declared).parts("places"):
        values = list(places_of([metric.location]).finest)
        shares = np.full(len(values), 0.004)
        shares[0] = 1 - shares[1:].sum()
        found, _ = draw_aggregate(values, shares, 60_000, metric.params, rng, metric.name)
        found = declared_aggregate(found, metric, DAY, DAY + timedelta(days=6))
        path = folder / f"{metric.location.slot}.json"
        path.write_text(found.to_json())
        paths += ["--aggregate", str(path)]
    assert main(["density", "places", *paths, "-o", str(folder / "map")]) == 0
    return folder / "map"
