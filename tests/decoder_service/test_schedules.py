"""Schedules on a live collector: what is sealed is decoded once, and alarms tell a cause once."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from decoder_service.jobs.specs import Choices
from decoder_service.schedules.rules import ScheduleChoices
from decoder_service.schedules.windows import Every, period_end, period_start, spec_of_schedule
from decoder_service.shell.models import AlarmRow, EventRow, JobRow, WindowRow
from decoder_service.shell.service import DecoderService, make_service
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import (
    MONDAY,
    WORDS,
    LiveCollector,
    days_after,
    live_collector,
)
from tests.decoder_service.support import ALARM_URLS, Running, running, settings_of

USUAL = {"word-0": 500, "word-1": 300, "word-2": 200}
DAYS = dict.fromkeys(days_after(MONDAY, 4), USUAL)
DAYS[MONDAY + timedelta(days=2)] = {"word-0": 150, "word-1": 100}
DAYS[MONDAY + timedelta(days=3)] = {"word-0": 100, "word-1": 500, "word-7": 400}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCollector]:
    with live_collector(tmp_path_factory.mktemp("collector"), DAYS) as one:
        yield one


@pytest.fixture
def service(collector: LiveCollector, database_url: str) -> Iterator[Running]:
    options = {"tick_seconds": 0.0, "alarm_urls": ALARM_URLS, **collector.settings}
    with running(database_url, **options) as one:
        yield one


def create(served: Running, **changes: Any) -> str:
    with served.client("ana") as ana:
        words = "\n".join(WORDS).encode() + b"\n"
        name = f"words {len(ana.get('/v1/lists').json()['lists'])}"
        listed = ana.post("/v1/lists", params={"name": name}, content=words).json()["id"]
        given = {"name": name, "metric": "homepage", "every": "day", "candidates": {"list": listed}}
        answer = ana.post("/v1/schedules", json=given | changes)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def windows_of(served: Running, schedule: str) -> list[dict[str, Any]]:
    with served.client("ana") as ana:
        found = ana.get(f"/v1/schedules/{schedule}").json()["windows"]
    return sorted(found, key=lambda one: one["first_day"])


def count(service: DecoderService, table: Any) -> int:
    with service.database.reading() as db:
        return int(db.execute(select(func.count()).select_from(table)).scalar_one())


def test_each_sealed_day_is_decoded_once(service: Running, tmp_path: Path) -> None:
    schedule = create(service)
    first = service.service.tick()
    assert (first.queued, first.problems) == (4, {})
    assert service.service.tick().queued == 0
    assert do_jobs(service.service, tmp_path) == 4
    assert service.service.tick().ended == 4
    found = windows_of(service, schedule)
    assert [one["first_day"] for one in found] == [day.isoformat() for day in sorted(DAYS)]
    assert {one["state"] for one in found} == {"done"}
    assert [one["num_reports"] for one in found] == [1000, 1000, 250, 1000]
    again = service.service.tick()
    assert (again.queued, again.ended, count(service.service, JobRow)) == (0, 0, 4)
    with service.client("ana") as ana, service.client("ben") as ben:
        result = ana.get(f"/v1/results/{found[-1]['result_id']}/data?format=csv").text
        assert ben.get(f"/v1/schedules/{schedule}").status_code == 404
    assert {'"word-0"', '"word-7"'} <= {row.partition(",")[0] for row in result.splitlines()}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)  # SQLite is of one process
def test_simultaneous_ticks_queue_a_window_once(service: Running, collector: LiveCollector) -> None:
    create(service)
    url = service.service.settings.database
    others = [make_service(settings_of(url, **collector.settings)) for _ in range(3)]
    start = threading.Barrier(len(others))

    def tick(one: DecoderService) -> int:
        start.wait()
        return one.tick().queued

    with ThreadPoolExecutor(len(others)) as pool:
        assert sum(pool.map(tick, others)) == len(DAYS)
    assert count(service.service, JobRow) == count(service.service, WindowRow) == len(DAYS)
    for one in others:
        one.close()


@pytest.mark.parametrize("act", ["pause", "edit", "delete"])
def test_changes_while_windows_are_queued_hold(service, collector, monkeypatch, act) -> None:
    """After the first window of four is asked for, and before it is stored."""
    schedule, mine = create(service), service.service.schedules
    row = mine.get(service.people["ana"], schedule)
    changed = ScheduleChoices(
        name=row.name, candidates=spec_of_schedule(row).candidates, options=Choices(alpha=0.01),
        first_day=MONDAY,
    )  # fmt: skip
    acts: dict[str, Callable[[], object]] = {
        "pause": lambda: mine.enable(service.people["ana"], schedule, False),
        "edit": lambda: mine.edit(service.people["ana"], schedule, changed),
        "delete": lambda: mine.delete(service.people["ana"], schedule),
    }
    other = make_service(settings_of(service.service.settings.database, **collector.settings))
    asking = other.ticker.collector
    assert asking is not None
    ask, todo = type(asking).aggregate, [acts[act]]

    def asked(*given: Any) -> Any:
        found = ask(*given)
        if todo:
            todo.pop()()
        return found

    monkeypatch.setattr(type(asking), "aggregate", asked)
    assert other.tick().queued == 0
    assert count(service.service, JobRow) == count(service.service, WindowRow) == 0
    assert other.tick().queued == (len(DAYS) if act == "edit" else 0)
    other.close()


def test_merged_days_stay_together(tmp_path: Path) -> None:
    """Two days have too few reports alone: the collector merged them with the day after."""
    days = {day: {"word-0": 20} for day in days_after(MONDAY, 9)}
    for number in (5, 6):  # Saturday, Sunday
        days[MONDAY + timedelta(days=number)] = {"word-0": 2}
    with (
        live_collector(tmp_path, days) as collector,
        running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0, **collector.settings) as served,
    ):
        daily, weekly = create(served), create(served, every="week")
        assert served.service.tick().problems == {}
        spans = [(one["first_day"][8:], one["last_day"][8:]) for one in windows_of(served, daily)]
        alone = [(f"{day:02}", f"{day:02}") for day in (9, 10, 11, 12, 13, 17)]
        assert spans == sorted([*alone, ("14", "16")])
        assert windows_of(served, weekly) == []  # its last days are merged into an open week


def test_alarms_tell_each_cause_once(service: Running, tmp_path: Path) -> None:
    schedule = create(service)
    rules = {"new_value": True, "change": 0.2, "fewer_reports": 0.5, "cohort": True}
    hook = {"name": "ops", "target": "ops", "rules": rules}
    calm = {"name": "calm", "target": "ops", "rules": {"change": 0.9, "fewer_reports": 0.001}}
    with service.client("ana") as ana:
        for one in (hook, calm):  # each by its own bounds
            made = ana.post(f"/v1/schedules/{schedule}/alarms", json=one)
            assert made.status_code == 201, made.text
    service.service.ticker.tick()
    do_jobs(service.service, tmp_path)
    service.service.ticker.tick()
    with service.client("ana") as ana:
        shown = ana.get(f"/v1/schedules/{schedule}/alarms").json()
    reply = {(one["rule"], one["window"]["first_day"]) for one in shown["events"]}
    days = [day.isoformat() for day in sorted(DAYS)]
    assert {("fewer_reports", days[2]), ("new_value", days[3]), ("change", days[3])} <= reply
    assert not [rule for rule, day in reply if day in days[:2] and rule != "cohort"]
    assert {one["alarm"] for one in shown["events"]} == {"ops"}
    assert not any("values" in one for one in shown["events"])
    before = count(service.service, EventRow)
    with service.service.database.writing() as db:  # ended again, as after a restored copy
        db.execute(update(WindowRow).values(state="waiting", result_id=None))
    assert service.service.ticker.tick().ended == 4
    assert count(service.service, EventRow) == before


def test_undecodable_windows_are_tried_thrice_and_told(service: Running, tmp_path: Path) -> None:
    schedule = create(service)
    with service.client("ana") as ana:
        hook = {"name": "ops", "target": "ops"}
        ana.post(f"/v1/schedules/{schedule}/alarms", json=hook)
    clock = service.service.clock
    ticker = service.service.ticker
    ticker.tick()
    for number in range(1, 4):
        with service.service.database.writing() as db:
            db.execute(
                update(JobRow).values(state="failed", ended=clock().timestamp(), reason="broken")
            )
        late = replace(ticker, clock=lambda n=number: clock() + timedelta(hours=n))
        assert late.tick().ended == (4 if number == 3 else 0)
    assert {one["state"] for one in windows_of(service, schedule)} == {"failed"}
    assert count(service.service, EventRow) == 4
    assert do_jobs(service.service, tmp_path) == 0


def test_deleting_a_schedule_takes_its_alarms(service: Running) -> None:
    path, hook = f"/v1/schedules/{create(service)}", {"name": "ops", "target": "ops"}
    with service.client("ana") as ana:
        unknown = ana.post(f"{path}/alarms", json=hook | {"target": "else"})
        assert (unknown.status_code, "(ops)" in unknown.text) == (422, True)
        for name in ("kept", "gone"):
            made = ana.post(f"{path}/alarms", json=hook | {"name": name})
            assert (made.status_code, made.json()["target"]) == (201, "ops")
        assert ana.delete(f"{path}/alarms/{made.json()['id']}").status_code == 200
        assert count(service.service, AlarmRow) == 1
        service.service.tick()
        assert ana.delete(path).status_code == 200
        assert ana.get(path).status_code == 404
    assert count(service.service, AlarmRow) == count(service.service, WindowRow) == 0


@pytest.mark.parametrize(
    ("every", "first", "last"),
    [("day", "2026-11-12", "2026-11-12"), ("week", "2026-11-09", "2026-11-15"),
     ("month", "2026-11-01", "2026-11-30")],
)  # fmt: skip
def test_periods(every: str, first: str, last: str) -> None:
    day = date(2026, 11, 12)
    assert period_start(Every(every), day).isoformat() == first
    assert period_end(Every(every), day).isoformat() == last
    assert period_end(Every.MONTH, date(2028, 2, 1)) == date(2028, 2, 29)


def test_schedules_stop_without_their_owners_key(service: Running) -> None:
    schedule = create(service)
    with service.client("root") as root:
        for key in root.get("/v1/keys").json()["keys"]:
            if key["name"] == "ana":
                root.post(f"/v1/keys/{key['key_id']}/revoke")
    ticked = service.service.tick()
    assert ticked.queued == 0
    assert "no valid key" in ticked.problems[schedule]
