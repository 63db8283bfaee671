"""Fixes become one report a slot and period, under the cap, whatever the clock and the app do."""

import json
from collections import Counter
from datetime import date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import Client
from client_sdk.errors import UnknownMetricError
from client_sdk.location.dwell_time import MAX_PLACES, Dwell, assignment_of, is_weekend, moment_of
from client_sdk.storage.periods import Periods
from client_sdk.testing import FixedRandomness, MemoryCollector
from rappor_core.calendar import EPOCH_ORDINAL, last_day, period_number
from rappor_core.errors import ValueRefusedError
from tests.client.location_support import MODES, START, Phone, declared, values, visits_of
from tests.places_support import fix


def test_trips_are_pairs_of_cells() -> None:
    visits, sent = visits_of(declared("memo", "pairs = true\n"))
    for hour in (8, 9):
        visits.trip((1.5, 1.5), (2.5, 2.5), moment_of(START + timedelta(hours=hour)))
    visits.trip((1.5, 1.5), (50.0, 2.5), moment_of(START + timedelta(hours=10)))
    visits.roll(moment_of(START + timedelta(days=1)))
    (pair,) = values(sent, "day")
    origin, _, destination = pair.partition(">")
    assert origin != destination
    assert origin.count("-") == destination.count("-") == 2
    with pytest.raises(ValueRefusedError, match="trips"):
        visits.fix(1.5, 1.5, moment_of(START))
    with pytest.raises(ValueRefusedError, match="fixes"):
        visits_of(declared("memo"))[0].trip((1, 1), (2, 2), moment_of(START))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("fix"), st.floats(-1, 11), st.floats(-1, 11)),
        st.tuples(st.just("wait"), st.floats(0, 80), st.just(0.0)),
        st.tuples(st.just("clock"), st.floats(-2000, 2000), st.just(0.0)),
        st.tuples(st.just("save"), st.just(0.0), st.just(0.0)),
        st.tuples(st.just("restart"), st.just(0.0), st.just(0.0)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("mode", list(MODES))
@settings(max_examples=25, deadline=None)
@given(steps=steps, seed=st.integers(0, 50))
def test_cap_period_and_permanence_hold_for_any_fixes(mode, steps, seed) -> None:
    phone, now = Phone(declared(mode), seed), START
    for what, first, second in steps:
        if what in ("wait", "clock"):
            now += timedelta(hours=first)
            phone.places.roll(now)
        elif what == "fix":
            fix(phone.places, "density", first, second, now)
        elif what == "save":
            phone.places.save()
        else:
            phone.restart()
        phone.collect()
    entries = phone.state.entries("density")
    metric = phone.file.declared[0]
    each = Counter((report.metric, report.day) for report in phone.reports)
    assert all(number == 1 for number in each.values())
    assert len({report.metric.rpartition("/")[2] for report in phone.reports}) <= 1
    if mode in ("memo", "held", "symbols"):
        assert len(entries) <= metric.max_permanent_responses
    else:
        assert len(phone.reports) <= (metric.max_reports or 0)
    if mode == "fresh":
        blocks = [(report.day - date(1970, 1, 1)).days // 3 for report in phone.reports]
        assert len(set(blocks)) == len(blocks)
    assert len({report.cohort for report in phone.reports}) <= 1
    if mode == "symbols":
        assert all(int.from_bytes(r.bits, "little").bit_count() == 1 for r in phone.reports)


@pytest.mark.parametrize("mode", list(MODES))
def test_duties_are_spread_and_independent_of_places(mode) -> None:
    parts = declared(mode).parts("density")
    duties = [assignment_of(FixedRandomness(seed)(32), parts) for seed in range(400)]
    assert 140 < sum(duty.level == 1 for duty in duties) < 260
    for duty in duties[:20]:
        due = [name for period in range(12) for _, name in duty.due(period)]
        expected = {"window": 4, "fresh": 4, "once": 12}.get(mode, 24)
        assert len(due) == expected
        assert all(name.endswith(f"/{duty.level}") for name in due)
    if mode == "window":
        phases = Counter(duty.phase for duty in duties)
        assert set(phases) == set(range(6))
    if mode == "fresh":  # each of the six as often, whatever the turn before
        turns = [(duty.fresh(40), duty.fresh(41)) for duty in duties if duty.fresh is not None]
        assert {first for first, _ in turns} == {second for _, second in turns} == set(range(6))
        assert 40 < sum(first == second for first, second in turns) < 95  # of 400, 67 by chance


def test_dwell_is_bounded_and_keeps_what_matters() -> None:
    dwell = Dwell()
    for place in range(10 * MAX_PLACES):
        dwell.add("day", place, 1.0)
        dwell.add("day", "home", 1.5)
    assert len(dwell.rows()) <= MAX_PLACES
    assert dwell.usual("day") == "home"
    assert dwell.usual("night") is None


@given(st.lists(st.integers(-50, 50)), st.integers(-60, 60))
def test_periods_are_a_set(numbers, probe) -> None:
    periods = Periods()
    for number in numbers:
        periods.add(number)
    assert (probe in periods) == (probe in numbers)
    assert (probe in Periods(periods.runs())) == (probe in numbers)


def test_periods_stay_small_and_never_forget() -> None:
    periods = Periods()
    numbers = [3 * i + (i % 7) * 1000 for i in range(2_000)]
    for number in numbers:
        periods.add(number)
    assert len(periods.runs()) <= Periods.MAX_RUNS
    assert all(number in periods for number in numbers)


@pytest.mark.parametrize("period", ["day", "week", "month"])
@given(day=st.integers(0, 60_000))
def test_a_periods_last_day_is_its_last(period, day) -> None:
    number = period_number(period, day)
    last = last_day(period, number)
    assert period_number(period, last) == number
    assert period_number(period, last + 1) == number + 1
    assert is_weekend(day) == (date.fromordinal(day + EPOCH_ORDINAL).weekday() >= 5)


def test_a_client_takes_fixes_and_leaks_none(tmp_path) -> None:
    file = declared("memo")
    now = [START.timestamp()]
    with MemoryCollector(file.metrics) as collector:
        client = Client.open(
            file, state_dir=tmp_path, collector=collector.url, consent=True, clock=lambda: now[0]
        )
        with client:
            for hour in range(48):
                at = START + timedelta(hours=hour)
                now[0] = at.timestamp()
                assert client.record_location("density", 1.234567, 2.345678, at=at)
            assert not client.record_location("density", float("nan"), 2.0, at=START)
            assert not client.record_location("missing", 1.0, 2.0, at=START)
            assert not client.record_trip("density", (1, 2), (3, 4), at=START)
            assert client.flush(20)
            memoized = client.inspect()["metrics"][0]["values_memoised"]
            assert memoized in (1, 2)  # the cell and `other`, which may share their bit
        assert sum(collector.counted().values()) == 2
        bodies = b"".join(body for _, body in collector.requests)
    assert b"1.2345" not in bodies
    assert b"2.3456" not in bodies


def test_a_period_survives_restarts_but_not_lost_consent(tmp_path) -> None:
    noon = (START + timedelta(hours=12)).timestamp()
    choices = {"collector": "http://127.0.0.1:9", "clock": lambda: noon}

    def opened(consent: bool) -> Client:
        return Client.open(declared("memo"), state_dir=tmp_path, consent=consent, **choices)

    def kept(client: Client) -> list[str]:
        saved = json.loads(client._life.session.state.note("visits:density") or '{"dwell": []}')
        return [slot for slot, _, _ in saved["dwell"]]

    with opened(True) as client:
        client.record_location("density", 1.5, 1.5, at=START + timedelta(hours=12))
    with opened(True) as client:
        assert kept(client) == ["day"]
    opened(False).close()
    with opened(True) as client:
        assert kept(client) == []  # the sending thread may have begun the period again


POINTS = "two points, each a latitude"
TIMES = ["2026-11-02T12:00:00Z", 1_793_620_800.0, 0, date(2026, 11, 2)]


def test_mistakes_show_in_development(tmp_path) -> None:
    choices = {"collector": "http://127.0.0.1:9", "consent": True, "development": True}
    with Client.open(declared("memo", "pairs = true\n"), state_dir=tmp_path, **choices) as client:
        for point in (1.5, (1.5,), (1.5, 1.5, 1.5), None):
            with pytest.raises(ValueRefusedError, match=POINTS):
                client.record_trip("density", (1.5, 1.5), point)
    with Client.open(declared("memo"), state_dir=tmp_path / "fixes", **choices) as client:
        with pytest.raises(UnknownMetricError, match=r"'home'.*density"):
            client.record_location("home", 1.0, 2.0)
        with pytest.raises(UnknownMetricError, match=r"'density'.*use record_location"):
            client.record("density", "here")
        with pytest.raises(ValueRefusedError, match="use record_location"):
            client.record_trip("density", (1.0, 2.0), (1.0, 2.0))
        with pytest.raises(ValueRefusedError, match=r"'density/night/0'.*'density': record that"):
            client.record_location("density/night/0", 1.0, 2.0)
        with pytest.raises(ValueRefusedError, match="finite"):
            client.record_location("density", float("nan"), 2.0)
        for at in TIMES:
            with pytest.raises(ValueRefusedError, match="pass a datetime with a time zone"):
                client.record_location("density", 1.0, 2.0, at=at)
        with pytest.raises(ValueRefusedError, match="has no time zone"):
            client.record_location("density", 1.0, 2.0, at=datetime(2026, 1, 1))
