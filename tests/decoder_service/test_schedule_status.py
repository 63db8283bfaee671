"""Schedules: their state and why, and the pages that make, change, pause and delete them."""

import html
import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from decoder.errors import RemoteError
from decoder_service.metrics.rules import RemoteCollector
from decoder_service.shell.service import make_service
from rappor_core.aggregate import Aggregate
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import MONDAY, WORDS, LiveCollector
from tests.decoder_service.support import Running, as_listed, running, set_metrics, settings_of
from tests.decoder_service.test_pages import INLINE, signed_in

SCHEDULE = {"name": "a", "metric": "homepage", "every": "day", "candidates": {"numbers": [0, 9]}}


def post(service: Running, path: str, given: dict[str, Any]) -> tuple[int, Any]:
    with service.client("ana") as ana:
        answer = ana.post(path, json=given)
    return answer.status_code, answer.json()


def status_of(service: Running, schedule: str) -> dict[str, str]:
    """By the API, after a check; the page says the same."""
    service.service.ticker.tick()
    with service.client("ana") as ana:
        found: dict[str, str] = ana.get(f"/v1/schedules/{schedule}").json()["status"]
    with signed_in(service, "ana") as browser:
        page = unescape(browser.get(f"/schedules/{schedule}").text)
        assert f'<span class="state {found["state"]}">{found["state"]}</span>' in page
        assert found["reason"][:500] in page
        rows = browser.get("/schedules").text
    assert f'<span class="state {found["state"]}">' in rows
    return found


def test_a_schedule_says_what_it_waits_for(scheduling: Running, tmp_path: Path) -> None:
    _, day = post(scheduling, "/v1/schedules", SCHEDULE)
    _, week = post(scheduling, "/v1/schedules", {**SCHEDULE, "name": "b", "every": "week"})
    assert day["status"] == {"state": "ready", "reason": "the next check queues a window"}
    assert scheduling.service.tick().queued == 2
    assert do_jobs(scheduling.service, tmp_path) == 2
    said = status_of(scheduling, day["id"])
    after = MONDAY + timedelta(days=2)
    assert said["state"] == "waiting"
    assert f"the next window is {after}, and" in said["reason"]
    assert f"serves days up to {after - timedelta(days=1)}" in said["reason"]
    assert "later days are closed up to" in said["reason"]
    assert "and have no reports" in said["reason"]
    said = status_of(scheduling, week["id"])
    assert f"the next window is {MONDAY} to {MONDAY + timedelta(days=6)}" in said["reason"]
    _, later = post(
        scheduling, "/v1/schedules", {**SCHEDULE, "name": "c", "first_day": "2027-01-04"}
    )
    assert "the next window is 2027-01-04" in status_of(scheduling, later["id"])["reason"]
    with scheduling.client("ana") as ana:
        ana.post(f"/v1/schedules/{day['id']}/enable", json={"enabled": False})
    assert status_of(scheduling, day["id"])["state"] == "paused"
    waiting = {"first_day": "2026-11-09", "last_day": "2026-11-12", "reports": 7}
    set_metrics(scheduling, as_listed(scheduling, served=None, waiting=waiting))
    said = status_of(scheduling, week["id"])
    assert said["state"] == "waiting"
    assert "serves none of its days yet; its days from 2026-11-09 on" in said["reason"]
    assert "too few reports (7)" in said["reason"]
    set_metrics(scheduling, as_listed(scheduling, closed_through=str(after - timedelta(days=1))))
    said = status_of(scheduling, week["id"])
    assert f"it has closed days up to {after - timedelta(days=1)}, and closes" in said["reason"]
    set_metrics(scheduling, as_listed(scheduling, state="retired"))
    assert "no longer accepts its reports (retired)" in status_of(scheduling, week["id"])["reason"]


def test_blocked_schedules_say_why_with_a_remedy(scheduling: Running) -> None:
    _, made = post(scheduling, "/v1/schedules", SCHEDULE)
    schedule = made["id"]
    set_metrics(scheduling, [])
    said = status_of(scheduling, schedule)
    assert said["state"] == "blocked"
    assert "no metric 'homepage'; it has none yet; an operator declares it" in said["reason"]
    set_metrics(scheduling, None)
    assert "no collector answers" in status_of(scheduling, schedule)["reason"]
    set_metrics(scheduling, as_listed(scheduling))
    with scheduling.client("ana") as ana:
        listed = ana.post("/v1/lists", params={"name": "w"}, content=b"word-0\n").json()["id"]
        given = {**SCHEDULE, "candidates": {"list": listed}}
        ana.put(f"/v1/schedules/{schedule}", json=drop(given, "metric", "every"))
        assert status_of(scheduling, schedule)["state"] == "waiting"
        ana.delete(f"/v1/lists/{listed}")
    assert f"there is no list '{listed}" in status_of(scheduling, schedule)["reason"]
    for row in scheduling.service.access.list_keys(scheduling.people["root"]):
        if row.person.name == "ana":
            scheduling.service.access.revoke_key(scheduling.people["root"], row.key_id)
    with scheduling.client("root") as root:
        result = root.get(f"/v1/schedules/{schedule}").json()["status"]["reason"]
    assert "its owner has no valid key" in result
    assert "an admin creates a key for the owner" in result


def test_what_the_latest_tick_met_is_said_until_one_meets_nothing(scheduling, monkeypatch) -> None:
    """The collector lists its metrics and refuses the counts."""
    _, made = post(scheduling, "/v1/schedules", SCHEDULE)

    def refuse(*_: object) -> Aggregate:
        raise RemoteError("the collector refuses: its days are damaged")

    with monkeypatch.context() as patched:
        patched.setattr(RemoteCollector, "aggregate", refuse)
        said = status_of(scheduling, made["id"])
    assert (said["state"], said["reason"]) == (
        "blocked", "at the latest check: the collector refuses: its days are damaged"
    )  # fmt: skip
    assert status_of(scheduling, made["id"])["state"] == "waiting"


def test_what_keeps_a_check_from_queueing_is_said(collector: LiveCollector, tmp_path: Path) -> None:
    """The collector serves the days, and the owner has as many jobs as one may have."""
    settings = {"tick_seconds": 0, "max_jobs_of_person": 1, **collector.settings}
    with running(f"sqlite:///{tmp_path}/d.sqlite", **settings) as service:
        _, made = post(service, "/v1/schedules", SCHEDULE)
        assert made["status"]["state"] == "ready"
        said = status_of(service, made["id"])
        assert said["state"] == "blocked"
        assert (
            "at the latest check: you have 1 queued or running jobs, the maximum" in said["reason"]
        )
        assert do_jobs(service.service, tmp_path) == 1
        assert status_of(service, made["id"])["state"] == "waiting"


def drop(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}


EVIL = "<script>alert(1)</script>"


@pytest.fixture
def served(collecting: Running) -> Running:
    return collecting


@pytest.fixture
def browser(served: Running) -> Iterator[httpx.Client]:
    with signed_in(served, "ana") as one:
        yield one


def stored_list(browser: httpx.Client, name: str, words: list[str]) -> str:
    answer = browser.post("/lists", data={"name": name, "values": "\n".join(words)})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].rpartition("/")[2]


def make(browser: httpx.Client, name: str, listed: str, **more: Any) -> str:
    given = {"name": name, "metric": "homepage", "every": "day", "list": listed}
    answer = browser.post("/schedules", data=given | more)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def page(browser: httpx.Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.text
    assert EVIL not in answer.text
    assert not INLINE.search(answer.text)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_a_schedule_from_form_to_results(served, browser, tmp_path) -> None:
    """Made, decoded, changed, decoded again alongside what was there, paused, deleted."""
    listed = stored_list(browser, "words", WORDS)
    name = f"daily {EVIL}"
    path = make(browser, name, listed, correction="bonferroni", alpha="0.01")
    assert "No windows yet" in page(browser, path)
    assert served.service.tick().queued == 2
    assert "waiting" in page(browser, path)
    do_jobs(served.service, tmp_path)
    served.service.tick()
    shown = page(browser, path)
    assert shown.count(" done ") == 2, shown
    assert '"alpha": 0.01' in shown
    assert name in page(browser, "/schedules")
    changed = {"name": "renamed", "list": listed, "alpha_percent": "5", "correction": "bonferroni"}
    assert browser.post(f"{path}/edit", data=changed).status_code == 303
    assert served.service.tick().queued == 2  # with other options all windows are decoded again
    do_jobs(served.service, tmp_path)
    served.service.tick()
    shown = page(browser, path)
    assert shown.count(" done ") == 4, shown  # those of before stay
    assert browser.post(f"{path}/enable", data={}).status_code == 303
    assert "paused" in page(browser, path)
    stored_version = browser.post(f"/lists/{listed}/versions", data={"values": "word-0\nword-1"})
    assert stored_version.status_code == 303
    assert served.service.tick().queued == 0
    assert browser.post(f"{path}/enable", data={"enabled": "1"}).status_code == 303
    assert served.service.tick().queued == 2
    refused = browser.post(f"{path}/delete", data={})
    assert (refused.status_code, "check the box" in refused.text) == (422, True)
    assert browser.post(f"{path}/delete", data={"sure": "1"}).status_code == 303
    page(browser, path, 404)
    do_jobs(served.service, tmp_path)


def test_another_person_changes_nothing(served: Running, browser: httpx.Client) -> None:
    path = make(browser, "mine", stored_list(browser, "mine", ["a"]))
    forms = {
        "/schedules": {"name": "x", "metric": "homepage", "every": "day"},
        f"{path}/edit": {"name": "x"},
        f"{path}/enable": {},
        f"{path}/delete": {"sure": "1"},
        f"{path}/alarms": {"name": "x", "target": "ops"},
        f"{path}/alarms/{'0' * 16}/delete": {"sure": "1"},
    }
    with signed_in(served, "ben") as ben:
        for target, data in list(forms.items())[1:]:
            assert ben.post(target, data=data).status_code == 404, target
        assert ben.get(path).status_code == ben.get(f"{path}/edit").status_code == 404
        assert "mine" not in ben.get("/schedules").text
    with signed_in(served, "vic") as vic:
        assert vic.get("/schedules").status_code == 403
        assert vic.post("/schedules", data=forms["/schedules"]).status_code == 403
    with served.client("ana") as ana:
        found = ana.get(f"/v1{path}").json()
        assert (found["name"], found["enabled"]) == ("mine", True)


def test_a_schedule_without_a_collector_is_blocked(collector, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    with running(url, tick_seconds=0, **collector.settings) as one:
        _, made = post(one, "/v1/schedules", SCHEDULE)
        key = one.keys["ana"]
    alone = make_service(settings_of(url))
    person = alone.access.person_of_key(key)
    said = alone.ticker.statuses([alone.schedules.get(person, made["id"])])[0]
    assert (said.state, "RAPPOR_DECODER_COLLECTOR" in said.reason) == ("blocked", True)
    alone.close()


def test_making_a_schedule_changes_no_other(browser: httpx.Client) -> None:
    path = make(browser, "first", stored_list(browser, "first words", ["a"]))
    given = {"name": "second", "metric": "homepage", "every": "day", "numbers": "0:9"}
    identity = path.rpartition("/")[2]
    made = browser.post("/schedules", data=given, params={"schedule_id": identity})
    assert (made.status_code, made.headers["location"] == path) == (303, False)
    assert "first" in page(browser, path)
