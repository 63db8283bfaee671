"""The public dictionary over a live collector: metrics, and what is sent together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from collector.domain.access import Scope
from collector.server import running_collector
from collector.settings import load_settings
from decoder.errors import RemoteError
from decoder_service.metrics.rules import Metrics, checked, checked_associations
from rappor_core.risk import rise_text
from tests.association_support import linked_file
from tests.collector.support import Bench, Clock, make_bench
from tests.decoder_service.support import Running, running
from tests.decoder_service.test_pages import signed_in


@dataclass
class Linked:
    """A service on a collector that declares two associations."""

    service: Running
    bench: Bench

    def page(self) -> str:
        """As anyone sees it, asked of the collector anew."""
        memory = self.service.service.metrics._memory
        memory.asked = float("-inf")
        with self.service.client(None) as anyone:
            return " ".join(unescape(anyone.get("/dictionary").text).split())


@contextmanager
def linked_service(tmp_path: Path) -> Iterator[Linked]:
    """The service on a live collector with two associations."""
    file, url = linked_file(), f"sqlite:///{tmp_path}/collector.sqlite"
    bench = make_bench(url, Clock(datetime(2026, 11, 22, 12, tzinfo=UTC)))
    bench.collector.push_metrics(file.metrics.values(), "test", associations=file.associations)
    key = bench.collector.create_key(Scope.AGGREGATE, "decoder", "test").text
    settings = load_settings(database=url, port=0, log_level="error")
    with (
        running_collector(settings) as collector,
        running(
            f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0, collector=collector, collector_key=key
        ) as service,
    ):
        yield Linked(service, bench)
    bench.database.close()


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Linked]:
    with linked_service(tmp_path) as one:
        yield one


def test_linked_metrics_are_explained_with_their_risk(linked: Linked) -> None:
    file, page = linked_file(), linked.page()
    for one in file.associations:
        assert f'<section id="{one.name}">' in page
        assert one.description in page
        once = sum(metric.epsilon_one for metric in one.metrics)
        assert rise_text(once) in page
        assert f"the reports of {one.of[0]} and of {one.of[1]} of one day are sent together" in page
    assert page.count("Sent together") == 4
    hashed = [one for one in file.associations if one.cohort_of_second]
    assert page.count("Both use the one group (cohort)") == len(hashed) > 0
    assert 'class="problem"' not in page


def test_what_is_linked_no_more_is_left_out(linked: Linked) -> None:
    linked.bench.collector.retire_metric("theme", "test")  # a metric of theme_crashed
    page = linked.page()
    assert '<section id="theme">' not in page
    assert '<section id="theme_crashed">' not in page
    assert page.count("Sent together") == 2
    name = linked_file().associations[0].name
    linked.bench.collector.retire_metric(name, "test")
    page = linked.page()
    assert f'<section id="{name}">' not in page
    assert "Sent together" not in page


def test_failing_collectors_are_told_without_their_address(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = linked.page()
    assert "theme_crashed" in before

    def fails() -> list[dict[str, Any]]:
        raise RemoteError("no collector answers at http://10.0.0.5:8000: refused")

    monkeypatch.setattr(linked.service.service.metrics, "_ask", fails)
    page = linked.page()
    assert "10.0.0.5" not in page
    assert "the collector does not answer now" in page
    assert "theme_crashed" in page  # what it said last


GOOD = {
    "name": "m", "params_id": "0" * 32, "state": "current", "accepted": 1, "waiting": None,
    "closed_through": None, "served": {"first_day": "2026-11-01", "last_day": "2026-11-02"},
    "definition": {},
}  # fmt: skip
LINKED = {"name": "a", "params_id": "0" * 32, "state": "current", "definition": {}}


@pytest.mark.parametrize(
    "listed",
    [
        None,
        3,
        "text",
        {},
        {"a": 1},
        [None],
        [[]],
        [{**GOOD, "served": {"first_day": "soon", "last_day": "later"}}],
        [{**GOOD, "served": {"first_day": "0001-01-01", "last_day": "9999-12-31"}}],
        [{**GOOD, "served": {"first_day": 3, "last_day": []}}],
        [{**GOOD, "served": {"first_day": 20261101, "last_day": 20261102}}],
        [{**GOOD, "closed_through": "20261102"}],
        [{**GOOD, "waiting": {"first_day": "2026-W45-7", "reports": 1}}],
        [{**GOOD, "name": "\ud800"}],
        [{**GOOD, "accepted": "many"}],
    ],
)
def test_bad_lists_are_refused_in_words(listed: Any) -> None:
    if listed != {}:  # an empty object lists nothing, as an empty list does
        with pytest.raises(RemoteError, match="is not a collector"):
            checked(listed)
        with pytest.raises(RemoteError, match="is not a collector"):
            checked_associations(listed if not isinstance(listed, list) else [{"name": 1}])
    assert checked([GOOD]) == [GOOD]


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"of": 3, "params_ids": None},
        {"of": ["theme", "crashed"], "params_ids": [[], {}]},
        {"of": ["\u202e<script>"] * 2, "params_ids": ["0" * 32] * 2},
        {"name": "\x1b[31m", "of": [], "params_ids": [], "description": "<script>"},
    ],
)
def test_unreadable_associations_do_not_hide_the_rest(
    linked: Linked, monkeypatch: pytest.MonkeyPatch, definition: dict[str, Any]
) -> None:
    metrics = linked.service.service.metrics
    rows = [{**LINKED, "definition": definition}]
    monkeypatch.setattr(metrics, "_ask_associations", lambda: json.loads(json.dumps(rows)))
    page = linked.page()
    assert '<section id="theme">' in page
    assert "<script>" not in page
    assert "\x1b" not in page


def test_a_collector_that_hangs_holds_one_asker(linked: Linked) -> None:
    """The others are answered at once, with what it said last."""
    import threading

    metrics, free, begun = linked.service.service.metrics, threading.Event(), threading.Event()

    def hangs() -> list[dict[str, Any]]:
        begun.set()
        free.wait(30)
        return []

    slow = Metrics(linked.service.service.database, hangs)
    thread = threading.Thread(target=slow.public)
    thread.start()
    begun.wait(30)
    assert slow.public().metrics == []
    assert "does not answer now" in slow.public().problem
    free.set()
    thread.join(30)
    assert slow.public().problem == ""
    assert metrics.public().metrics


def test_collectors_without_associations_serve_the_rest(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an older version: it has no such route."""

    def older() -> list[dict[str, Any]]:
        raise RemoteError("the collector answered 404: there is no GET /v1/associations")

    monkeypatch.setattr(linked.service.service.metrics, "_ask_associations", older)
    page = linked.page()
    assert '<section id="theme">' in page
    assert "does not tell which answers are sent together" in page
    with linked.service.client("ana") as ana:
        assert ana.get("/v1/metrics").json()["problem"] == ""


EVIL = "\u202e<script>alert(1)</script>"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of the texts in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, dict | list) and inner:
            yield from leaves(inner, (*path, key))
        elif isinstance(inner, str):
            yield (*path, key)


def test_collectors_lists_do_not_steer_pages(
    linked: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each member in turn is hostile text; each page is shown, without its marks."""
    service = linked.service.service
    collector = service.ticker.collector
    assert collector is not None
    plain = {"first_day": "2026-11-02", "last_day": "2026-11-03", "reports": 7}
    metrics = [
        row | {"served": plain, "waiting": plain, "closed_through": "2026-11-03"}
        for row in collector.metrics()[:1]
    ]
    with signed_in(linked.service, "root") as browser:
        paths = ["/dictionary", "/metrics", f"/metrics/{metrics[0]['name']}"]
        for path in leaves(metrics):
            listed = json.loads(json.dumps(metrics))
            at = listed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = EVIL
            monkeypatch.setattr(service.metrics, "_ask", lambda listed=listed: listed)
            for address in paths:
                service.metrics._memory.asked = float("-inf")
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
        page = " ".join(unescape(anyone.get("/dictionary").text).split())
    assert "does not know what is collected now" in page
    assert "Nothing is collected" not in page
