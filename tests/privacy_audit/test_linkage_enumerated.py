"""Scores of the linking attack against sums over all permanent answers.

Small worlds of three cells, in which what is answered is looked up again: the last cell that is at
most `hold` periods old, or `other`.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from privacy_audit.devices import NONE, Lives
from privacy_audit.linkage_by_life import by_groups, capped, same_periods, unknown_values
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams

CELLS, SLOTS, PERIODS, PEOPLE = 3, 2, 4, 5
OTHER = CELLS
SHARES = np.array([0.5, 0.3, 0.2])
SYMBOLS = RapporParams(2, 1, 1, TwoRoundMechanism.symbols(2, 2.0, 1.2), "symbol")
FILTER = RapporParams(2, 1, 1, TwoRoundMechanism.optimized(2.0, 1.2))

Life = Sequence[int]


def drawn_lives(seed: int) -> Lives:
    rng = np.random.default_rng(seed)
    shape = PEOPLE, SLOTS, PERIODS
    values = rng.choice(CELLS, size=shape, p=SHARES)
    return Lives(np.where(rng.random(shape) < 0.5, values, NONE), SHARES)


def answer(life: Life, period: int, hold: int) -> int:
    """The last known cell, or `OTHER`."""
    for before in range(period, max(period - hold, 0) - 1, -1):
        if life[before] != NONE:
            return int(life[before])
    return OTHER


def states(life: Life) -> list[str]:
    """Of each period: no data until then, a change of the last known cell, or neither."""
    last, told = NONE, []
    for value in life:
        changed = value not in (NONE, last)
        last = value if changed else last
        told.append("change" if changed else "unknown" if last == NONE else "between")
    return told


# Memoized answers. A permanent answer is a list of bits; of a symbol, one bit is set.


def permanent_answers(
    params: RapporParams, positions: Sequence[int] | None
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Each permanent answer of a value, with its chance; None: of a value that nobody knows."""
    k, mechanism = params.num_bits, params.mechanism
    p1, q1 = mechanism.p1 / 2**16, mechanism.q1 / 2**16
    for bits in itertools.product((0, 1), repeat=k):
        if params.scheme.symbols:
            if sum(bits) == 1:
                own = positions is not None and bits[positions[0]]
                yield bits, (1 / k if positions is None else p1 if own else (1 - p1) / (k - 1))
            continue
        one = 1 - (1 - 1 / k) ** params.num_hashes
        chances = [
            one * p1 + (1 - one) * q1 if positions is None else p1 if bit in positions else q1
            for bit in range(k)
        ]
        yield bits, math.prod(c if b else 1 - c for c, b in zip(chances, bits, strict=True))


def shown_chance(params: RapporParams, shown: Sequence[int], permanent: Sequence[int]) -> float:
    p2, q2 = params.mechanism.p2 / 2**16, params.mechanism.q2 / 2**16
    if params.scheme.symbols:
        return p2 if tuple(shown) == tuple(permanent) else 1 - p2
    chances = [p2 if bit else q2 for bit in permanent]
    return math.prod(c if b else 1 - c for c, b in zip(chances, shown, strict=True))


def group_chance(
    params: RapporParams, shown: Sequence[np.ndarray], positions: Sequence[int] | None
) -> float:
    """Of reports of one value: the sum over its permanent answers."""
    return sum(
        chance * math.prod(shown_chance(params, one, permanent) for one in shown)
        for permanent, chance in permanent_answers(params, positions)
    )


@pytest.mark.parametrize("params", [FILTER, SYMBOLS], ids=["filter", "symbols"])
@pytest.mark.parametrize("known", ["times", "life"])
@pytest.mark.parametrize("hold", [0, 1])
@pytest.mark.parametrize("cap", [2, 3])
def test_scores_sum_over_permanent_answers(
    params: RapporParams, known: str, hold: int, cap: int
) -> None:
    """A life: each value has one; times: an unknown value between two changes, or no data."""
    rng, lives, periods = np.random.default_rng(5), drawn_lives(6), 3
    hashed = np.array([[0, 1, 0, 1]])
    answers = lives.held(hold)
    own = capped(np.where(answers == NONE, OTHER, answers), cap, OTHER)
    shown = np.eye(2, dtype=np.int64)[rng.integers(2, size=(20, SLOTS, PERIODS))]
    if params is FILTER:
        shown = rng.integers(2, size=(20, SLOTS, PERIODS, 2))
    groups = (
        own[..., :periods]
        if known == "life"
        else unknown_values(lives, answers, OTHER)[..., :periods]
    )
    scores = by_groups(params, shown[:, :, :periods], groups, hashed)
    expected = np.zeros(scores.shape)
    for device, life in enumerate(lives.values):
        places: dict[object, list[tuple[int, int]]] = {}
        admitted: list[int] = []
        for t, slot in itertools.product(range(periods), range(SLOTS)):
            value = answer(life[slot], t, hold)
            if value != OTHER and value not in admitted and len(admitted) < cap - 1:
                admitted.append(value)
            number = states(life[slot])[: t + 1].count("change")
            key: object = value if value in admitted else OTHER
            if known == "times":
                key = OTHER if value == OTHER else ("unknown", slot, number)
            places.setdefault(key, []).append((slot, t))
        for target, stream in enumerate(shown):
            expected[target, device] = math.prod(
                group_chance(
                    params,
                    [stream[place] for place in group],
                    [int(hashed[0, value])] if isinstance(value, int) else None,
                )
                for value, group in places.items()
            )
    np.testing.assert_allclose(np.exp(scores), expected, rtol=1e-6)


def test_dates_leave_those_who_were_used_on_the_same_days() -> None:
    lives = drawn_lives(10)
    lives.values[1] = np.where(lives.values[0] != NONE, 1, NONE)  # as the first, elsewhere
    scores = same_periods(lives.used, PEOPLE)
    for target, device in itertools.product(range(PEOPLE), repeat=2):
        days = [set(np.nonzero(lives.used[one])[0]) for one in (target, device)]
        assert np.exp(scores[target, device]) == float(days[0] == days[1])
    assert scores[0, 1] == 0
