"""The public dictionary over a live collector."""

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
from decoder_service.metrics.rules import Metrics, checked
from rappor_core.metrics.file import parse_metrics
from tests.collector.support import Clock, make_bench
from tests.decoder_service.support import Running, running
from tests.decoder_service.test_pages import signed_in
from tests.metric_texts import declaration

DECLARED = declaration(
    "theme", "category", categories=["light", "dark"], epsilon_infinity=3.0, epsilon_one=1.0,
    max_memoized_values=2, fallback="light",
) + declaration(
    "engine", "string", num_bits=64, num_hashes=2, num_cohorts=4, epsilon_infinity=4.0,
    epsilon_one=2.0, max_memoized_values=2, fallback="other",
)  # fmt: skip


@dataclass
class Connected:
    """A service on a collector that declares two metrics."""

    service: Running

    def page(self) -> str:
        """As anyone sees it, asked of the collector anew."""
        memory = self.service.service.metrics._memory
        memory.asked = float("-inf")
        with self.service.client(None) as anyone:
            return " ".join(unescape(anyone.get("/dictionary").text).split())


@contextmanager
def connected_service(tmp_path: Path) -> Iterator[Connected]:
    """The service on a live collector with two metrics."""
    file, url = parse_metrics(DECLARED), f"sqlite:///{tmp_path}/collector.sqlite"
    bench = make_bench(url, Clock(datetime(2026, 11, 22, 12, tzinfo=UTC)))
    bench.collector.push_metrics(file.metrics.values(), "test")
    key = bench.collector.create_key(Scope.AGGREGATE, "decoder", "test").text
    settings = load_settings(database=url, port=0, log_level="error")
    with (
        running_collector(settings) as collector,
        running(
            f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0, collector=collector, collector_key=key
        ) as service,
    ):
        yield Connected(service)
    bench.database.close()


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Connected]:
    with connected_service(tmp_path) as one:
        yield one


def test_failing_collectors_are_told_without_their_address(
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = connected.page()
    assert "engine" in before

    def fails() -> list[dict[str, Any]]:
        raise RemoteError("no collector answers at http://10.0.0.5:8000: refused")

    monkeypatch.setattr(connected.service.service.metrics, "_ask", fails)
    page = connected.page()
    assert "10.0.0.5" not in page
    assert "the collector does not answer now" in page
    assert "engine" in page  # what it said last


GOOD = {
    "name": "m", "params_id": "0" * 32, "state": "current", "accepted": 1, "waiting": None,
    "closed_through": None, "served": {"first_day": "2026-11-01", "last_day": "2026-11-02"},
    "definition": {},
}  # fmt: skip


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
    assert checked([GOOD]) == [GOOD]


def test_a_collector_that_hangs_holds_one_asker(connected: Connected) -> None:
    """The others are answered at once, with what it said last."""
    import threading

    metrics, free, begun = connected.service.service.metrics, threading.Event(), threading.Event()

    def hangs() -> list[dict[str, Any]]:
        begun.set()
        free.wait(30)
        return []

    slow = Metrics(connected.service.service.database, hangs)
    thread = threading.Thread(target=slow.public)
    thread.start()
    begun.wait(30)
    assert slow.public().metrics == []
    assert "does not answer now" in slow.public().problem
    free.set()
    thread.join(30)
    assert slow.public().problem == ""
    assert metrics.public().metrics


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
    connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each member in turn is hostile text; each page is shown, without its marks."""
    service = connected.service.service
    collector = service.ticker.collector
    assert collector is not None
    plain = {"first_day": "2026-11-02", "last_day": "2026-11-03", "reports": 7}
    metrics = [
        row | {"served": plain, "waiting": plain, "closed_through": "2026-11-03"}
        for row in collector.metrics()[:1]
    ]
    with signed_in(connected.service, "root") as browser:
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
