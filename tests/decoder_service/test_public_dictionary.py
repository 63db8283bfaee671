"""The public dictionary over a live collector."""

import json
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from decoder.errors import RemoteError
from decoder_service.metrics.rules import checked
from tests.decoder_service.support import Running, running
from tests.decoder_service.test_pages import signed_in


def dictionary(service: Running) -> str:
    """As anyone sees it, asked of the collector again."""
    service.service.metrics._asked = float("-inf")
    with service.client(None) as anyone:
        return " ".join(unescape(anyone.get("/dictionary").text).split())


def test_failing_collectors_are_told_without_their_address(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dictionary(idle)
    assert "homepage" in before

    def fails() -> list[dict[str, Any]]:
        raise RemoteError("no collector answers at http://10.0.0.5:8000: refused")

    monkeypatch.setattr(idle.service.metrics, "_ask", fails)
    idle.service.metrics.refresh()
    page = dictionary(idle)
    assert "10.0.0.5" not in page
    assert "the collector does not answer now" in page
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


def test_collectors_lists_do_not_steer_pages(
    idle: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        page = " ".join(unescape(anyone.get("/dictionary").text).split())
    assert "does not know what is collected now" in page
    assert "Nothing is collected" not in page
