"""Write the stored aggregates and the tables that the decoder makes of them.

    python -m tests.golden.make             # expected tables anew, from the stored aggregates
    python -m tests.golden.make --draw      # draw the aggregates anew, too
    python -m tests.golden.make --into DIR  # tables into DIR: compare two versions byte for byte

On one machine, versions that only move code give the same bytes. Another machine sums in another
order: `test_golden.py` compares to six significant digits.
"""

import argparse
import io
import shutil
from contextlib import redirect_stderr, redirect_stdout
from datetime import date
from pathlib import Path

import numpy as np

from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.map_draws import draw_memo
from tests.metric_texts import declaration

HERE = Path(__file__).parent
AGGREGATES, EXPECTED = HERE / "aggregates", HERE / "expected"

STRINGS = RapporParams.rappor(
    num_bits=32, num_hashes=2, num_cohorts=8, prob_f=0.25, prob_p=0.35, prob_q=0.65
)
MD5 = RapporParams.rappor(
    num_bits=16, num_hashes=2, num_cohorts=16, prob_f=0.0, prob_p=0.25, prob_q=0.75, hash="md5"
)
PLACES = declaration(
    "places", "location", description="The usual place", owner="maps@example.org",
    expires="2099-12-31", grid="square", box=[0, 0, 8, 8], rows=8, columns=8, levels=[0],
    slots=["night 22-6"], mode="memo", num_bits=16, num_cohorts=16, mechanism="l-osue",
    epsilon_infinity=4.0, epsilon_one=2.0, max_memoized_values=3, period="week",
)  # fmt: skip

DECODE: dict[str, tuple[str, ...]] = {
    "strings-default": ("strings",),
    "strings-bonferroni": ("strings", "--correction", "bonferroni"),
    "strings-fdr-eb": ("strings", "--correction", "fdr-eb"),
    "strings-lasso": ("strings", "--method", "lasso", "--correction", "bonferroni"),
    "strings-repeats": ("strings", "--correction", "bonferroni", "--set", "repeats=2"),
    "md5-bh": ("md5", "--correction", "bh"),
}
DENSITY: dict[str, tuple[str, ...]] = {
    "places-field": ("--method", "field"),
    "places-simplex": ("--method", "simplex"),
}


def values() -> list[str]:
    return [f"value-{number:02d}" for number in range(100)]


def draw() -> None:
    """Draw the aggregates from a fixed seed."""
    AGGREGATES.mkdir(exist_ok=True)
    rng = np.random.default_rng(20261122)
    shares = 1 / np.arange(1, 41)
    shares /= shares.sum()
    for name, params in (("strings", STRINGS), ("md5", MD5)):
        aggregate, _ = draw_aggregate(values()[:40], shares, 200_000, params, rng, name)
        (AGGREGATES / f"{name}.json").write_text(aggregate.to_json(), encoding="utf-8")
    (HERE / "candidates.txt").write_text("\n".join(values()) + "\n", encoding="utf-8")
    for number, aggregate in enumerate(_places(rng)):
        (AGGREGATES / f"places-{number}.json").write_text(aggregate.to_json(), encoding="utf-8")


def _places(rng: np.random.Generator) -> list[Aggregate]:
    """Two weeks of 64 cells; one week in ten moves a device."""
    (metric,) = parse_metrics(PLACES).metrics.values()
    names = list(metric.location.domain_with())
    shares = rng.dirichlet(np.full(len(names), 0.3))
    held = rng.choice(len(names), size=(50_000, 1), p=shares).repeat(2, axis=1)
    moved = rng.random(len(held)) < 0.1
    held[moved, 1] = rng.choice(len(names), size=int(moved.sum()), p=shares)
    counts = draw_memo(held, names, metric.params, rng)
    return [
        counts.aggregate(metric, slice(1), date(2026, 11, 2), date(2026, 11, 8)),
        counts.aggregate(metric, slice(1, 2), date(2026, 11, 9), date(2026, 11, 15)),
    ]


def tables(into: Path) -> None:
    """Run every case through the command line; keep the tables alone."""
    for name, (aggregate, *options) in DECODE.items():
        source = ("--aggregate", str(AGGREGATES / f"{aggregate}.json"))
        words = ("decode", *source, "--candidates", str(HERE / "candidates.txt"), *options)
        _run(words, into / name, ("results.csv", "candidates.csv"))
    weeks = sorted(AGGREGATES.glob("places-*.json"))
    sources = [word for week in weeks for word in ("--aggregate", str(week))]
    for name, words_of_map in DENSITY.items():
        words = ("density", "places", *sources, *words_of_map)
        _run(words, into / name, ("density.csv",))


def _run(words: tuple[str, ...], folder: Path, kept: tuple[str, ...]) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        code = main([*words, "-o", str(folder)])
    if code:
        raise RuntimeError(f"rappor {' '.join(words)}: exit {code}: {said.getvalue()}")
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()


def write() -> None:
    """Parse the words of the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make", description=__doc__)
    parser.add_argument("--draw", action="store_true", help="draw the aggregates anew")
    parser.add_argument("--into", type=Path, default=EXPECTED, help="folder of the tables")
    words = parser.parse_args()
    if words.draw:
        draw()
    if words.into.exists():
        shutil.rmtree(words.into)
    tables(words.into)


if __name__ == "__main__":
    write()
