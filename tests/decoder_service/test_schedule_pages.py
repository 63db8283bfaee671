"""Pages of schedules: made, changed, paused and deleted by forms, with their windows and alarms."""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import WORDS
from tests.decoder_service.support import Running
from tests.decoder_service.test_pages import INLINE, signed_in

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


def test_a_schedule_from_form_to_results(
    served: Running, browser: httpx.Client, tmp_path: Path
) -> None:
    """Made, decoded, changed, decoded again alongside what was there, paused, deleted."""
    listed = stored_list(browser, "words", WORDS)
    name = f"daily {EVIL}"
    path = make(browser, name, listed, correction="bonferroni", alpha="0.01")
    assert "No window yet" in page(browser, path)
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
    assert (refused.status_code, "tick the box" in refused.text) == (422, True)
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
