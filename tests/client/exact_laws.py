"""Exact laws of a small device's two rounds, over every draw of the bits that matter."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from types import SimpleNamespace

from client_sdk.randomization import metric_encoder as rounds
from client_sdk.randomization.metric_encoder import MetricEncoder
from rappor_core.metrics.metric import Metric

Source = Callable[[int], bytes]
Chances = dict[int, Fraction]
SECRET = bytes(32)
MAX_FREE = 16  # bits of a draw that are gone through


@contextmanager
def counted_permanent_noise(source: Source) -> Iterator[None]:
    """Let the permanent round draw from `source` in place of its keyed function, for the block."""
    before = vars(rounds)["shake_256"]
    vars(rounds)["shake_256"] = lambda _: SimpleNamespace(digest=source)
    try:
        yield
    finally:
        vars(rounds)["shake_256"] = before


def device_of_cohort(metric: Metric, cohort: int, source: Source) -> MetricEncoder:
    device = MetricEncoder(metric, SECRET, source)
    device.cohort = cohort
    return device


def permanent_chances(make: Callable[[Source], MetricEncoder], bits: int, places: int) -> Chances:
    """P(B' | B) at the bits of `places`."""
    device = make(bytes)

    def permanent(source: Source) -> int:
        with counted_permanent_noise(source):
            return device.permanent_bits(bits)

    width = device.metric.params.report_bytes
    return exact_law(permanent, places, width=width)


def report_chances(make: Callable[[Source], MetricEncoder], permanent: int, places: int) -> Chances:
    """P(S | B') at the bits of `places`."""
    drawn: list[Source] = [bytes]
    device = make(lambda size: drawn[0](size))
    device._permanent_of[0] = permanent

    def report(source: Source) -> int:
        drawn[0] = source
        return int.from_bytes(device.report_bits(0), "little")

    return exact_law(report, places, width=device.metric.params.report_bytes)


def exact_law(toss: Callable[[Source], int], places: int, width: int) -> Chances:
    """The law of some bits of a coin toss, over all its draws of words of the report's width."""
    asked: list[int] = []

    def sizing(num_bytes: int) -> bytes:
        asked.append(num_bytes)
        return bytes(num_bytes)

    toss(sizing)
    words = sum(asked) // width
    free = subsets(places)
    assert len(free) ** words <= 1 << MAX_FREE, "a round draws more words than its coin needs"
    counts: Counter[int] = Counter()
    for drawn in itertools.product(free, repeat=words):
        rest = iter(b"".join(word.to_bytes(width, "little") for word in drawn))
        counts[toss(lambda n, rest=rest: bytes(itertools.islice(rest, n))) & places] += 1  # type: ignore[misc]
    total = len(free) ** words
    return {outcome: Fraction(counts[outcome], total) for outcome in free}


def subsets(places: int) -> list[int]:
    """All words whose ones are at some of the given bit positions."""
    own = [1 << i for i in range(places.bit_length()) if places >> i & 1]
    return [sum(bits) for n in range(len(own) + 1) for bits in itertools.combinations(own, n)]


def series_epsilons(
    device: Callable[[Source], MetricEncoder],
    first: Sequence[Chances],
    places: int,
    numbers: Sequence[int],
) -> Iterator[tuple[int, float]]:
    """The epsilon between two values, of which first has P(B' | B), after so many reports."""
    second = {b: report_chances(device, b, places) for b in subsets(places)}
    for reports in numbers:
        yield reports, epsilon_of(*(_series_chances(one, second, reports) for one in first))


def _series_chances(first: Chances, second: dict[int, Chances], reports: int) -> Chances:
    """The probability of every series, indexed by its number; the order of reports changes none."""
    outcomes = list(second)
    return {
        i: sum(
            (first[b] * math.prod((second[b][s] for s in series), start=Fraction(1))
             for b in outcomes),
            Fraction(0),
        )
        for i, series in enumerate(itertools.combinations_with_replacement(outcomes, reports))
    }  # fmt: skip


def epsilon_of(one: Chances, other: Chances) -> float:
    """The largest log ratio of either direction; infinite where only one of a pair is 0."""
    largest = Fraction(1)
    for key, chance in one.items():
        low, high = sorted((chance, other[key]))
        if high and not low:
            return math.inf
        if high:
            largest = max(largest, high / low)
    return math.log(largest.numerator) - math.log(largest.denominator)
