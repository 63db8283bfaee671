"""The reason of a schedule's state is stored: every process says the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from decoder_service.people.access import COMMAND_LINE
from decoder_service.schedules.choices import NewSchedule
from decoder_service.schedules.status import ScheduleState, ScheduleStatus, shown_status
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.service import DecoderService, make_service
from tests.decoder_service.live_collector import LiveCollector
from tests.decoder_service.support import Running, running, set_metrics, settings_of, with_people
from tests.decoder_service.test_pages import signed_in
from tests.decoder_service.test_schedule_status import SCHEDULE, post


@pytest.fixture
def served(collector: LiveCollector, tmp_path: Path) -> Iterator[Running]:
    settings = {"tick_seconds": 0, **collector.settings}
    with running(f"sqlite:///{tmp_path}/d.sqlite", **settings) as one:
        yield one


def told(service: Running, schedule: str) -> dict[str, Any]:
    """By GET of one and of all, and by the page."""
    with service.client("ana") as ana:
        one: dict[str, Any] = ana.get(f"/v1/schedules/{schedule}").json()["status"]
        rows = ana.get("/v1/schedules").json()["schedules"]
    assert [row["status"] for row in rows if row["id"] == schedule] == [one]
    with signed_in(service, "ana") as browser:
        for path in (f"/schedules/{schedule}", "/schedules"):
            page = unescape(browser.get(path).text)
            assert f'<span class="state {one["state"]}">{one["state"]}</span>' in page
            assert one["state"] == "ready" or one["reason"][:200] in page
    return one


def other(service: Running, **settings: Any) -> DecoderService:
    """Another process on the same database, as far as what it knows."""
    return make_service(settings_of(service.service.settings.database, **settings))


def listed(service: Running) -> list[dict[str, Any]]:
    """By another process on the same database."""
    another = other(service)
    known = another.schedules.all(COMMAND_LINE)
    found = list(map(shown_status, another.statuses.of_rows(known)))
    another.close()
    return found


def test_what_another_process_met_is_told_by_all(served: Running) -> None:
    _, made = post(served, "/v1/schedules", SCHEDULE)
    assert made["status"]["state"] == "ready"
    assert listed(served)[0] == told(served, made["id"]) == made["status"]
    away = other(served, collector="http://127.0.0.1:9", collector_key="k")
    assert list(away.tick().problems) == [made["id"]]
    away.close()
    said = told(served, made["id"])
    assert said["state"] == "blocked"
    assert "no collector answers at http://127.0.0.1:9" in said["reason"]
    assert listed(served)[0] == said
    served.service.tick()  # of a process that reaches the collector
    assert told(served, made["id"])["state"] == "waiting"
    assert listed(served)[0] == told(served, made["id"])


def test_a_quota_that_a_tick_met_is_told(served: Running) -> None:
    _, made = post(served, "/v1/schedules", SCHEDULE)
    settings = {**_collector_of(served), "max_jobs_of_analyst": 1}
    strict = other(served, **settings)
    strict.tick()
    strict.close()
    said = told(served, made["id"])
    assert (said["state"], "you have 1 jobs" in said["reason"]) == ("blocked", True)
    assert listed(served)[0] == said


def _collector_of(served: Running) -> dict[str, Any]:
    settings = served.service.settings
    assert settings.collector_key is not None
    return {
        "collector": settings.collector,
        "collector_key": settings.collector_key.get_secret_value(),
    }


def test_since_is_kept_while_states_last(served: Running) -> None:
    _, made = post(served, "/v1/schedules", SCHEDULE)
    begun = served.service.clock()
    row = served.service.schedules.get(served.people["root"], made["id"])
    for minutes, state in (
        (1, ScheduleState.BLOCKED),
        (2, ScheduleState.BLOCKED),
        (3, ScheduleState.READY),
    ):
        later = other(served)
        at = begun + timedelta(minutes=minutes)
        object.__setattr__(later.statuses, "clock", lambda at=at: at)
        later.statuses.store([(row, ScheduleStatus(state, f"reason {minutes}"))])
        later.close()
        said = told(served, made["id"])
        since = minutes if minutes != 2 else 1
        expected = {"since": since, "checked": minutes}
        assert said["reason"] == f"reason {minutes}"
        for name, number in expected.items():
            at = begun + timedelta(minutes=number)
            assert said[name] == at.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_schedule_that_no_process_checks_says_so(served: Running) -> None:
    _, made = post(served, "/v1/schedules", SCHEDULE)
    row = served.service.schedules.get(served.people["root"], made["id"])
    at = served.service.clock()
    for hours, state in ((24, ScheduleState.READY), (26, ScheduleState.BLOCKED)):
        later = other(served)
        object.__setattr__(later.statuses, "clock", lambda h=hours: at + timedelta(hours=h))
        said = later.statuses.of_row(row)
        later.close()
        assert said.state == state
    assert "no process has checked it since" in said.reason
    assert "an operator starts rappor decoder serve" in said.reason
    with served.service.database.change() as connection:
        from decoder_service.schedules.status_models import schedule_statuses

        connection.execute(schedule_statuses.delete())  # as after the upgrade
    assert "no process has checked it yet" in told(served, made["id"])["reason"]
    served.service.tick()
    assert told(served, made["id"])["state"] == "waiting"
    with served.client("ana") as ana:
        assert ana.delete(f"/v1/schedules/{made['id']}").status_code == 200
    assert listed(served) == []


def test_checks_before_a_change_are_not_stored(served: Running) -> None:
    """A tick that began before a schedule was changed says nothing of the new one."""
    _, made = post(served, "/v1/schedules", SCHEDULE)
    before = served.service.schedules.get(served.people["root"], made["id"])
    with served.client("ana") as ana:
        changed = {"name": "b", "candidates": {"numbers": [0, 5]}}
        ana.put(f"/v1/schedules/{made['id']}", json=changed)
        served.service.statuses.store([(before, ScheduleStatus(ScheduleState.BLOCKED, "old"))])
        assert told(served, made["id"])["state"] == "ready"
        ana.delete(f"/v1/schedules/{made['id']}")
    served.service.statuses.store(
        [(before, ScheduleStatus(ScheduleState.BLOCKED, "old"))]
    )  # of none


def test_many_processes_store_at_once(database: ServiceDatabase, tmp_path: Path) -> None:
    """On both kinds of database: one row a schedule, and no check fails of another."""
    url = database.engine.url.render_as_string(hide_password=False)
    services = [make_service(settings_of(url, collector="http://127.0.0.1:9")) for _ in range(4)]
    people = with_people(url, services[0])
    set_metrics(people, None)
    schedules, ana = services[0].schedules, people.people["ana"]
    given = {"metric": "m", "every": "day", "candidates": {"numbers": [0, 9]}}
    asked = [NewSchedule.model_validate({"name": f"s{n}"} | given) for n in range(5)]
    rows = [schedules.create(ana, one) for one in asked]
    starting, failed = threading.Barrier(4), []

    def tick(service: DecoderService) -> None:
        starting.wait()
        try:
            for _ in range(5):
                service.tick()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=tick, args=(one,)) for one in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    found = services[1].statuses.of_rows(rows)
    assert [one.state for one in found] == ["blocked"] * 5
    assert all(one.checked is not None for one in found)
    for service in services:
        service.close()
