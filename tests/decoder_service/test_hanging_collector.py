"""A collector that hangs: pages and refusals wait a moment for it, together, and no longer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from decoder_service.metrics import rules as module
from decoder_service.people.permissions import Person, Role
from tests.decoder_service.support import Running, ask_by, running
from tests.decoder_service.test_public_dictionary import GOOD
from tests.waiting import until

WAIT = 0.2


@dataclass
class Hanging:
    """What a collector is asked; it answers once `free` is set."""

    free: threading.Event = field(default_factory=threading.Event)
    asked: int = 0
    answered: bool | None = None

    def __call__(self) -> list[dict[str, Any]]:
        self.asked += 1
        self.answered = self.free.wait(120)
        return [{**GOOD, "name": "homepage"}]


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    monkeypatch.setattr(module, "_WAIT_SECONDS", WAIT)
    one = Hanging()
    yield one
    one.free.set()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Running]:
    """The collector's address is never asked: the tests put what answers in its place."""
    address = {"collector": "http://127.0.0.1:9", "collector_key": "k"}
    with running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0, **address) as one:
        yield one


def test_many_pages_wait_once(served: Running, hanging: Hanging) -> None:
    metrics, before = ask_by(served, hanging), threading.active_count()
    person = Person("", "", Role.VIEWER)
    with served.client("ana") as ana:
        for _ in range(12):
            assert "the collector has not answered" in ana.get("/v1/metrics").json()["problem"]
    assert (hanging.asked, hanging.answered) == (1, None)
    assert threading.active_count() - before < 60  # workers of the web, and one that asks
    hanging.free.set()
    until(lambda: [one.name for one in metrics.all(person).metrics] == ["homepage"])


def test_old_answers_are_shown_with_their_age(served: Running, hanging: Hanging) -> None:
    hanging.free.set()
    metrics, person = ask_by(served, hanging), Person("", "", Role.VIEWER)
    assert metrics.all(person).problem == ""
    hanging.free.clear()
    metrics._asked = float("-inf")
    found = metrics.all(person)
    assert [one.name for one in found.metrics] == ["homepage"]
    assert "the collector has not answered for" in found.problem
    assert "what it said before is shown" in found.problem
    assert "does not answer now" in metrics.public()[1]
