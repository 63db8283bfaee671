"""A check that the second round has full entropy, based on how often reports are equal.

Reports for one value on one device differ only by fresh noise. Two reports, or two pieces of
reports, are equal with a probability that follows from the declared noise. A noise generator with s
possible seeds produces n^2 / 2s additional equal pairs in n reports. This is tested for a device
that stays open, and for a device that is reopened, where a time-based seed would repeat.
"""

import os
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from privacy_audit.black_box.checks import Check, all_of, test
from privacy_audit.black_box.program_client import ClientSource, Event, Life, SeenReport
from privacy_audit.black_box.scenarios import disjoint, start_days, values_of
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.metric import Metric

PART: Final = "freshness"
REPORTS = 240_000  # the number of reports from one device
OPENED = 6_000  # the number of these for which the device is reopened
LIFE = 2_000  # the number of reports in one run of a device
PIECE = 32  # the number of bits per piece, which are compared separately
MIN_ENTROPY = 12.0  # bits of entropy in a piece, below which reports are often equal in any case
FOUND = 3.0  # the expected equal pairs from a fault that is detected with probability .95


def left_out(metric: Metric) -> str:
    """Return why equal reports of a metric prove nothing and are not checked, or "" if they do."""
    m = metric.params.mechanism
    if metric.params.scheme.symbols or metric.params.num_bits < MIN_ENTROPY:
        return (
            f"its reports have fewer than {MIN_ENTROPY:g} bits of noise, and are often equal anyway"
        )
    return "" if 0 < m.q2 < PROBABILITY_SCALE else "it has no second round"


def freshness_checks(source: ClientSource, metric: Metric, reports: int) -> Iterator[Check]:
    """Check how many of a device's reports are equal, in `reports` reports and after reopening."""
    value = disjoint(metric, values_of(metric))[0]
    secret = os.urandom(32)
    event = Event(metric.name, start_days(metric, 1)[0], value)
    with source.started() as client:
        (device,) = client.derive(metric.name, [(secret, value)])
        for number, together, how in (
            (reports, LIFE, "one after the other"),
            (min(reports, OPENED), 1, "by a device reopened"),
        ):
            length = min(LIFE, number)
            life = Life(secret, (event,) * length)
            lives = client.encode([life] * (number // length), together)
            yield _equal(metric, device.permanent_bits, lives, how)


def _equal(metric: Metric, permanent: int, lives: list[list[SeenReport]], how: str) -> Check:
    """Check the number of equal pairs for each piece of the reports; `permanent` is B'."""
    width, n = metric.params.report_bytes, sum(map(len, lives))
    raw = np.frombuffer(b"".join(r.bits for some in lives for r in some), dtype=np.uint8)
    table = raw.reshape(n, width)
    step = PIECE // 8
    pieces = [slice(0, width), *(slice(i, min(i + step, width)) for i in range(0, width, step))]
    results, seeds = [(1.0, "nothing to compare")], 0.0
    for start, stop in dict.fromkeys((piece.start, piece.stop) for piece in pieces):
        alike, triples = (
            chance_alike(metric, permanent, 8 * start, 8 * stop, number) for number in (2, 3)
        )
        if alike > 2**-MIN_ENTROPY:
            continue
        expected, equal = n * (n - 1) / 2 * alike, equal_pairs(table[:, start:stop])
        text = f"{equal:,} equal pairs of bits {8 * start} to {8 * stop}, {expected:.3g} expected"
        results.append((at_least(equal, n, alike, triples), f"{text}, among {n:,} reports"))
        spread = expected + n * (n - 1) * (n - 2) * (triples - alike**2)
        more = FOUND + 4 * np.sqrt(spread + 1)
        seeds = max(seeds, np.log2(n * (n - 1) / 2 / more))
    p_value, text = min(results[1:] or results, key=lambda pair: pair[0])
    return test(
        metric.name, f"reports {how} are equal only by chance", PART,
        p_value * max(len(results) - 1, 1), text,
        all_of(f"noise, or {PIECE} bits of it, from 2^{seeds:.0f} seeds or fewer")
        if len(results) > 1 else None,
    )  # fmt: skip


def at_least(pairs_equal: int, number: int, alike: float, triples: float) -> float:
    """Return P(`pairs_equal` or more equal pairs among `number` reports).

    The law is negative binomial, with the exact mean and variance. If some reports are more likely
    than others, the pairs of one report are dependent, and a Poisson law would reject honest
    clients. `alike` and `triples` are the probabilities that two and that three reports are equal.
    """
    pairs = number * (number - 1) / 2
    mean = pairs * alike
    more = 2 * pairs * (number - 2) * (triples - alike**2) - mean * alike
    if not pairs_equal:
        return 1.0
    if more <= 1e-9 * mean:
        return float(stats.poisson.sf(pairs_equal - 1, mean))
    return float(stats.nbinom.sf(pairs_equal - 1, mean**2 / more, mean / (mean + more)))


def chance_alike(metric: Metric, permanent: int, start: int, end: int, reports: int = 2) -> float:
    """Return the probability that bits `start` to `end` agree in `reports` reports of B'."""
    (_, _, p2, q2), times = metric.params.mechanism.rates, reports
    places = range(start, min(end, metric.params.num_bits))
    ones = sum(permanent >> place & 1 for place in places)
    each = p2**times + (1 - p2) ** times, q2**times + (1 - q2) ** times
    return float(each[0] ** ones * each[1] ** (len(places) - ones))


def equal_pairs(table: NDArray[np.uint8]) -> int:
    """Return the number of pairs of equal rows."""
    rows = np.ascontiguousarray(table).view(np.dtype((np.void, table.shape[1]))).ravel()
    _, counts = np.unique(rows, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())
