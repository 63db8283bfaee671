"""Fixes and trips while another process holds the state: they wait in memory, in their order."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.location.recorder import SAVE_SECONDS
from client_sdk.storage.interface import VISITS
from client_sdk.storage.state_file import PATIENCE
from client_sdk.testing import FixedRandomness
from tests.client.location_support import declared
from tests.client.lock_support import NOISE, QUIET, held, until_nothing_is_held
from tests.waiting import waited

START = datetime(2026, 11, 21, 12, tzinfo=UTC)  # what the clock of the tests shows


@pytest.fixture
def open_phone(open_client: Any) -> Any:
    def open_(extra: str = "", **changes: Any) -> Client:
        file = declared("memo", extra)
        client: Client = open_client(metrics=file, delivery=QUIET, development=False, **changes)
        return client

    return open_


def dwell(client: Client) -> dict[tuple[str, Any], float]:
    """Seconds by slot and place, as the device has them in memory."""
    places = client._life.session.places  # type: ignore[union-attr]
    kept = json.loads(places._visits["density"].to_json())
    return {(slot, place): seconds for slot, place, seconds in kept["dwell"]}


def fixes(client: Client, hours: list[float], latitude: float = 3.5) -> list[bool]:
    return [
        client.record_location("density", latitude, 2.5, START + timedelta(hours=hour))
        for hour in hours
    ]


def test_a_fix_ending_a_period_waits_and_counts(open_phone, tmp_path) -> None:
    phone = open_phone(randomness=FixedRandomness(1))
    assert all(fixes(phone, [0, 0.1]))
    tomorrow = [24 + step / 10 for step in range(6)]
    with held(tmp_path / "state"):
        phone._setup.clock.now += tomorrow[-1] * 3_600  # of both; a thread may look at it at once
        taken: list[bool] = []
        assert waited(lambda: taken.extend(fixes(phone, tomorrow, 6.5))) < PATIENCE + NOISE
        assert all(taken)
        account = phone.inspect()
        assert account["held"] == len(tomorrow)
        assert account["counters"] == {}
    account = until_nothing_is_held(phone)
    assert sum(account["queued"].values()) == 2  # a report of each slot of the day before
    twin = open_phone(state_dir=tmp_path / "twin", randomness=FixedRandomness(1))  # so its secret
    assert all(fixes(twin, tomorrow, 6.5))  # nothing held it
    assert dwell(phone) == dwell(twin) != {}
    assert all(fixes(phone, [24.7], 6.5))


def test_fixes_that_wait_are_not_overtaken(open_phone, tmp_path, monkeypatch) -> None:
    phone = open_phone()
    assert all(fixes(phone, [0]))
    session = phone._life.session
    monkeypatch.setattr(session.worker, "run_maintenance", lambda: None)  # a thread that is late
    monkeypatch.setattr(session.overflow, "write_some", lambda: False)
    with held(tmp_path / "state"):
        phone._setup.clock.now += 86_400
        assert fixes(phone, [24]) == [True]
    assert fixes(phone, [24.1]) == [True]
    assert phone.inspect()["held"] == 2
    session.overflow.write_out()
    assert fixes(phone, [24.2]) == [True]


def test_a_fix_is_taken_where_saving_must_wait(open_phone, tmp_path) -> None:
    phone = open_phone()
    assert all(fixes(phone, [0]))
    places = phone._life.session.places
    places._saved_at -= SAVE_SECONDS + 1
    saved = places._state.note(VISITS + "density")
    with held(tmp_path / "state"):
        assert all(fixes(phone, [0.05, 0.1]))
    assert sum(dwell(phone).values()) == 361.0  # six minutes, and the second of a fix
    assert all(fixes(phone, [0.1]))
    assert places._state.note(VISITS + "density") != saved
    assert phone.inspect()["counters"] == {}


def test_a_trip_waits_too(open_phone, tmp_path) -> None:
    phone = open_phone("pairs = true\n")
    first, last = START, START + timedelta(days=1)
    assert phone.record_trip("density", (1.5, 1.5), (2.5, 2.5), first)
    with held(tmp_path / "state"):
        phone._setup.clock.now += 86_400
        assert phone.record_trip("density", [1.5, 1.5], [2.5, 3.5], last)
        assert not phone.record_trip("density", [[1.5], 1.5], (2.5, 3.5), last)  # may still change
        assert phone.inspect()["counters"] == {"not_recorded:busy": 1}
    account = until_nothing_is_held(phone)
    assert sum(account["queued"].values()) == 2
    assert sum(dwell(phone).values()) == 1.0
