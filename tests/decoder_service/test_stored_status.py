"""The reason of a schedule's state is stored: every process says the same."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

from sqlalchemy import delete

from decoder_service.people.access import COMMAND_LINE
from decoder_service.schedules.rules import NewSchedule
from decoder_service.schedules.windows import ScheduleState, ScheduleStatus, shown_status
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.models import StatusRow
from decoder_service.shell.service import DecoderService, make_service
from tests.decoder_service.support import Running, set_metrics, settings_of, with_people
from tests.decoder_service.test_pages import signed_in
from tests.decoder_service.test_schedule_status import SCHEDULE, post


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
    found = list(map(shown_status, another.ticker.statuses(known)))
    another.close()
    return found


def test_what_another_process_met_is_told_by_all(scheduling: Running) -> None:
    _, made = post(scheduling, "/v1/schedules", SCHEDULE)
    assert listed(scheduling)[0] == told(scheduling, made["id"]) == made["status"]
    away = other(scheduling, collector="http://127.0.0.1:9", collector_key="k")
    assert list(away.tick().problems) == [made["id"]]
    away.close()
    said = told(scheduling, made["id"])
    assert said["state"] == "blocked"
    assert "no collector answers at http://127.0.0.1:9" in said["reason"]
    assert listed(scheduling)[0] == said
    scheduling.service.tick()  # of a process that reaches the collector
    assert told(scheduling, made["id"])["state"] == "waiting"
    assert listed(scheduling)[0] == told(scheduling, made["id"])


def test_a_schedule_that_no_process_checks_says_so(scheduling: Running) -> None:
    _, made = post(scheduling, "/v1/schedules", SCHEDULE)
    row = scheduling.service.schedules.get(scheduling.people["root"], made["id"])
    scheduling.service.tick()
    at = scheduling.service.clock()
    for hours, state in ((24, ScheduleState.WAITING), (26, ScheduleState.BLOCKED)):
        later = other(scheduling)
        object.__setattr__(later.ticker, "clock", lambda h=hours: at + timedelta(hours=h))
        said = later.ticker.statuses([row])[0]
        later.close()
        assert said.state == state
    assert "no process has checked it since" in said.reason
    assert "an operator starts rappor decoder serve" in said.reason
    with scheduling.service.database.writing() as db:
        db.execute(delete(StatusRow))  # as after the upgrade
    assert "no process has checked it yet" in told(scheduling, made["id"])["reason"]
    scheduling.service.tick()
    assert told(scheduling, made["id"])["state"] == "waiting"
    with scheduling.client("ana") as ana:
        assert ana.delete(f"/v1/schedules/{made['id']}").status_code == 200
    assert listed(scheduling) == []


def test_checks_before_a_change_are_not_stored(scheduling: Running) -> None:
    """A tick that began before a schedule was changed says nothing of the new one."""
    _, made = post(scheduling, "/v1/schedules", SCHEDULE)
    before = scheduling.service.schedules.get(scheduling.people["root"], made["id"])
    with scheduling.client("ana") as ana:
        changed = {"name": "b", "candidates": {"numbers": [0, 5]}}
        ana.put(f"/v1/schedules/{made['id']}", json=changed)
        scheduling.service.ticker.store_statuses(
            [(before, ScheduleStatus(ScheduleState.BLOCKED, "old"))]
        )
        assert "no process has checked it yet" in told(scheduling, made["id"])["reason"]
        ana.delete(f"/v1/schedules/{made['id']}")
    scheduling.service.ticker.store_statuses(
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
    starting = threading.Barrier(4)

    def tick(service: DecoderService) -> None:
        starting.wait()
        for _ in range(5):
            service.tick()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tick, services))  # raises what one of them raised
    found = services[1].ticker.statuses(rows)
    assert [one.state for one in found] == ["blocked"] * 5
    assert all(one.checked is not None for one in found)
    for service in services:
        service.close()
