"""Whose reports these are, by what is known of lives: against enumeration and the bound."""

import csv
import gzip
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from client_sdk.location.dwell_time import moment_of
from privacy_audit import linkage_by_life as linkage
from privacy_audit.devices import NONE, Lives, draw_lives
from privacy_audit.findings import WORLDS, life_findings
from rappor_core.calendar import day_of, period_number
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from tests.client.location_support import START, declared, visits_of
from tests.metric_texts import declaration

PLACES = declaration(
    "places", "location", expires="2099-12-31", grid="square", box=[0, 0, 8, 8], rows=13,
    columns=13, levels=[0], slots=["night 22-6", "work 9-17 weekdays"], period="week",
    num_cohorts=64,
)  # fmt: skip
SYMBOLS = 'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\nepsilon_infinity = 2.0\n'
WINDOW = 'mode = "window"\nwindow = 52\nturn = "fresh"\nhold = 4\nmax_reports = 2\nnum_bits = 32\n'
FILTER = 'mode = "memo"\nhold = 4\nmechanism = "l-osue"\nmax_memoized_values = 3\nnum_bits = 16\n'
RIDERS = Path(__file__).parents[3] / "shared" / "data" / "valleybike_500riders.csv.gz"
THEME = declaration(
    "theme", "category", expires="2099-12-31", categories=["light", "dark", "none"],
    max_memoized_values=3, prob_f=0.5, prob_p=0.25, prob_q=0.75, num_cohorts=4,
)  # fmt: skip


def places(keys: str) -> Metric:
    return parse_metrics(PLACES + keys).declared[0]


def test_a_held_cell_has_its_age() -> None:
    values = np.array([[[3, NONE, NONE, NONE, 5, NONE, NONE, 5]]])
    lives = Lives(values, np.full(6, 1 / 6))
    assert lives.answers(2)[0, 0].tolist() == [3, 3, 3, NONE, 5, 5, 5, 5]
    assert lives.answers(0)[0, 0].tolist() == values[0, 0].tolist()
    assert lives.answers(4)[0, 0].tolist() == [3, 3, 3, 3, 5, 5, 5, 5]
    assert lives.changes[0, 0].tolist() == [True, *[False] * 3, True, *[False] * 3]


def test_worlds_have_the_presence_they_say() -> None:
    """False alarms: under one in a million each (five standard errors of 1,000 people)."""
    worlds = ("sparse", 0.29, 0.22 / 44), ("rarely", 0.29, 0.22 / 31)
    for world, mean, error in worlds:
        lives = draw_lives(world, 1_000, 2, 45, np.random.default_rng(0))  # type: ignore[arg-type]
        assert lives.present.mean() == pytest.approx(mean, abs=5 * error)
    assert (lives.present == lives.used[:, None]).all()  # all slots of a rarely app together


def test_the_next_use_is_after_the_period() -> None:
    values = np.array([[[NONE, 3, NONE, NONE, 2], [4, NONE, NONE, NONE, NONE]]])
    assert Lives(values, np.ones(5)).next_use.tolist() == [[1, 2, 3, 4, 5]]
    assert Lives(values, np.ones(5), rarely=True).next_use.tolist() == [[1, 4, 4, 4, 5]]


def test_answers_come_while_they_are_taken() -> None:
    """k / (2.45 + k) of answers come in k weeks: false alarms one in 100,000 (4.4 errors)."""
    lives = draw_lives("rarely", 20_000, 1, 60, np.random.default_rng(0))
    waited = lives.next_use[:, :50] - np.arange(50)
    for weeks in (1, 2, 6):
        came = (waited <= weeks).mean(axis=1)
        error = came.std() / math.sqrt(len(came))
        off = [abs(came.mean() - k / (2.45 + k)) / error for k in (weeks - 1, weeks, weeks + 1)]
        assert off[1] < 4.4 < min(off[0], off[2])
    for accept_days, weeks in ((7, 1), (14, 2), (42, 6)):
        metric = places(WINDOW + f"epsilon = 2.0\naccept_days = {accept_days}\n")
        assert linkage.share_that_arrives(metric) == weeks / (2.45 + weeks)


def test_devices_answer_in_the_weeks_that_the_attack_expects() -> None:
    """The client itself, of an app that runs on Wednesdays of the weeks of drawn lives."""
    lives = draw_lives("rarely", 25, 1, 40, np.random.default_rng(6))
    late = 0
    for seed, (life, after) in enumerate(zip(lives.values[:, 0], lives.next_use, strict=True)):
        visits, sent = visits_of(declared("fresh", 'period = "week"\n'), seed)
        visits.roll(moment_of(START))  # installed
        first, arrived = period_number("week", day_of(START)), dict[int, int]()
        for week in np.nonzero(life != NONE)[0].tolist():
            before = len(sent)
            visits.fix(1.5, 1.5, moment_of(START + timedelta(weeks=week, days=2, hours=12)))
            arrived |= {period_number("week", day) - first: week for *_, day in sent[before:]}
        due = [week for week in range(40) if visits._assignment.due(first + week)]
        waits = {week: int(after[week]) for week in due if after[week] < 40}
        assert arrived == {week: at for week, at in waits.items() if at - week <= 6}
        late += sum(at - week > 1 for week, at in arrived.items())
    assert late > 50


def test_dates_of_arrival_raise_the_bound_of_fresh_answers() -> None:
    """The example of docs/location.md: an answer at epsilon 2, by the weeks until it may arrive."""
    for accept_days, bound in ((7, 0.0147), (14, 0.022), (42, 0.0514), (90, 0.1028)):
        metric = places(WINDOW + f"epsilon = 2.0\naccept_days = {accept_days}\n")
        steady, late = (linkage.bound_of_fresh(metric, world, 52, 1_000) for world in WORLDS)
        assert steady == pytest.approx(0.00734, abs=1e-5)
        assert late == pytest.approx(bound, abs=1e-4)
    window, symbols = places(WINDOW + "epsilon = 2.0\n"), places(SYMBOLS + "epsilon_one = 1.8\n")
    assert linkage.bound_of_fresh(window, "sparse", 53, 1_000) > 0.05  # two
    assert linkage.bound_of_fresh(symbols, "sparse", 9, 1_000) == 1.0


def riders_found(periods: int, crowd: int) -> list[float]:
    """Share of real riders whose days with a trip nobody else of a crowd has, of each window."""
    with gzip.open(RIDERS, "rt") as file:
        rows = {(row["user_id"], date.fromisoformat(row["start_time"][:10]).toordinal())
                for row in csv.DictReader(file)}  # fmt: skip
    first, last = min(day for _, day in rows), max(day for _, day in rows)
    shares = []
    for start in range(first, last - periods, periods):
        days: dict[str, tuple[int, ...]] = {}
        for rider, day in sorted(rows):
            if start <= day < start + periods:
                days[rider] = (*days.get(rider, ()), day)
        alike = Counter(list(days.values())[:crowd])
        if len(days) >= crowd:
            shares.append(len(alike) / crowd)  # of those alike, one guess is right
    return shares


@pytest.mark.skipif(not RIDERS.exists(), reason="the trips are not at ../shared/data")
def test_drawn_lives_predict_how_many_real_riders_are_found_by_their_days() -> None:
    """A string a trip: of 62 riders nine in ten or more have unique days in 45 days."""
    station = declaration(
        "station", "string", expires="2099-12-31", num_bits=64, num_hashes=2, num_cohorts=4,
        prob_f=0.5, prob_p=0.25, prob_q=0.75, max_memoized_values=4, fallback="other",
    )  # fmt: skip
    metric = parse_metrics(station).declared[0]
    (predicted,) = linkage.find_by_life(metric, "sparse", np.random.default_rng(4), periods=(45,),
                                crowd=62, cohorts=4, targets=62)  # fmt: skip
    measured = riders_found(45, 62)
    assert len(measured) > 9
    assert predicted.by_times == pytest.approx(np.mean(measured), abs=0.06)
    assert predicted.by_life >= predicted.by_times - 0.02
    assert min(measured) > 0.85


def test_memoized_answers_identify() -> None:
    memo = linkage.find_by_life(places(SYMBOLS + "epsilon_one = 1.8\n"), "sparse",
                        np.random.default_rng(1), periods=(12, 45), cohorts=1,
                        targets=25)  # fmt: skip
    assert memo[1].by_times > 0.15
    assert memo[1].by_life > 0.4
    assert memo[0].by_life < memo[1].by_life


def test_filters_and_other_kinds_are_attacked_too() -> None:
    rng = np.random.default_rng(2)
    keys = FILTER + "epsilon_infinity = 2.0\nepsilon_one = 1.8\n"
    (found,) = linkage.find_by_life(places(keys), "sparse", rng, periods=(30,), crowd=200,
                            cohorts=1, targets=40)  # fmt: skip
    assert found.by_life > 0.3
    theme, daily = (parse_metrics(THEME + more).declared[0] for more in ("", 'no_data = "none"\n'))
    for metric in (theme, daily):
        (one,) = linkage.find_by_life(metric, "sparse", rng, periods=(30,), crowd=200, cohorts=1,
                              targets=40)  # fmt: skip
        assert one.by_life > 0.1
    assert not linkage.can_be_watched(parse_metrics(THEME + "max_reports = 1\n").declared[0])


def test_days_with_a_report_find_whatever_the_mechanism_is() -> None:
    """A boolean, and few one-time reports: the first of 45 days are all that is seen."""
    common = {"expires": "2099-12-31", "prob_p": 0.25, "prob_q": 0.75}
    dark = declaration("dark", "boolean", prob_f=0.5, max_memoized_values=2, **common)
    (found,) = linkage.find_by_life(parse_metrics(dark).declared[0], "sparse",
                            np.random.default_rng(5), periods=(45,), crowd=300,
                            cohorts=1)  # fmt: skip
    assert found.by_times == found.by_life > 0.9
    few = [declaration("page", "category", categories=["a", "b"], prob_f=0.0, max_reports=number,
                       max_memoized_values=2, **common) for number in (1, 2, 5)]  # fmt: skip
    one, two, five = (parse_metrics(text).declared[0] for text in few)
    shares = [linkage.find_by_life(metric, "sparse", np.random.default_rng(5), periods=(45,),
                           crowd=300, cohorts=1)[0].by_times for metric in (two, five)]  # fmt: skip
    assert 0.1 < shares[0] < shares[1] < found.by_times
    assert not linkage.can_be_watched(one)


def test_check_names_the_bound_of_fresh_answers() -> None:
    window = parse_metrics(PLACES + WINDOW + "epsilon = 2.0\n")
    (note,) = life_findings(window, 64_000, np.random.default_rng(0))
    assert note.level == "note"
    assert "in at most 0.73% of cases" in note.message
    assert "71% of due answers arrive (accept_days = 42)" in note.message
    assert "raise that to at most 5.14%" in note.message


CELLS, SLOTS, PERIODS, PEOPLE = 3, 2, 4, 5
OTHER = CELLS
SHARES = np.array([0.5, 0.3, 0.2])
TWO_SYMBOLS = RapporParams(2, 1, 1, TwoRoundMechanism.symbols(2, 2.0, 1.2), "symbol")
TWO_BITS = RapporParams(2, 1, 1, TwoRoundMechanism.optimized(2.0, 1.2))

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
    """The answer of each period: no data so far, a change of the last known cell, or neither."""
    last, result = NONE, []
    for value in life:
        changed = value not in (NONE, last)
        last = value if changed else last
        result.append("change" if changed else "unknown" if last == NONE else "between")
    return result


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
    """For reports of one value, the sum over its permanent answers."""
    return sum(
        chance * math.prod(shown_chance(params, one, permanent) for one in shown)
        for permanent, chance in permanent_answers(params, positions)
    )


@pytest.mark.parametrize("params", [TWO_BITS, TWO_SYMBOLS], ids=["filter", "symbols"])
@pytest.mark.parametrize("known", ["times", "life"])
@pytest.mark.parametrize("hold", [0, 1])
@pytest.mark.parametrize("cap", [2, 3])
def test_scores_sum_over_permanent_answers(params, known, hold, cap) -> None:
    """A life: each value has one; times: an unknown value between two changes, or no data."""
    rng, lives, periods = np.random.default_rng(5), drawn_lives(6), 3
    hashed = np.array([[0, 1, 0, 1]])
    answers = lives.answers(hold)
    own = linkage.capped(np.where(answers == NONE, OTHER, answers), cap, OTHER)
    shown = np.eye(2, dtype=np.int64)[rng.integers(2, size=(20, SLOTS, PERIODS))]
    if params is TWO_BITS:
        shown = rng.integers(2, size=(20, SLOTS, PERIODS, 2))
    groups = own if known == "life" else linkage.unknown_values(lives, answers, OTHER)
    scores = linkage.by_groups(params, shown[:, :, :periods], groups[..., :periods], hashed)
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
    scores = linkage.same_periods(lives.used, PEOPLE)
    for target, device in itertools.product(range(PEOPLE), repeat=2):
        days = [set(np.nonzero(lives.used[one])[0]) for one in (target, device)]
        assert np.exp(scores[target, device]) == float(days[0] == days[1])
    assert scores[0, 1] == 0
