"""What is kept of fixes, and for how long; what goes wrong loses nothing that counts."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from threading import RLock

import pytest

from client_sdk import Client
from client_sdk.inspection import inspect_state, render
from client_sdk.location.dwell_time import OUTSIDE, assignment_of, moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.directory import StateDirectory
from client_sdk.testing import FixedRandomness
from rappor_core.calendar import EPOCH_ORDINAL
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.report import Report
from tests.client.location_support import (
    DECLARED,
    MEMO,
    MODES,
    START,
    Phone,
    declared,
    values,
    visits_of,
)
from tests.metric_texts import declaration
from tests.places_support import fix

NOWHERE = "http://127.0.0.1:9"


def test_nothing_of_a_fix_outlives_its_period() -> None:
    visits, sent = visits_of(declared("memo"))
    visits.fix(1.5, 1.5, moment_of(START + timedelta(hours=23, minutes=50)))
    visits.roll(moment_of(START + timedelta(days=1, minutes=5)))
    saved = json.loads(visits.to_json())
    assert (saved["dwell"], saved["last"]) == ([], None)
    visits.roll(moment_of(START + timedelta(days=2)))
    assert values(sent, "night")[1] == "other"


@pytest.mark.parametrize("mode", ["memo", "symbols"])
def test_a_fix_that_comes_late_forgets_nothing(mode) -> None:
    phone = Phone(declared(mode), 3)
    fix(phone.places, "density", 1.5, 1.5, START + timedelta(hours=12))
    fix(phone.places, "density", 2.5, 2.5, START + timedelta(days=1, hours=12))
    before = phone.places._visits["density"].to_json()
    assert fix(phone.places, "density", 9.5, 9.5, START + timedelta(hours=18)) == "late"
    assert phone.places._visits["density"].to_json() == before


def test_a_full_disk_leaves_no_period_half_closed(tmp_path, monkeypatch) -> None:
    """What was undone in the state must not live on in memory: numbers of sources are reused."""
    flag = declaration("on", "boolean", prob_f=0.5, prob_p=0.25, prob_q=0.75)
    file, noon = declared("symbols", flag), START + timedelta(hours=12)
    with closing(StateDirectory(tmp_path).open(RLock())) as state:
        StateDirectory(tmp_path).ensure_secret(state, FixedRandomness(1))
        recorder = Recorder(file.metrics, state, randomness=FixedRandomness(2))
        app, service = (LocationRecorder(file, state, recorder, lambda: 0.0) for _ in range(2))
        fix(service, "density", 1.5, 1.5, noon)
        service.save()
        with monkeypatch.context() as disk:
            disk.setattr(state, "put_note", raises_full)
            with pytest.raises(sqlite3.OperationalError, match="full"):
                app.roll(noon + timedelta(days=1))
        assert recorder.record("on", True, noon.timestamp()) == "queued"
        assert app.roll(noon + timedelta(days=1))
        queued = inspect_state(state)["queued"]
        names = sorted(name.rpartition("/")[0] for name in queued)
        assert names == ["", "density/day", "density/night"]
        assert set(queued.values()) == {1}
        assert state.counters() == {}


def raises_full(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize("saved", ["", "{", "[]", "{}", '{"of": ["day", "x"]}', '{"of": 1}'])
def test_a_damaged_note_is_counted_and_begun_anew(saved) -> None:
    phone = Phone(declared("memo"), 3)
    noon = START + timedelta(hours=12)
    phone.state.put_note("visits:density", saved)
    assert fix(phone.places, "density", 1.5, 1.5, noon) is None
    assert fix(phone.places, "density", 1.5, 1.5, noon + timedelta(days=1)) == "queued"
    counted = phone.state.counters().get("places_damaged:density", 0)
    assert counted == (0 if saved == "{}" else 1)


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("days", [1.5, 3, 2_000, -1, -20, -7_168, -20_000])
def test_one_wrong_time_ends_forgets_and_costs_nothing(mode, days) -> None:

    def life(*mistaken: datetime) -> tuple[list[Report], list[object]]:
        phone = Phone(declared(mode), 3)
        outcomes: list[object] = []
        for hour in range(6, 24 * 8, 6):
            at = START + timedelta(hours=hour)
            for wrong in mistaken:
                outcomes.append(fix(phone.places, "density", 9.5, 9.5, wrong, at.timestamp()))
            assert fix(phone.places, "density", 1.5, 1.5, at, at.timestamp()) in ("queued", None)
            phone.places.roll(at)
        phone.collect()
        return phone.reports, outcomes

    def days_of(reports: list[Report]) -> list[object]:
        return [(one.metric, one.day) for one in reports]

    reports, outcomes = life(START + timedelta(days=8 + days if days > 0 else days))
    assert days_of(reports) == days_of(life()[0])
    assert set(outcomes) == {"ahead" if days > 0 else "late"}


def test_a_fix_may_bring_another_zone() -> None:
    """An app that states UTC, west of Greenwich: the clock's date is behind that of its fixes."""
    visits, sent = visits_of(declared("memo"))
    west, evening = timezone(timedelta(hours=-5)), START + timedelta(hours=2)
    visits.fix(1.5, 1.5, moment_of(evening))
    before = json.loads(visits.to_json())
    assert not visits.look(moment_of((evening + timedelta(minutes=10)).astimezone(west)))
    after = json.loads(visits.to_json())
    assert after["period"] == before["period"]
    assert after == before  # fixes of these ten minutes may still come
    visits.look(moment_of((evening - timedelta(hours=3)).astimezone(west)))  # it did go back
    assert json.loads(visits.to_json())["dwell"] == []
    assert not sent


def test_a_look_between_fixes_changes_no_time_spent() -> None:
    """Fixes that come in a batch are of the time before the device looked at its clock."""
    looked, plain = visits_of(declared("memo"))[0], visits_of(declared("memo"))[0]
    for minutes in range(0, 60, 10):
        for visits in (looked, plain):
            visits.fix(1.5, 1.5 + (minutes >= 30), moment_of(START + timedelta(minutes=minutes)))
        assert not looked.look(moment_of(START + timedelta(minutes=50)))
    assert looked.to_json() == plain.to_json()


def test_what_no_collector_takes_costs_nothing() -> None:
    visits, sent = visits_of(declared("once", 'period = "month"\naccept_days = 7\n'))
    visits.fix(1.5, 1.5, moment_of(START + timedelta(hours=12)))
    visits.roll(moment_of(START + timedelta(days=75)))
    assert not sent
    for hour in range(24):
        visits.fix(1.5, 1.5, moment_of(START + timedelta(days=79, hours=hour)))
    visits.roll(moment_of(START + timedelta(days=95)))
    january = date(2027, 1, 31).toordinal() - EPOCH_ORDINAL
    assert [day for _, _, day in sent] == [january]
    assert sent[0][1] != "other"


@pytest.mark.parametrize(("mode", "longest"), [("fresh", 42), ("window", 42), ("memo", 7)])
def test_an_answer_waits_for_an_app_that_is_seldom_opened(mode, longest) -> None:
    visits, sent = visits_of(declared(mode, 'period = "week"\n'))
    visits.fix(1.5, 1.5, moment_of(START + timedelta(hours=12)))
    opened = START + timedelta(days=70)
    visits.roll(moment_of(opened))
    today = opened.toordinal() - EPOCH_ORDINAL
    waited = [today - day for _, _, day in sent]
    assert longest - 20 < max(waited) <= longest + 1  # one turn in three weeks
    visits.roll(moment_of(opened + timedelta(days=6)))
    assert len(sent) == len(waited)


def test_no_place_outlives_consent_withdrawn_elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("client_sdk.location.recorder.SAVE_SECONDS", 0.0)
    noon = (START + timedelta(hours=12)).timestamp()
    choices = {"collector": NOWHERE, "consent": True, "clock": lambda: noon}
    app, service = (Client.open(declared("memo"), state_dir=tmp_path, **choices) for _ in range(2))
    with app, service:
        assert service.record_location("density", 1.5, 1.5)
        app.set_consent(False)
        assert not service.record_location("density", 2.5, 2.5)
        assert service.status.condition == "no_consent"
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as database:
        assert database.execute("SELECT * FROM notes").fetchall() == []


def test_a_process_without_fixes_reports_those_of_another(monkeypatch) -> None:
    phone, result = Phone(declared("memo"), 3), []
    service, app = phone.places, LocationRecorder(phone.file, phone.state, phone.recorder)
    app.roll(START + timedelta(hours=1))
    fix(service, "density", 1.5, 1.5, START + timedelta(hours=12))
    app.roll(START + timedelta(hours=13))
    service.save()
    monkeypatch.setattr(phone.recorder, "record", lambda *row: result.append(row[:2]) or "queued")
    assert app.roll(START + timedelta(days=1, minutes=1))
    assert [value != "other" for name, value in result if "/day/" in name] == [True]
    fix(service, "density", 1.5, 1.5, START + timedelta(days=1, hours=12))
    assert app.roll(START + timedelta(days=1, hours=13)) is False


def test_an_expired_metric_keeps_no_place(tmp_path) -> None:
    file = parse_metrics((DECLARED + MEMO).replace("2099-12-31", "2026-11-02"))
    visits = visits_of(file)[0]
    late = START + timedelta(days=1)
    assert visits.refuses(moment_of(late - timedelta(seconds=1))) is None
    assert visits.refuses(moment_of(late)) == "expired"
    choices = {"collector": NOWHERE, "consent": True, "clock": late.timestamp}
    with Client.open(file, state_dir=tmp_path, **choices) as client:
        assert not client.record_location("density", 1.5, 1.5, at=late)
        session = client._life.session
        session.places.save()
        assert '"dwell":[]' in (session.state.note("visits:density") or "")
        assert client.inspect()["counters"]["expired:density"] == 1


@pytest.mark.parametrize("mode", ["window", "once"])
def test_what_is_not_asked_is_not_kept(mode) -> None:
    visits, sent = visits_of(declared(mode))
    kept: list[list[str]] = []
    for day in range(9):
        for hour in (3, 12):
            visits.fix(1.5, 1.5, moment_of(START + timedelta(days=day, hours=hour)))
        kept.append([slot for slot, _, _ in json.loads(visits.to_json())["dwell"]])
        restored, _ = visits_of(declared(mode), saved=visits.to_json())
        assert restored.to_json() == visits.to_json()
        restored.fix(1.5, 1.5, moment_of(START + timedelta(days=day, hours=13)))
        assert len(json.loads(restored.to_json())["dwell"]) == len(kept[-1])
    visits.roll(moment_of(START + timedelta(days=9)))
    assert sum(map(len, kept)) == len(sent) == (3 if mode == "window" else 1)
    assert "other" not in [value for _, value, _ in sent]


def test_a_place_is_held_until_the_answer() -> None:
    file = declared("fresh")
    for seed in range(6):
        visits, sent = visits_of(file, seed)
        parts, secret = file.parts("density"), FixedRandomness(seed)(32)
        duty, first = assignment_of(secret, parts), moment_of(START).day
        turns = [(p, slot) for p in range(first - 3, first + 12) for slot, _ in duty.due(p)]
        saved = None
        for day in range(9):
            visits, more = visits_of(file, seed, saved)
            for hour in (3, 12):
                visits.fix(1.5, 1.5, moment_of(START + timedelta(days=day, hours=hour)))
            saved, today = visits.to_json(), first + day
            kept = json.loads(saved)
            asked = {s for p, s in turns if p // 3 == today // 3 and 0 <= p - today <= 2}
            assert {slot for slot, _, _ in kept["dwell"]} == asked
            held = {s for p, s in turns if p // 3 == today // 3 and 0 <= p - today <= 1}
            assert {slot for slot, _, _ in kept["known"]} == (held if day and today % 3 else set())
            assert (kept["last"][1] == OUTSIDE) == (not asked)
            sent += more
        assert sent
        assert "other" not in [value for _, value, _ in sent]


@pytest.mark.parametrize("change", ["consent", "box", "levels", "slots", "period"])
def test_a_held_place_does_not_survive(change) -> None:
    """Nor one of today. Consent is another secret, without a note; the rest another meaning."""
    first, _ = visits_of(declared("held"))
    first.fix(1.5, 1.5, moment_of(START + timedelta(hours=12)))
    first.fix(9.5, 9.5, moment_of(START + timedelta(days=1, hours=1)))
    saved = first.to_json()
    assert json.loads(saved)["known"]
    assert json.loads(saved)["dwell"]
    text = DECLARED + MODES["held"]
    was, now = {
        "consent": ("", ""),
        "box": ("10, 10]", "10, 11]"),
        "levels": ("[0, 1]", "[0, 1, 2]"),
        "slots": ("6-22", "6-21"),
        "period": ("slots =", 'period = "week"\nslots ='),
    }[change]
    second, sent = visits_of(
        parse_metrics(text.replace(was, now)), saved=None if change == "consent" else saved
    )
    second.roll(moment_of(START + timedelta(days=1, hours=2)))
    kept = json.loads(second.to_json())
    assert kept["known"] == kept["dwell"] == []
    second.roll(moment_of(START + timedelta(days=9)))
    assert {value for _, value, _ in sent} == {"other"}


def test_inspect_counts_places_and_names_none(tmp_path) -> None:
    file = declared("held")
    with closing(StateDirectory(tmp_path).open(RLock())) as state:
        StateDirectory(tmp_path).ensure_secret(state, FixedRandomness(1))
        recorder = Recorder(file.metrics, state, randomness=FixedRandomness(1))
        places = LocationRecorder(file, state, recorder, lambda: 0.0)
        for hours in (12, 36):
            fix(places, "density", 1.5, 1.5, START + timedelta(hours=hours))
        places.save()
        (kept,) = inspect_state(state)["places"]
        assert kept["metric"] == "density"
        assert kept["places_of_period"] == kept["last_known_places"] == 1
        note = json.loads(state.note("visits:density") or "")
        assert str(note["known"][0][2]) not in kept["sentence"]
        state.put_note("visits:density", "{")
        assert "density: what is kept of places cannot be read." in render(inspect_state(state))


def test_a_damaged_time_does_not_count_for_ever() -> None:
    """Hour by hour it would take the app's own thread for ages of the universe."""
    parts = declared("memo").parts("density")
    saved = json.loads(Visits(parts, bytes(32), lambda *_: None, None).to_json())
    saved |= {"period": 20_000, "last": [[-1e308, 20_000, 1, 3600.0], 5, 1e308]}
    visits = Visits(parts, bytes(32), lambda *_: None, json.dumps(saved))
    visits.look(moment_of(datetime.fromtimestamp(20_000 * 86_400.0 + 43_200, UTC)))
    assert sum(seconds for *_, seconds in json.loads(visits.to_json())["dwell"]) <= 3600


APART = 'no_data = "no_data"\n'


def test_no_trip_is_no_data_entering_is_other() -> None:
    visits, sent = visits_of(declared("memo", APART, "pairs = true\n"))
    visits.trip((1.5, 1.5), (50.0, 2.5), moment_of(START + timedelta(hours=10)))
    visits.roll(moment_of(START + timedelta(days=2)))
    assert values(sent, "day") == ["other", "no_data"]


@pytest.mark.parametrize("mode", ["window", "once"])
def test_a_seldom_asked_device_says_no_data(mode: str) -> None:
    visits, sent = visits_of(declared(mode, APART))
    visits.roll(moment_of(START))
    visits.roll(moment_of(START + timedelta(days=7)))
    assert sent
    assert {value for _, value, _ in sent} == {"no_data"}


def test_both_take_places_in_the_cap_first() -> None:
    phone = Phone(declared("memo", APART), 3)
    metric = phone.file.metrics["density/day/0"]
    device = phone.recorder.device(metric.name)
    cells = {device.value_bits(cell): cell for cell in metric.location.grid.cells(0)}
    for value in ("other", "no_data"):
        cells.pop(device.value_bits(value), None)
    outcomes = [
        phone.recorder.record(metric.name, value, (START + timedelta(days=day)).timestamp())
        for day, value in enumerate([*list(cells.values())[:3], "no_data"])
    ]
    assert outcomes == ["queued", "queued_fallback", "queued_fallback", "queued"]
    assert len(phone.state.entries("density")) == 3


def test_nobody_but_the_visits_fills_its_periods() -> None:
    phone = Phone(declared("memo", APART), 4)
    name = "density/day/0"
    assert phone.recorder.record(name, "0-1-1", START.timestamp()) == "queued"
    phone.collect()
    assert phone.recorder.fill_periods((START + timedelta(days=3)).timestamp()) == 0
    phone.collect()
    assert len(phone.reports) == 1
