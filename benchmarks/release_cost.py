"""What the audit of releases costs: numbers suppressed beyond the thresholds, and processor time.

    python -m benchmarks.release_cost

Weeks: a category of 30 values, 8 weeks beside each other, known to hold everybody. Districts: a
country and 60 districts, 20 values that do not. Tree: the same with 12 regions in between. Large
tree: 480 districts in 20 regions. The peak of memory is that of the process so far.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from disclosure_control.errors import PublicationError
from publication.release import CellTable, ReleasePolicy, build_release

FIRST, ISSUED = date(2026, 9, 7), date(2026, 12, 1)
MIN_REPORTS, MIN_LOW = 1000, 0.01
REGION_OF = {f"d{number}": f"r{number % 12}" for number in range(60)}
LARGE = {f"d{number}": f"r{number % 20}" for number in range(480)}


def table(
    counts: Any, error: float, strata: Mapping[str, str], week: int, **more: Any
) -> CellTable:
    """Exact shares, with errors as a decoding has them."""
    share = counts / counts.sum()
    first = FIRST + timedelta(days=7 * week)
    return CellTable(
        "metric", tuple(sorted(strata.items())), first, first + timedelta(days=6),
        int(counts.sum()), [f"v{number}" for number in range(len(counts))], share,
        np.full(len(share), error), share - 1.96 * error, share + 1.96 * error, share > 3 * error,
        max_correlation=0.0, **more,
    )  # fmt: skip


def weeks(rng: np.random.Generator) -> Iterator[CellTable]:
    """A category of Zipf's law."""
    shares = 1 / np.arange(1, 31)
    for week in range(8):
        yield table(rng.multinomial(40_000, shares / shares.sum()), 0.002, {}, week, complete=True)


def districts(
    rng: np.random.Generator, region_of: Mapping[str, str], *, regions: bool
) -> Iterator[CellTable]:
    """Districts of 400 to 20,000 reports, each with shares of its own around those of all."""
    common = 1 / np.arange(1, 21)
    sizes = np.exp(rng.uniform(np.log(400), np.log(20_000), len(region_of))).astype(int)
    counts = [rng.multinomial(one, rng.dirichlet(20 * common / common.sum())) for one in sizes]
    held = dict(zip(region_of, counts, strict=True))
    yield table(sum(held.values()), 0.001, {}, 0)
    for region in sorted(set(region_of.values())) if regions else []:
        own = [one for name, one in held.items() if region_of[name] == region]
        yield table(sum(own), 0.002, {"region": region}, 0)
    for name, one in held.items():
        yield table(one, 0.003, {"district": name}, 0)


def main() -> None:
    """Print one line a case."""

    def tree(region_of: Mapping[str, str], *, regions: bool = True) -> Sequence[CellTable]:
        return list(districts(np.random.default_rng(1), region_of, regions=regions))

    cases: dict[str, tuple[Sequence[CellTable], Mapping[str, str]]] = {
        "weeks": (list(weeks(np.random.default_rng(0))), REGION_OF),
        "districts": (tree(REGION_OF, regions=False), REGION_OF),
        "tree": (tree(REGION_OF), REGION_OF),
        "large tree": (tree(LARGE), LARGE),
    }
    for rounding in (1, 100):
        for name, (tables, region_of) in cases.items():
            rules = ReleasePolicy(
                "a", "b", MIN_REPORTS, MIN_LOW, Decimal("0.001"), reports_rounding=rounding,
                strata=("region", "district"), within={"district": {"region": region_of}},
            )  # fmt: skip
            measure(f"{name}, reports to {rounding}", tables, rules)


def measure(name: str, tables: Sequence[CellTable], rules: ReleasePolicy) -> None:
    """Build one release, and count."""
    start = time.process_time()
    try:
        made = build_release(tables, rules, ISSUED).tables
    except PublicationError as error:
        print(f"{name}: refused: {error}", flush=True)
        return
    seconds = time.process_time() - start
    cells = [len(one.cells) for one in tables]
    large = [
        int((one.detected & (np.floor(one.low * 1000 + 1e-9) >= 1000 * MIN_LOW)).sum())
        if one.num_reports >= MIN_REPORTS
        else 0
        for one in tables
    ]
    shown = [0 if one.reports is None else int(one.is_shown.sum()) for one in made]
    few = sum(one.num_reports < MIN_REPORTS for one in tables)
    withheld = sum(one.reports is None for one in made)
    print(
        f"{name}: {sum(cells)} rows of {len(tables)} tables; {sum(large)} pass the thresholds, "
        f"{sum(shown)} are shown ({100 * (1 - sum(shown) / sum(large)):.1f} % of them suppressed); "
        f"{few} tables have few reports, {withheld} are withheld; {seconds:.1f} s, "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
