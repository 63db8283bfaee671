"""The public dictionary over a live collector; and pages of one that hangs."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from decoder.errors import RemoteError
from decoder_service.metrics.rules import REFRESH_SECONDS, checked
from decoder_service.people.permissions import Person, Role
from tests.decoder_service.support import Running, ask_by, running, text_of
from tests.decoder_service.test_pages import signed_in
from tests.waiting import until


def dictionary(service: Running) -> str:
    """The page as anyone sees it, asked of the collector again."""
    service.service.metrics._asked = float("-inf")
    with service.client(None) as anyone:
        return text_of(anyone.get("/dictionary"))


def test_failing_collectors_are_told_without_their_address(idle, monkeypatch) -> None:
    before = dictionary(idle)
    assert "homepage" in before

    def fails() -> list[dict[str, Any]]:
        raise RemoteError("no collector answers at http://10.0.0.5:8000: refused")

    monkeypatch.setattr(idle.service.metrics, "_ask", fails)
    idle.service.metrics.refresh()
    page = dictionary(idle)
    assert "10.0.0.5" not in page
    assert "the collector does not respond" in page
    assert "homepage" in page  # what it said last


GOOD = {
    "name": "m", "params_id": "0" * 32, "state": "current", "accepted": 1, "waiting": None,
    "closed_through": None, "served": {"first_day": "2026-11-01", "last_day": "2026-11-02"},
    "definition": {},
}  # fmt: skip


@pytest.mark.parametrize(
    "listed",
    [
        None,
        {"a": 1},
        [None],
        [{**GOOD, "served": {"first_day": "soon", "last_day": "later"}}],
        [{**GOOD, "served": {"first_day": "0001-01-01", "last_day": "9999-12-31"}}],
        [{**GOOD, "closed_through": "20261102"}],
        [{**GOOD, "waiting": {"first_day": "2026-W45-7", "reports": 1}}],
        [{**GOOD, "name": "\ud800"}],
        [{**GOOD, "accepted": "many"}],
    ],
)
def test_bad_lists_are_refused_in_words(listed: Any) -> None:
    with pytest.raises(RemoteError, match="is not a collector"):
        checked(listed)
    assert checked([GOOD]) == [GOOD]


EVIL = "\u202e<script>alert(1)</script>"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of the texts in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list) and inner:
            yield from leaves(inner, (*path, key))
        elif isinstance(inner, str):
            yield (*path, key)


def test_collectors_lists_do_not_steer_pages(idle, monkeypatch) -> None:
    """Each member in turn is hostile text; each page is shown, without its marks."""
    service = idle.service
    collector = service.ticker.collector
    assert collector is not None
    plain = {"first_day": "2026-11-02", "last_day": "2026-11-03", "reports": 7}
    metrics = [
        row | {"served": plain, "waiting": plain, "closed_through": "2026-11-03"}
        for row in collector.metrics()[:1]
    ]
    with signed_in(idle, "root") as browser:
        paths = ["/dictionary", "/metrics", f"/metrics/{metrics[0]['name']}"]
        for path in leaves(metrics):
            listed = json.loads(json.dumps(metrics))
            at = listed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = EVIL
            monkeypatch.setattr(service.metrics, "_ask", lambda listed=listed: listed)
            for address in paths:
                service.metrics._asked = float("-inf")
                answer = browser.get(address)
                assert answer.status_code in (200, 404), (path, address)
                assert "\u202e" not in answer.text, (path, address)
                assert "<script>alert" not in answer.text, (path, address)


def test_without_a_collector_it_does_not_know(tmp_path: Path) -> None:
    """It never claims that nothing is collected."""
    with (
        running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as service,
        service.client(None) as anyone,
    ):
        page = text_of(anyone.get("/dictionary"))
    assert "the list of metrics is unknown" in page
    assert "No data is collected" not in page


READER = Person("", "", Role.VIEWER)


@dataclass
class Hanging:
    """What a collector is asked; it answers once `free` is set."""

    free: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> list[dict[str, Any]]:
        self.free.wait(120)
        return [{**GOOD, "name": "homepage"}]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    """The collector's address is never asked: the tests put what answers in its place."""
    address = {"collector": "http://127.0.0.1:9", "collector_key": "k"}
    with running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0, **address) as one:
        yield one


def test_no_page_waits_for_it(served: Running) -> None:
    hanging = Hanging()
    metrics = ask_by(served, hanging)
    asking = threading.Thread(target=metrics.refresh)
    asking.start()
    with served.client("ana") as ana:
        for _ in range(12):
            assert "the collector has not responded yet" in ana.get("/v1/metrics").json()["problem"]
    assert asking.is_alive()
    hanging.free.set()
    until(lambda: [one.name for one in metrics.all(READER)[0]] == ["homepage"])
    asking.join()


def test_old_answers_are_shown_with_their_age(served: Running) -> None:
    answering = Hanging()
    answering.free.set()
    metrics = ask_by(served, answering)
    metrics.refresh()
    assert metrics.all(READER)[1] == ""
    metrics._answered -= 2 * REFRESH_SECONDS
    found, problem = metrics.all(READER)
    assert [one.name for one in found] == ["homepage"]
    assert "the collector has not responded for 60 seconds" in problem
    assert "its last list is shown" in problem
    assert "does not respond" in metrics.public()[1]
