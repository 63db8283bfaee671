"""An experiment: how many frequent strings are found without a list, by our method and by
the best of the published ones.

Strings in random order with Zipf's shares; one report a device; fresh draws. A string counts as
found where it, or the prefix as far as its code goes, is accepted; an accepted string that nobody
holds is false. The interval of every accepted string is compared with the truth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from decoder.discovery.discovery import DiscoverOptions, discover
from decoder.model.noise import BitNoise
from decoder.typing import Floats
from rappor_core.codes.prefix_code import PrefixCode, packaged_code
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.experiments.discovery_draws import drawer
from simulations.experiments.pem import GROUPS, LONGEST, pem
from simulations.populations.prefix_draws import StringPopulation

OURS, PEM = "coded prefixes", "PEM"
RANKS = (10, 20, 50)
NUM_STRINGS = 10_000


@dataclass(frozen=True)
class Run:
    """The result for one population: how many strings were found, of the first 10, 20, 50; what
    was wrong.

    false: accepted strings that nobody holds.  covered: of each accepted true string, whether its
    interval holds its share; ours alone.  seconds: of the processor, without the draws.
    """

    found: int
    first: tuple[int, ...]
    false: int
    seconds: float
    covered: tuple[bool, ...] = ()


@dataclass
class Row:
    """The summary of all runs of one method at one setting."""

    method: str
    epsilon: float
    num_reports: int
    runs: list[Run] = field(default_factory=list)


def discover_metric(
    epsilon: float, code: PrefixCode | None = None, *, small: bool = False
) -> Metric:
    """The usual metric: one report of 128 bytes, 160 cohorts, 4 parts of 16 bits.

    small: 256 buckets, 50 cohorts and parts of 12 bits, whose search takes a twentieth.
    """
    once = TwoRoundMechanism.one_shot(epsilon)
    mechanism = TwoRoundMechanism(p1=once.p2, q1=once.q2, p2=PROBABILITY_SCALE, q2=0)
    return Metric(
        name="simulated",
        kind="discover",
        description="strings of a known population",
        owner="simulations@example.org",
        expires=date(2099, 12, 31),
        params=RapporParams(
            *((256, 1, 50) if small else (1_024, 1, 160)), mechanism, "coded_prefix"
        ),
        max_memoized_values=2,
        max_reports=1,
        fallback="other",
        details=PrefixGroups(
            code or packaged_code("domains"),
            bits_per_level=12 if small else 16,
            packaged=code is None,
        ),
    )


def drawn_strings(number: int, rng: np.random.Generator) -> list[str]:
    """Draw strings that are likely under the package's code table: random bits, read as a code."""
    code, strings = packaged_code("domains"), dict[str, None]()
    while len(strings) < number:
        bits = int.from_bytes(rng.bytes(32), "big")
        for size in range(256, 0, -8):  # what follows the first END is left out
            decoded = code.decode(bits >> (256 - size), size)
            if decoded.valid:
                break
        text = decoded.data.decode("ascii", "ignore")
        if 4 <= len(text) <= 30:
            strings[text] = None
    return list(strings)


def zipf(number: int) -> Floats:
    """Shares 1, 1/2, 1/3, ... of the sum."""
    shares = 1 / np.arange(1, number + 1)
    return np.asarray(shares / shares.sum())


def compare(
    strings: Sequence[str],
    settings: Sequence[tuple[float, int]],
    runs: int,
    rng: np.random.Generator,
    *,
    rivals: bool = True,
    flat: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Row]:
    """Run every method at every setting on the same populations.

    Args:
        strings: what devices hold; each run puts them in another order.
        settings: epsilon and number of reports.
        runs: populations of each setting.
        rng: for orders and draws.
        rivals: whether PEM is run, too.
        flat: equal shares in place of Zipf's: nothing is frequent.
        progress: called for each run.
    """
    shares = np.full(len(strings), 1 / len(strings)) if flat else zipf(len(strings))
    methods = {OURS: _ours} | ({PEM: _pem} if rivals else {})
    rows: list[Row] = []
    for epsilon, reports in settings:
        metric = discover_metric(epsilon)
        table = {method: Row(method, epsilon, reports) for method in methods}
        for _ in range(runs):
            order = [strings[i] for i in rng.permutation(len(strings))]
            for method, run in methods.items():
                table[method].runs.append(run(metric, order, shares, reports, rng))
                progress(1)
        rows += table.values()
    return rows


def _ours(
    metric: Metric, strings: Sequence[str], shares: Floats, reports: int, rng: np.random.Generator
) -> Run:
    population = StringPopulation.of(metric, strings)
    aggregate, _ = population.draw(shares, reports, rng)
    started = time.process_time()
    discovery = discover(aggregate, DiscoverOptions(crowd=1))
    seconds = time.process_time() - started
    ranks, covered, false = [], [], 0
    lower = [string.lower() for string in strings]
    for row in discovery.found:
        same = (
            [rank for rank, string in enumerate(lower) if string.startswith(row.string)]
            if not row.whole
            else [rank for rank, string in enumerate(lower) if string == row.string]
        )
        ranks += same[:1]
        false += not same
        if same:
            truth = float(shares[same].sum())
            covered.append(row.low <= truth <= row.high)
    return _run(ranks, false, seconds, covered)


def _pem(
    metric: Metric, strings: Sequence[str], shares: Floats, reports: int, rng: np.random.Generator
) -> Run:
    noise = BitNoise.of(metric.params.mechanism)
    started = time.process_time()
    texts = pem(strings, drawer(shares, reports, GROUPS, noise, rng))
    seconds = time.process_time() - started
    places = {_cut(string): rank for rank, string in reversed(list(enumerate(strings)))}
    ranks = [places[_cut(text)] for text in texts if _cut(text) in places]
    return _run(ranks, len(texts) - len(ranks), seconds, ())


def _cut(string: str) -> str:
    """As far as PEM reads."""
    return string.lower()[:LONGEST].rstrip(" ")


def _run(ranks: Sequence[int], false: int, seconds: float, covered: Sequence[bool]) -> Run:
    first = tuple(sum(rank < most for rank in ranks) for most in RANKS)
    return Run(len(ranks), first, false, seconds, tuple(covered))
