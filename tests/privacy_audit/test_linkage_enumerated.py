"""Scores of the linking attack against sums over all lives, hidden symbols and permanent answers.

Small worlds of three cells, in which what is answered is looked up anew: the last cell that is at
most `hold` periods old and of the same block, or `other`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from privacy_audit.linkage_by_life import _Fresh, _fresh_scores
from privacy_audit.lives import NONE, Lives
from privacy_audit.memoised_scores import (
    CHANGE_RATES,
    KNOWN,
    Dates,
    Knowledge,
    capped,
    dated_scores,
    memoised_scores,
)
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams

CELLS, SLOTS, PERIODS, PEOPLE = 3, 2, 4, 5
OTHER = CELLS
SHARES = np.array([0.5, 0.3, 0.2])
FRESH = TwoRoundMechanism.one_shot(1.5)
SYMBOLS = RapporParams(2, 1, 1, TwoRoundMechanism.symbols(2, 2.0, 1.2), "symbol")
FILTER = RapporParams(2, 1, 1, TwoRoundMechanism.optimised(2.0, 1.2))

Life = Sequence[int]


def drawn_lives(seed: int) -> Lives:
    rng = np.random.default_rng(seed)
    shape = PEOPLE, SLOTS, PERIODS
    values = rng.choice(CELLS, size=shape, p=SHARES)
    return Lives(np.where(rng.random(shape) < 0.5, values, NONE), SHARES)


def answer(life: Life, period: int, hold: int, block: int = 0) -> int:
    """The last known cell, or `OTHER`."""
    first = period // block * block if block else 0
    for before in range(period, max(period - hold, first) - 1, -1):
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


def report_chance(params: RapporParams, bits: Sequence[int], positions: Sequence[int]) -> float:
    """Of a fresh report about a value that sets some bits."""
    q, p = params.mechanism.q_star, params.mechanism.p_star
    chances = [q if bit in set(positions) else p for bit in range(len(bits))]
    return math.prod(c if bit else 1 - c for c, bit in zip(chances, bits, strict=True))


def relative(scores: np.ndarray, expected: np.ndarray) -> None:
    """A stream's scores are log likelihoods but for a constant of the stream."""
    found = np.exp(scores - scores[:, :1])
    np.testing.assert_allclose(found, expected / expected[:, :1], rtol=1e-6)


def every_turn(block: int, bits: int, rng: np.random.Generator) -> _Fresh:
    """One report in each of two blocks, at each pair of turns, of random bits."""
    places = list(itertools.product(range(SLOTS), range(block)))
    pairs = np.array(list(itertools.product(places, repeat=2)))
    period = pairs[..., 1] + np.arange(0, PERIODS, block)
    return sent_at_once(pairs[..., 0], period, rng.integers(2, size=(*period.shape, bits)))


def sent_at_once(slot: np.ndarray, period: np.ndarray, bits: np.ndarray) -> _Fresh:
    """Reports of an app that runs in every period."""
    return _Fresh(slot, period, bits, period + 1, np.ones(period.shape, dtype=bool))


@pytest.mark.parametrize("hold", [0, 1])
@pytest.mark.parametrize("hashes", [1, 2])
@pytest.mark.parametrize("watched", [3, PERIODS])
def test_fresh_reports_are_the_sum_over_all_lives(hold: int, hashes: int, watched: int) -> None:
    """Who knows presence adds up lives of any cells where there was data; of both blocks."""
    rng, block = np.random.default_rng([hold, hashes]), 2
    params = RapporParams(4, hashes, 1, FRESH)
    hashed, lives = rng.integers(4, size=(hashes, CELLS + 1)), drawn_lives(3)
    stream = every_turn(block, 4, rng)

    def chance(life: np.ndarray, number: int) -> float:
        product = 1.0
        for slot, period, bits in zip(
            stream.slot[number], stream.period[number], stream.bits[number], strict=True
        ):
            if period < watched:
                value = answer(life[slot], period, hold, block)
                product *= report_chance(params, bits, hashed[:, value])
        return product

    targets = range(len(stream.slot))
    by_life = [[chance(life, number) for life in lives.values] for number in targets]
    by_presence = np.zeros_like(by_life)
    for device, life in enumerate(lives.values):
        where = np.nonzero(life != NONE)
        for cells in itertools.product(range(CELLS), repeat=len(where[0])):
            other_life = life.copy()
            other_life[where] = cells
            weight = math.prod(SHARES[cell] for cell in cells)
            by_presence[:, device] += [weight * chance(other_life, one) for one in targets]
    answers = lives.held(hold, block)
    for known, expected in (("life", np.array(by_life)), ("presence", by_presence)):
        scores = _fresh_scores(params, stream, lives, answers, hashed, known, watched)  # type: ignore[arg-type]
        relative(scores, expected)


@pytest.mark.parametrize("hold", [0, 1])
def test_fresh_reports_are_the_mean_of_lives(hold: int) -> None:
    """Of every life of one slot and four periods once: those that changed, or not, in a period."""
    rng, block = np.random.default_rng(hold), 2
    params, hashed = RapporParams(4, 1, 1, FRESH), np.array([[0, 1, 2, 3]])
    all_lives = list(itertools.product((NONE, *range(CELLS)), repeat=PERIODS))
    lives = Lives(np.array(all_lives)[:, None], np.full(CELLS, 1 / CELLS))
    told = [states(life) for life in all_lives]
    for period in range(PERIODS):
        bits = rng.integers(2, size=4)
        where = np.zeros((1, 1), int), np.full((1, 1), period)
        stream = sent_at_once(*where, bits[None, None])
        chances = [
            report_chance(params, bits, hashed[:, answer(life, period, hold, block)])
            for life in all_lives
        ]
        mean = {
            state: np.mean(
                [c for c, one in zip(chances, told, strict=True) if one[period] == state]
            )
            for state in {one[period] for one in told}
        }
        expected = np.array([[mean[one[period]] for one in told]])
        answers = lives.held(hold, block)
        scores = _fresh_scores(params, stream, lives, answers, hashed, "changes", PERIODS)
        relative(scores, expected)


@pytest.mark.parametrize("known", ["presence", "life"])
def test_a_late_answer_is_of_a_device_that_was_used_then(known: Knowledge) -> None:
    """Every turn, and every arrival: likelihoods of the others are as without the date, or 0."""
    values = drawn_lives(7).values
    lives, steady = Lives(values, SHARES, seldom=True), Lives(values, SHARES)
    rng, answers = np.random.default_rng(8), lives.held(1, 2)
    params, hashed = RapporParams(4, 1, 1, FRESH), np.array([[0, 1, 2, 3]])
    uses = [[t for t in range(PERIODS) if (life[:, t] != NONE).any()] for life in values]
    one = np.zeros((1, 1), int)
    for turn, arrived in itertools.combinations(range(PERIODS), 2):
        bits = rng.integers(2, size=(1, 1, 4))
        then = np.array([arrived == min((t for t in own if t > turn), default=-1) for own in uses])
        scores = [
            _fresh_scores(params, stream, of, answers, hashed, known, PERIODS)
            for of, stream in (
                (lives, _Fresh(one, one + turn, bits, one + arrived, one == 0)),
                (steady, sent_at_once(one, one + turn, bits)),
            )
        ]
        np.testing.assert_array_equal(scores[0], np.where(then, scores[1], -np.inf))
        lost = _Fresh(one, one + turn, bits, one + arrived, one == 1)
        assert not _fresh_scores(params, lost, lives, answers, hashed, known, PERIODS).any()


# Memoised answers. A permanent answer is a list of bits; of a symbol, one bit is set.


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


def every_symbol(slots: int, periods: int) -> np.ndarray:
    """All sequences of two symbols, as bits: (2^(S T), S, T, 2)."""
    rows = list(itertools.product((0, 1), repeat=slots * periods))
    return np.eye(2, dtype=np.int64)[np.array(rows).reshape(-1, slots, periods)]


def hidden_chance(
    stream: np.ndarray,
    permanent: Sequence[Sequence[int]],
    other: int,
    share: float,
    turns: Sequence[float],
    absent: Sequence[float],
) -> float:
    """Of one slot's answers: the sum over all sequences of symbols of the cell.

    turns: how likely the symbol is drawn anew in a period.  absent: of answering `other` there.
    """
    total, crowd = 0.0, (1 - share, share)
    for path in itertools.product((0, 1), repeat=len(stream)):
        chance = crowd[path[0]]
        for last, symbol, turn in zip(path, path[1:], turns[1:], strict=False):
            chance *= turn * crowd[symbol] + (1 - turn) * (symbol == last)
        for shown, symbol, away in zip(stream, path, absent, strict=True):
            chance *= (1 - away) * shown_chance(SYMBOLS, shown, permanent[symbol]) + (
                away * shown_chance(SYMBOLS, shown, permanent[other])
            )
        total += chance
    return total


def symbols_chance(
    stream: np.ndarray, lives: Lives, device: int, hashed: np.ndarray, hold: int, known: str
) -> float:
    """Of all answers of a device, by what is known of it."""
    life, periods = lives.values[device], range(stream.shape[1])
    symbol_of, other = hashed[0], int(hashed[0, OTHER])
    share = sum(SHARES[cell] for cell in range(CELLS) if symbol_of[cell] == 1)
    rates = CHANGE_RATES if known == "presence" else (1.0,)
    total = 0.0
    permanents = [list(permanent_answers(SYMBOLS, [symbol])) for symbol in (0, 1)]
    for (first, a), (second, b) in itertools.product(*permanents):
        permanent, by_rate = (first, second), 0.0
        for rate in rates:
            product = 1.0
            for slot, row in enumerate(life):
                told = states(row)
                if known == "life":
                    own = [symbol_of[answer(row, t, hold)] for t in periods]
                    product *= math.prod(
                        shown_chance(SYMBOLS, stream[slot, t], permanent[own[t]]) for t in periods
                    )
                    continue
                if known == "presence":
                    away = [float(answer(row, t, hold) == OTHER) for t in periods]
                    turns = [rate * (row[t] != NONE or hold == 0) for t in periods]
                else:
                    turns = [float(one == "change") for one in told]
                    alike = [
                        [answer(one[slot], t, hold) == OTHER for one in lives.values
                         if states(one[slot])[t] == "between"] for t in periods
                    ]  # fmt: skip
                    away = [
                        {"unknown": 1.0, "change": 0.0}.get(told[t], np.mean(alike[t] or [0]))
                        for t in periods
                    ]
                product *= hidden_chance(stream[slot], permanent, other, share, turns, away)
            by_rate += product / len(rates)
        total += a * b * by_rate
    return total


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("hold", [0, 1])
@pytest.mark.parametrize(
    "hashed", [[0, 1, 0, 1], pytest.param([1, 1, 0, 0], marks=pytest.mark.long)]
)
def test_two_symbols_sum_over_hidden_symbols(
    known: Knowledge, hold: int, hashed: list[int]
) -> None:
    periods, table = 3, np.array([hashed])
    lives = drawn_lives(4)
    own = table[0][lives.held(hold)]
    for watched in (periods - 1, periods):
        shown = every_symbol(SLOTS, periods)[:: 1 if watched == periods else 5]
        scores = memoised_scores(SYMBOLS, hold, shown, lives, own, table, known, watched)
        part = Lives(lives.values[..., :watched], SHARES)
        expected = np.array(
            [[symbols_chance(one[:, :watched], part, device, table, hold, known)
              for device in range(PEOPLE)] for one in shown]
        )  # fmt: skip
        np.testing.assert_allclose(np.exp(scores), expected, rtol=1e-6)
        if watched == periods:
            np.testing.assert_allclose(expected.sum(axis=0), 1.0, rtol=1e-6)


def group_chance(
    params: RapporParams, shown: Sequence[np.ndarray], positions: Sequence[int] | None
) -> float:
    """Of reports of one value: the sum over its permanent answers."""
    return sum(
        chance * math.prod(shown_chance(params, one, permanent) for one in shown)
        for permanent, chance in permanent_answers(params, positions)
    )


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("hold", [0, 1])
@pytest.mark.parametrize("cap", [2, 3])
def test_filters_sum_over_permanent_answers(known: Knowledge, hold: int, cap: int) -> None:
    """Presence: all data of a slot are one cell, or each another; changes: one cell between two."""
    rng, lives, periods = np.random.default_rng(5), drawn_lives(6), 3
    hashed = np.array([[0, 1, 0, 1]])
    answers = lives.held(hold)
    own = capped(np.where(answers == NONE, OTHER, answers), cap, OTHER)
    shown = rng.integers(2, size=(20, SLOTS, PERIODS, 2))
    scores = memoised_scores(FILTER, hold, shown, lives, own, hashed, known, periods)
    expected = np.zeros(scores.shape)
    places = list(itertools.product(range(SLOTS), range(periods)))
    for device, life in enumerate(lives.values):
        sets: list[dict[object, list[tuple[int, int]]]] = [{}]
        if known == "life":
            admitted: list[int] = []
            for t, slot in itertools.product(range(PERIODS), range(SLOTS)):
                value = answer(life[slot], t, hold)
                if value != OTHER and value not in admitted and len(admitted) < cap - 1:
                    admitted.append(value)
                if t < periods:
                    value = value if value in admitted else OTHER
                    sets[0].setdefault(value, []).append((slot, t))
        elif known == "changes":
            for slot, t in places:
                number = states(life[slot])[: t + 1].count("change")
                sets[0].setdefault(("unknown", slot, number), []).append((slot, t))
        else:
            sets = [{}, {}]
            for slot, t in places:
                away = answer(life[slot], t, hold) == OTHER
                for one, key in zip(sets, (("one", slot), ("alone", slot, t)), strict=True):
                    one.setdefault(OTHER if away else key, []).append((slot, t))
        for target, stream in enumerate(shown):
            expected[target, device] = sum(
                math.prod(
                    group_chance(
                        FILTER,
                        [stream[place] for place in group],
                        [int(hashed[0, value])] if isinstance(value, int) else None,
                    )
                    for value, group in groups.items()
                )
                for groups in sets
            )
    np.testing.assert_allclose(np.exp(scores), expected, rtol=1e-6)


@pytest.mark.parametrize("known", KNOWN)
def test_dates_leave_those_who_were_used_on_the_same_days(known: Knowledge) -> None:
    """Of those alike, a life is the sum over permanent answers of the reports that came."""
    rng, periods = np.random.default_rng(9), 3
    values = drawn_lives(10).values
    values[1] = np.where(values[0] != NONE, 1, NONE)  # as the first, elsewhere
    lives, hashed = Lives(values, SHARES), np.array([[0, 1, 0, 1]])
    own = np.where(values == NONE, OTHER, values)
    came = lives.used & (rng.random(lives.used.shape) < 0.7)
    came[1] = came[0]
    dates = Dates(lives.used, lives.used, came)
    shown = rng.integers(2, size=(PEOPLE, SLOTS, PERIODS, 2))
    scores = dated_scores(FILTER, shown, lives, own, hashed, dates, known, periods)
    for target, device in itertools.product(range(PEOPLE), repeat=2):
        days = [set(np.nonzero(lives.used[one, :periods])[0]) for one in (target, device)]
        if known == "changes":
            told = {t for row in values[device] for t, one in enumerate(states(row)[:periods])
                    if one == "change"}  # fmt: skip
            assert np.exp(scores[target, device]) == (told <= days[0])
            continue
        groups: dict[int, list[np.ndarray]] = {}
        for slot, t in itertools.product(range(SLOTS), range(periods)):
            if came[device, t]:
                groups.setdefault(int(own[device, slot, t]), []).append(shown[target, slot, t])
        expected = float(days[0] == days[1])
        if known == "life" and expected:
            expected = math.prod(
                group_chance(FILTER, rows, [int(hashed[0, value])])
                for value, rows in groups.items()
            )
        assert np.exp(scores[target, device]) == pytest.approx(expected, rel=1e-6)
    assert np.isfinite(scores[0, 1])
