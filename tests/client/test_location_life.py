"""The whole life of a device in a small world, enumerated: every output of every life, exactly.

Fixes go through the real recorder and ledger, with both rounds left out; chances are then summed
over every permanent response. Which reports are sent, and when, must not depend on the places, and
lives differ by no more than the ledger says: with `memo` those that change at the same times.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from client_sdk.location.recorder import LocationRecorder
from client_sdk.randomization import metric_encoder as device
from client_sdk.recording.ledger import spent
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from client_sdk.testing import FixedRandomness
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration
from tests.places_support import fix

THREE_CELLS = {"grid": "square", "box": [0, 0, 1, 3], "rows": 1, "columns": 3, "levels": [0]}
DECLARED = declaration("density", "location", **THREE_CELLS)
NOISE = "epsilon_infinity = {e}\nepsilon_one = {one}\nmax_memoized_values = {cap}\n"
FILTER = 'mode = "memo"\nmechanism = "{name}"\nnum_bits = {k}\nnum_cohorts = 2\n' + NOISE
SYMBOL = 'mode = "memo"\nencoding = "symbol"\nnum_symbols = {k}\nnum_cohorts = 2\n' + NOISE
ONE_HOT = 'mode = "memo"\nmechanism = "{name}"\nencoding = "one_hot"\n' + NOISE
WINDOW = (
    'mode = "window"\nwindow = 3\nmax_reports = 2\nnum_bits = 3\nnum_cohorts = 2\nepsilon = 1\n'
)
FRESH = (
    'mode = "window"\nwindow = 3\nturn = "{turn}"\nhold = {hold}\nmax_reports = {most}\n'
    'encoding = "one_hot"\nepsilon = 1\n'
)
ONCE = 'mode = "once"\nnum_bits = 3\nnum_cohorts = 2\nepsilon = 1\n'
E = 1.0
CLOSE = {"e": E, "one": 0.95 * E}
MEMO = {
    "two bits, cap 2": FILTER.format(name="l-osue", k=2, cap=2, **CLOSE),
    "three bits, cap 2": FILTER.format(name="l-sue", k=3, cap=2, **CLOSE),
    "three bits, cap 3": FILTER.format(name="l-osue", k=3, cap=3, e=E, one=0.3),
    "two symbols": SYMBOL.format(k=2, cap=2, **CLOSE),
    "three symbols, cap 2": SYMBOL.format(k=3, cap=2, **CLOSE),
    "a bit a cell, cap 2": ONE_HOT.format(name="l-osue", cap=2, **CLOSE),
}
TWO_SLOTS = 'slots = ["night 0-12", "day 12-24"]\n'
START = datetime(2026, 11, 2, tzinfo=UTC)
FEW_SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))]
SEEDS = 1, 2  # devices: of one in the middle of its blocks, and of one that answers at their ends
PLACES = {"a": (0.5, 0.5), "b": (0.5, 1.5), "c": (0.5, 2.5), "o": (9.0, 9.0)}
NOWHERE = "-"  # no fix
APART = 'no_data = "no_data"\n'

Schedule = Sequence[int]  # half-days since the start, at which there is a fix
Transcript = tuple[tuple[str, int, int], ...]  # sub-metric, day, encoded bits
Floats = NDArray[np.float64]


class NoRound:
    """Stands for a round of the randomized response: what goes in comes out."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __call__(self, bits: int) -> int:
        return bits


@pytest.fixture(autouse=True)
def _no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "PermanentRound", NoRound)
    monkeypatch.setattr(device, "InstantaneousRound", NoRound)


def live(
    file: MetricsFile, seed: int, when: Schedule, where: Sequence[str]
) -> tuple[Transcript, float]:
    """One life: what is encoded for each report, and what the ledger says it has cost so far."""
    state = MemoryState(FixedRandomness(seed)(32))
    recorder = Recorder(file.metrics, state, randomness=FixedRandomness(0))
    places = LocationRecorder(file, state, recorder, lambda: 0.0)
    for half_day, place in zip(when, where, strict=True):
        at = START + timedelta(hours=12 * half_day + 1)
        if place == NOWHERE:
            places.roll(at)
        else:
            fix(places, "density", *PLACES[place], at)
    places.roll(START + timedelta(hours=12 * (max(when) + 2)))
    reports = tuple(
        (r.metric, r.day.toordinal(), int.from_bytes(r.bits, "little"))
        for r in state.take_reports()
    )
    return reports, sum(spent(line, state.entries(line.name)) for line in state.lines())


def lives(
    text: str, seed: int, when: Schedule, kinds: str = "abco"
) -> tuple[Metric, dict[tuple[int, ...], float]]:
    """Every life on a schedule: what is encoded in its reports, and the least that it has cost."""
    file = parse_metrics(DECLARED + text)
    found: dict[tuple[int, ...], float] = {}
    outlines = set()
    for where in product(kinds, repeat=len(when)):
        transcript, cost = live(file, seed, when, where)
        outlines.add(tuple((name, day) for name, day, _ in transcript))
        answers = tuple(bits for _, _, bits in transcript)
        found[answers] = min(found.get(answers, inf), cost)
    assert len(outlines) == 1, "whether there is a report depends on the places"
    return file.declared[0], found


def chances(metric: Metric, answers: tuple[int, ...]) -> Floats:
    """Log chance of every series of reports, from a device that encodes `answers`."""
    m, k, periods = metric.params.mechanism, metric.params.num_bits, len(answers)
    p1, q1, p2, q2 = (x / 65_536 for x in (m.p1, m.q1, m.p2, m.q2))
    if metric.params.encoding == "symbol":
        seen = np.array(list(product(range(k), repeat=periods)))
        permanent = np.eye(k) * (p1 - q1) + q1  # [true, kept]
        shown = np.eye(k) * (p2 - q2) + q2  # [kept, seen]
        total = np.zeros(len(seen))
        for value in set(answers):
            of_value = seen[:, [i for i, answer in enumerate(answers) if answer == value]]
            kept = permanent[value.bit_length() - 1] * shown[:, of_value].prod(axis=2).T
            total += np.log(kept.sum(axis=1))
        return total
    words = np.array(list(product(range(1 << k), repeat=periods)))
    total = np.zeros(len(words))
    for value, bit in product(set(answers), range(k)):
        ones = words[:, [i for i, answer in enumerate(answers) if answer == value]] >> bit & 1
        a = p1 if value >> bit & 1 else q1
        total += np.log(
            a * np.where(ones, p2, 1 - p2).prod(axis=1)
            + (1 - a) * np.where(ones, q2, 1 - q2).prod(axis=1)
        )
    return total


def pattern(answers: tuple[int, ...]) -> tuple[int, ...]:
    """When answers change, and when they come back: all that a memoized response does not hide."""
    return tuple(answers.index(answer) for answer in answers)


def ratios(
    metric: Metric, found: dict[tuple[int, ...], float], *, one_pattern: bool = False
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """Two lives, and the most that any series of reports says for the first against the other."""
    known = {answers: chances(metric, answers) for answers in found}
    for logs in known.values():
        assert np.exp(logs).sum() == pytest.approx(1)
    patterns = {answers: pattern(answers) for answers in known}
    for first, second in product(known, repeat=2):
        if one_pattern and patterns[first] != patterns[second]:
            continue
        yield first, second, float((known[first] - known[second]).max())


def worst_of_one_pattern(metric: Metric, found: dict[tuple[int, ...], float]) -> float:
    """The most over lives that change at the same times; each kept to what its ledger says."""
    worst = 0.0
    for first, second, ratio in ratios(metric, found, one_pattern=True):
        assert ratio <= min(found[first], found[second]) + 1e-9
        worst = max(worst, ratio)
    return worst


@pytest.mark.parametrize("text", MEMO.values(), ids=MEMO)
@pytest.mark.parametrize("seed", [0, 1])
def test_memoized_lives_differ_within_the_promise(text: str, seed: int) -> None:
    metric, found = lives(text, seed, (0, 2, 4))
    worst = worst_of_one_pattern(metric, found)
    assert worst <= metric.lifetime_epsilon
    reached = [
        sum(metric.params.epsilon_n(answers.count(value)) for value in set(answers))
        for answers in found
    ]
    assert worst <= max(reached) + 1e-9
    if metric.params.encoding != "bloom":  # in a filter, cells may share their bit
        assert worst == pytest.approx(max(reached))
    assert worst > 0.9 * metric.params.epsilon_one


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (MEMO["three bits, cap 3"], "abco-"),
        (MEMO["two symbols"], "abo-"),
        (ONE_HOT.format(name="l-osue", cap=3, **CLOSE), "ao-"),
    ],
    ids=["three bits, cap 3", "two symbols", "a bit a cell, cap 3"],
)
def test_no_data_apart_is_paid_as_a_cell(text: str, kinds: str) -> None:
    metric, found = lives(text + APART, 0, (0, 2, 4), kinds)
    worst = worst_of_one_pattern(metric, found)
    assert worst <= metric.lifetime_epsilon
    if metric.params.encoding == "one_hot":
        assert {answer for answers in found for answer in answers} == {0b1, 0b01000, 0b10000}
        reached = [
            sum(metric.params.epsilon_n(answers.count(value)) for value in set(answers))
            for answers in found
        ]
        assert worst == pytest.approx(max(reached))


@pytest.mark.parametrize(
    "name", ["two symbols", pytest.param("a bit a cell, cap 2", marks=pytest.mark.long)]
)
def test_a_cell_in_two_slots_is_paid_once(name: str) -> None:
    metric, found = lives(TWO_SLOTS + MEMO[name], 0, (0, 1, 2, 3), "abo")
    assert len(next(iter(found))) == 4
    assert worst_of_one_pattern(metric, found) <= metric.lifetime_epsilon


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("two symbols", (0, 2, 0, 4)),
        pytest.param("two symbols", (0, 2, 0, 4, 2, 6), marks=pytest.mark.long),
        pytest.param("three bits, cap 2", (0, 2, 0, 4, 2, 6), marks=pytest.mark.long),
    ],
)
def test_a_clock_that_goes_back_opens_no_period(name: str, when: Schedule) -> None:
    metric, found = lives(MEMO[name], 0, when, "abo")
    assert len(next(iter(found))) == len(set(when))
    assert worst_of_one_pattern(metric, found) <= metric.lifetime_epsilon


@pytest.mark.parametrize("name", MEMO)
def test_the_times_of_changes_are_not_covered(name: str) -> None:
    """The stated limit: lives whose answers change at different times can differ by more."""
    text = MEMO[name].replace("epsilon_infinity = 1.0", "epsilon_infinity = 0.2")
    text = text.replace("epsilon_one = 0.95", "epsilon_one = 0.195").replace("= 0.3", "= 0.195")
    metric, found = lives(text, 0, (0, 2, 4))
    assert worst_of_one_pattern(metric, found) <= metric.lifetime_epsilon
    assert max(ratio for _, _, ratio in ratios(metric, found)) > metric.lifetime_epsilon


@pytest.mark.parametrize("seed", FEW_SEEDS)
@pytest.mark.parametrize("slots", ["", TWO_SLOTS], ids=["one slot", "two slots"])
def test_window_covers_everything_changes_too(slots: str, seed: int) -> None:
    """Any two lives: `max_reports * epsilon`; differing in 3 periods in a row only: `epsilon`."""
    file = parse_metrics(DECLARED + slots + WINDOW)
    metric, epsilon, periods = file.declared[0], file.declared[0].epsilon_one, 7
    noons = tuple(range(0, 2 * periods, 2))
    transcripts = {
        where: tuple(bits for _, _, bits in live(file, seed, noons, where)[0])
        for where in product("ab", repeat=periods)
    }
    found = dict.fromkeys(transcripts.values(), 0.0)
    worst = {pair[:2]: pair[2] for pair in ratios(metric, found)}
    assert len(next(iter(found))) == 2  # max_reports, of three times that it would be due
    assert max(worst.values()) <= metric.lifetime_epsilon + 1e-9
    for first, second in product(transcripts, repeat=2):
        differ = [i for i, (x, y) in enumerate(zip(first, second, strict=True)) if x != y]
        if differ and differ[-1] - differ[0] < 3:
            assert worst[transcripts[first], transcripts[second]] <= epsilon + 1e-9


@pytest.mark.long
def test_window_reaches_its_promise() -> None:

    def reaches(seed: int) -> bool:
        metric, found = lives(WINDOW, seed, tuple(range(0, 14, 2)), "ab")
        reached = max(ratio for _, _, ratio in ratios(metric, found))
        return reached == pytest.approx(metric.lifetime_epsilon)

    assert any(map(reaches, range(8)))


def spans(text: str, seed: int, days: int) -> dict[tuple[int, int], float]:
    """The most between two lives of so many days, by first and last day on which they differ."""
    noons, file = tuple(range(0, 2 * days, 2)), parse_metrics(DECLARED + text)
    start = (START - datetime(1970, 1, 1, tzinfo=UTC)).days
    known: dict[tuple[int, ...], Floats] = {}
    answers, outlines = {}, set()
    for where in product("ab-", repeat=days):
        reports, _ = live(file, seed, noons, where)
        outlines.add(tuple((name, day) for name, day, _ in reports))
        answers[where] = tuple(bits for _, _, bits in reports)
        if answers[where] not in known:
            known[answers[where]] = chances(file.declared[0], answers[where])
    assert len(outlines) == 1, "whether there is a report depends on the places"
    apart = {
        (x, y): float((known[x] - known[y]).max()) for x, y in product(known, repeat=2) if x != y
    }
    worst: dict[tuple[int, int], float] = {}
    for first, second in product(answers, repeat=2):
        ratio = apart.get((answers[first], answers[second]), 0.0)
        differ = [i for i, (x, y) in enumerate(zip(first, second, strict=True)) if x != y]
        if differ:
            span = start + differ[0], start + differ[-1]
            worst[span] = max(worst.get(span, 0.0), ratio)
    return worst


@pytest.mark.parametrize("hold", [0, 2])
def test_fresh_turns_cover_that_there_was_data(hold: int) -> None:
    metric = parse_metrics(DECLARED + FRESH.format(turn="fresh", hold=hold, most=2)).declared[0]
    epsilon, ever, block, straddling = metric.epsilon_one, 0.0, 0.0, 0.0
    for seed in SEEDS:
        worst = spans(FRESH.format(turn="fresh", hold=hold, most=2), seed, 4)
        ever = max(ever, *worst.values())
        inside = [ratio for (a, b), ratio in worst.items() if a // 3 == b // 3]
        block = max(block, *inside)
        crossing = [ratio for (a, b), ratio in worst.items() if a // 3 != b // 3 and b - a < 3]
        straddling = max(straddling, *crossing)
    assert block == pytest.approx(epsilon)
    assert straddling == pytest.approx(2 * epsilon)
    assert ever == pytest.approx(metric.lifetime_epsilon)


def test_a_turn_for_life_covers_its_window() -> None:
    text = FRESH.format(turn="fixed", hold=1, most=3)
    epsilon, short, long = parse_metrics(DECLARED + text).declared[0].epsilon_one, 0.0, 0.0
    for seed in SEEDS[1:]:
        worst = spans(text, seed, 4)
        short = max(short, *(ratio for (a, b), ratio in worst.items() if b - a < 2))
        long = max(long, *(ratio for (a, b), ratio in worst.items() if b - a == 2))
    assert short == pytest.approx(epsilon)
    assert long == pytest.approx(2 * epsilon)


@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_once_is_one_report_whatever_comes_after(seed: int) -> None:
    metric, found = lives(TWO_SLOTS + ONCE, seed, (0, 1, 2, 3, 4), "abo")
    assert len(next(iter(found))) == 1
    worst = max(ratio for _, _, ratio in ratios(metric, found))
    assert worst == pytest.approx(metric.lifetime_epsilon)
