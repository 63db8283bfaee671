"""The exact audit: every outcome of the randomness, through the SDK's own rounds.

Of one coin, all 65,536 draws are side by side in the columns of one long word: one toss gives its
exact chance. Of a small filter, all draws of both rounds give the law of series of reports. Lives
of numbers are enumerated in tests/core/test_number_metric.py, of flows in test_flow_lives.py.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial

import numpy as np
import pytest

from client_sdk.randomization.metric_encoder import InstantaneousRound, PermanentRound, SymbolCoin
from rappor_core.codes.prefix_code import packaged_code
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.pair_kind import Pair
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
COMMON = {"description": "audit", "owner": "a@example.org", "expires": date(2100, 1, 1)}
HALF = PROBABILITY_SCALE // 2
ONE_SHOT = TwoRoundMechanism(p1=HALF, q1=HALF // 4, p2=PROBABILITY_SCALE, q2=0)
TWICE = TwoRoundMechanism(p1=HALF, q1=HALF // 4, p2=3 * HALF // 2, q2=HALF // 2)
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
    """p1, q1, p2, q2 over 2**16 as the SDK tosses its coins; a tuple where they are others."""
    ones = (1 << COLUMNS) - 1
    second = InstantaneousRound(mechanism, COLUMNS, _columns)
    with counted_permanent_noise(_columns):
        first = PermanentRound(SECRET, "audit", "00" * 16, mechanism, COLUMNS)
        p1, q1 = first(ones).bit_count(), first(0).bit_count()
    found = p1, q1, second(ones).bit_count(), second(0).bit_count()
    same = found == (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2)
    return mechanism if same else found


def exact_symbol_chances(params: RapporParams) -> str:
    """What is off in the rounds of the first and the last symbol over all draws; "" if nothing."""
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


SETTINGS = ((0.5, 0.5, 0.75), (0.75, 0.75, 0.5))


def small_metric(prob_f: float, prob_p: float, prob_q: float) -> Metric:
    """A metric of 4 bits and 2 hashes, whose coins take so few digits that all draws can be had."""
    params = RapporParams.rappor(
        num_bits=SMALL_BITS, num_hashes=2, num_cohorts=1,
        prob_f=prob_f, prob_p=prob_p, prob_q=prob_q,
    )  # fmt: skip
    keys = COMMON | {"max_memoized_values": 2, "fallback": "other"}
    return Metric("audit", "string", params=params, **keys)


def error_of(found: float, declared: float) -> float:
    """The difference of two epsilons, relative to the declared one."""
    return abs(found - declared) / max(declared, 1.0)


def epsilon_errors() -> Iterator[float]:
    """For all settings: the permanent response and for 1, 2 and 3 reports."""
    places = (1 << SMALL_BITS) - 1
    for f, p, q in SETTINGS:
        metric = small_metric(f, p, q)
        device = partial(device_of_cohort, metric, 0)
        first = [permanent_chances(device, bits, places) for bits in (0b0011, 0b1100)]
        yield error_of(epsilon_of(*first), metric.params.epsilon_infinity)
        for reports, found in series_epsilons(device, first, places, (1, 2, 3)):
            yield error_of(found, metric.params.epsilon_n(reports))


def sampled_mechanisms(number: int, rng: np.random.Generator) -> Iterator[TwoRoundMechanism]:
    """Mechanisms with thresholds drawn at random, after some with extreme ones."""
    edge = PROBABILITY_SCALE - 1
    yield TwoRoundMechanism(edge, 1, edge, 1)
    yield TwoRoundMechanism(PROBABILITY_SCALE, 0, PROBABILITY_SCALE, 0)
    for _ in range(number):
        q1, p1 = sorted(int(x) for x in rng.choice(PROBABILITY_SCALE + 1, 2, replace=False))
        p2, q2 = (int(x) for x in rng.choice(PROBABILITY_SCALE + 1, 2, replace=False))
        yield TwoRoundMechanism(p1, q1, p2, q2)


def test_epsilon_of_small_filters_is_the_declared_one() -> None:
    found = list(epsilon_errors())
    assert len(found) == 4 * len(SETTINGS)
    assert max(found) < TOLERANCE


def test_coins_fall_exactly_as_declared() -> None:
    for mechanism in sampled_mechanisms(5, np.random.default_rng(0)):
        assert exact_chances(mechanism) is mechanism


@pytest.mark.parametrize("g", [2, 3, 4, 8, 200])
def test_symbols_fall_exactly_as_declared(g: int) -> None:
    params = RapporParams(g, 1, 4, TwoRoundMechanism.symbols(g, 2.0, 1.0), "symbol")
    assert exact_symbol_chances(params) == ""


def test_chances_must_add_up() -> None:
    with pytest.raises(ValueError, match="is not 65536"):
        SymbolCoin(50_000, 10_000, 4)


def errors(metric: Metric, cohort: int, values: list[object], most: int) -> Iterator[float]:
    """How far the epsilon of two values is from the declared one, for 1 to `most` reports."""
    device = partial(device_of_cohort, metric, cohort)
    bits = [device(bytes).value_bits(value) for value in values]
    places = bits[0] | bits[1]
    first = [permanent_chances(device, one, places) for one in bits]
    for reports, found in series_epsilons(device, first, places, range(1, most + 1)):
        yield error_of(found, metric.params.epsilon_n(reports))


@pytest.mark.parametrize("setting", SETTINGS)
def test_pairs_cost_what_is_declared(setting) -> None:
    pair = Pair(("engine", "theme"), (("a", "b"), ("light", "dark")))
    params = RapporParams(4, 1, 1, TwoRoundMechanism.rappor(*setting), "one_hot")
    metric = Metric("audit", "pair", params=params, max_memoized_values=4, details=pair, **COMMON)
    assert max(errors(metric, 0, [("a", "light"), ("b", "dark")], 3)) < TOLERANCE


@pytest.mark.parametrize(("mechanism", "most"), [(ONE_SHOT, 1), (TWICE, 2)])
@pytest.mark.parametrize("cohort", range(3))
def test_coded_prefixes_cost_what_is_declared(mechanism, most, cohort) -> None:
    groups = PrefixGroups(packaged_code("domains"), num_levels=2, bits_per_level=8)
    keys = COMMON | {"max_memoized_values": 2, "fallback": "other", "details": groups}
    params = RapporParams(16, 1, 3, mechanism, "coded_prefix")
    limit = most if mechanism is ONE_SHOT else None
    metric = Metric("audit", "discover", params=params, max_reports=limit, **keys)
    assert max(errors(metric, cohort, ["one.example", "two.example"], most)) < TOLERANCE
