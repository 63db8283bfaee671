"""A collector that hangs: pages show what it said last, and hold no request."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from decoder_service.metrics.rules import REFRESH_SECONDS
from decoder_service.people.permissions import Person, Role
from tests.decoder_service.support import Running, ask_by, running
from tests.decoder_service.test_public_dictionary import GOOD
from tests.waiting import until

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
            assert "the collector has not answered yet" in ana.get("/v1/metrics").json()["problem"]
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
    assert "the collector has not answered for 60 seconds" in problem
    assert "what it said before is shown" in problem
    assert "does not answer now" in metrics.public()[1]
