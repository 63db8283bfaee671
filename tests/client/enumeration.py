"""Exact audit: enumerate every outcome of the randomness, through the SDK's own rounds.

A bit source that counts in place of a random one: no sampling, so no uncertainty. Two ways. Of one
coin, all 65,536 draws stand side by side in the columns of one long word, so one toss gives its
exact chance. Of a small filter, all draws of both rounds are gone through one by one, which gives
the exact distribution of series of reports, and so epsilon itself.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial

import numpy as np

from client_sdk.randomization.metric_encoder import InstantaneousRound, PermanentRound
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from tests.client.exact_laws import (
    SECRET,
    counted_permanent_noise,
    device_of_cohort,
    epsilon_of,
    permanent_chances,
    series_epsilons,
)

COLUMNS = PROBABILITY_SCALE  # as many bits in a word as a coin has draws
COLUMN_BYTES = COLUMNS // 8
SMALL_BITS = 4
TOLERANCE = 1e-12


def _columns(num_bytes: int) -> bytes:
    """Words in which column j holds the binary digits of j: every draw of a coin once."""
    words = num_bytes // COLUMN_BYTES
    numbers = np.arange(COLUMNS, dtype=np.uint32)
    digits = [(numbers >> word) & 1 for word in range(words)]
    return b"".join(
        np.packbits(one.astype(np.uint8), bitorder="little").tobytes() for one in digits
    )


def exact_chances(mechanism: TwoRoundMechanism) -> TwoRoundMechanism | tuple[int, int, int, int]:
    """Count p1, q1, p2, q2 over 2**16 as the SDK's code tosses its coins; a tuple where they
    make no mechanism."""
    ones = (1 << COLUMNS) - 1
    second = InstantaneousRound(mechanism, COLUMNS, _columns)
    with counted_permanent_noise(_columns):
        first = PermanentRound(SECRET, "audit", "00" * 16, mechanism, COLUMNS)
        p1, q1 = first(ones).bit_count(), first(0).bit_count()
    found = p1, q1, second(ones).bit_count(), second(0).bit_count()
    same = found == (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2)
    return mechanism if same else found


def exact_symbol_chances(params: RapporParams) -> str:
    """Enumerate the rounds of symbols; "" where each symbol is kept and exchanged as declared,
    else what is off.

    All 65,536 draws of two bytes, for the first and the last symbol.
    """
    m, k = params.mechanism, params.num_bits
    for own in (0, k - 1):
        for permanent, kept, lie in ((True, m.p1, m.q1), (False, m.p2, m.q2)):
            counts = _every_draw(params, 1 << own, permanent=permanent)
            wanted = {1 << s: kept if s == own else lie for s in range(k)}
            wanted = {symbol: number for symbol, number in wanted.items() if number}
            if dict(counts) != wanted:
                return f"symbol {own}: {dict(counts)} in place of {wanted}"
    return ""


def _every_draw(params: RapporParams, bits: int, *, permanent: bool) -> Counter[int]:
    """How often each symbol comes out over all draws of two bytes."""
    draw = b""

    def source(num_bytes: int) -> bytes:
        return draw[:num_bytes]

    m, k = params.mechanism, params.num_bits
    toss: Callable[[int], int] = InstantaneousRound(m, k, source, symbol=True)
    if permanent:
        toss = PermanentRound(SECRET, "audit", "00" * 16, m, k, symbol=True)
    counts: Counter[int] = Counter()
    with counted_permanent_noise(source):
        for number in range(PROBABILITY_SCALE):
            draw = number.to_bytes(2, "little")
            counts[toss(bits)] += 1
    return counts


@dataclass(frozen=True)
class Enumerated:
    """The epsilons of a small filter, by enumeration and by the formula; nats.

    text: the parameters, in words.  reports: T, or 0 for the permanent response itself.
    """

    text: str
    reports: int
    found: float
    declared: float

    @property
    def error(self) -> float:
        """The difference, relative to the declared one."""
        return abs(self.found - self.declared) / max(self.declared, 1.0)


SETTINGS = ((0.5, 0.5, 0.75), (0.75, 0.75, 0.5))


def small_metric(prob_f: float, prob_p: float, prob_q: float) -> Metric:
    """A metric of 4 bits and 2 hashes, whose coins take so few digits that all draws can be had."""
    params = RapporParams.rappor(
        num_bits=SMALL_BITS, num_hashes=2, num_cohorts=1,
        prob_f=prob_f, prob_p=prob_p, prob_q=prob_q,
    )  # fmt: skip
    return Metric(
        name="audit", kind="string", description="exact audit", owner="audit@example.org",
        expires=date(2100, 1, 1), params=params, max_memoized_values=2, fallback="other",
    )  # fmt: skip


def enumerate_epsilons() -> Iterator[Enumerated]:
    """Enumerate all settings for 1, 2 and 3 reports, and for the permanent response."""
    places = (1 << SMALL_BITS) - 1
    for f, p, q in SETTINGS:
        metric = small_metric(f, p, q)
        device = partial(device_of_cohort, metric, 0)
        text = f"k = {SMALL_BITS}, h = 2, f = {f:g}, p = {p:g}, q = {q:g}"
        first = [permanent_chances(device, bits, places) for bits in (0b0011, 0b1100)]
        yield Enumerated(text, 0, epsilon_of(*first), metric.params.epsilon_infinity)
        for reports, found in series_epsilons(device, first, places, (1, 2, 3)):
            yield Enumerated(text, reports, found, metric.params.epsilon_n(reports))


def sampled_mechanisms(number: int, rng: np.random.Generator) -> Iterator[TwoRoundMechanism]:
    """Mechanisms with thresholds drawn at random, after some with extreme ones."""
    edge = PROBABILITY_SCALE - 1
    yield TwoRoundMechanism(edge, 1, edge, 1)
    yield TwoRoundMechanism(PROBABILITY_SCALE, 0, PROBABILITY_SCALE, 0)
    for _ in range(number):
        q1, p1 = sorted(int(x) for x in rng.choice(PROBABILITY_SCALE + 1, 2, replace=False))
        p2, q2 = (int(x) for x in rng.choice(PROBABILITY_SCALE + 1, 2, replace=False))
        yield TwoRoundMechanism(p1, q1, p2, q2)
