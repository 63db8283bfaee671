"""The page of the service's state: for admins, with what needs them first."""

from __future__ import annotations

from html import unescape

import httpx

from tests.decoder_service.support import WORDS, Running
from tests.decoder_service.test_pages import signed_in


def page(client: httpx.Client) -> str:
    answer = client.get("/state")
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(answer.text).split())


def test_only_admins_see_the_state(idle: Running) -> None:
    with signed_in(idle, "ana") as ana:
        assert ana.get("/state").status_code == 403
        assert 'href="/state"' not in ana.get("/metrics").text
    with signed_in(idle, "root") as root:
        assert 'href="/state" aria-current="page"' in page(root)


def test_what_needs_an_admin_is_told(idle: Running) -> None:
    with signed_in(idle, "root") as root:
        text = page(root)
        assert "no worker lives, so that jobs wait" in text
        with signed_in(idle, "ana") as ana:
            listed = ana.post("/v1/lists?name=state", content=WORDS).json()["id"]
            given = {"name": "by day", "metric": "homepage", "every": "day", "operation": "series"}
            ana.post("/schedules", data=given | {"list": listed})
        idle.service.tick()
        assert "<b>1</b><span>jobs wait" in page(root)
