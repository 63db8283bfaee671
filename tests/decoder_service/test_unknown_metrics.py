"""A job of a metric that the collector has not is refused when it is made, as a schedule is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from decoder.errors import RemoteError
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import MONDAY
from tests.decoder_service.support import STRINGS, Running, as_listed, set_metrics, upload
from tests.decoder_service.test_schedule_status import SCHEDULE, post

UNKNOWN = "the collector has no metric 'hompage'; it has 'homepage'"
DAY = timedelta(days=1)
TYPED = {"collector": {"metric": "hompage"}}


def count_jobs(service: Running) -> int:
    with service.client("root") as root:
        return len(root.get("/v1/jobs?limit=1000").json()["jobs"])


def job(operation: str, metric: str = "hompage") -> dict[str, Any]:
    days = {"first": str(MONDAY + DAY)} if operation == "compare" else {}
    spec = {"operation": operation, "source": {"collector": {"metric": metric, **days}}}
    if operation == "compare":
        spec["before"] = {"collector": {"metric": metric, "last": str(MONDAY)}}
    return spec


@pytest.mark.parametrize("kind", ["decode", "series", "compare"])
def test_it_is_refused_with_existing_names(idle: Running, kind: str) -> None:
    before = count_jobs(idle)
    status, said = post(idle, "/v1/jobs", job(kind))
    assert (status, said["detail"]) == (422, UNKNOWN)
    assert count_jobs(idle) == before
    schedule = post(idle, "/v1/schedules", {**SCHEDULE, "metric": "hompage"})
    assert schedule[1]["detail"] == said["detail"]  # in the same words


def test_earlier_windows_of_comparisons_are_checked(idle: Running) -> None:
    spec = {**job("compare", "homepage"), "before": TYPED}
    status, said = post(idle, "/v1/jobs", spec)
    assert (status, said["detail"]) == (422, UNKNOWN)


def test_counts_that_are_here_ask_no_collector(idle: Running, tmp_path: Path) -> None:
    """An upload of a metric that the collector has not is decoded, while it hangs or is gone."""
    away: list[list[dict[str, Any]] | None] = [None, []]
    for number, listed in enumerate(away):
        set_metrics(idle, listed)
        with idle.client("ana") as ana:
            spec = {"source": {"aggregates": [upload(ana, STRINGS)]}, "operation": "decode"}
            asked = {**spec, "candidates": {"numbers": [number, 9]}}
            assert ana.post("/v1/jobs", json=asked).status_code == 202
    assert do_jobs(idle.service, tmp_path) == 2


def test_absent_collectors_do_not_refuse_jobs(idle: Running) -> None:
    set_metrics(idle, None)
    assert post(idle, "/v1/jobs", job("decode", "any"))[0] == 202
    assert post(idle, "/v1/schedules", {**SCHEDULE, "metric": "any"})[0] == 201


def test_stale_collector_answers_refuse_nothing(idle: Running) -> None:
    """It may have been declared since."""
    listed: list[dict[str, Any]] | None = as_listed(idle)
    set_metrics(idle, listed)
    metrics = idle.service.jobs.metrics
    assert post(idle, "/v1/jobs", job("decode"))[0] == 422
    object.__setattr__(metrics, "_ask", _away)
    metrics._asked -= 2
    assert metrics.versions_of("hompage")[2] == "it is away"
    assert post(idle, "/v1/jobs", job("decode"))[0] == 202


def _away() -> list[dict[str, Any]]:
    raise RemoteError("it is away")


LISTED = {"candidates": {"numbers": [0, 9]}}
OF_A_KIND = [
    ("decode", "number", LISTED, "candidates: not of a metric of kind number"),
    ("series", "discover", {}, "a metric of kind discover has no series"),
    ("decode", "string", {"crowd": 9}, "crowd: not of a metric of kind string"),
    ("series", "number", {}, ""),
    ("decode", "category", LISTED, ""),
]


@pytest.mark.parametrize(("operation", "of", "more", "words"), OF_A_KIND)
def test_what_a_kind_does_not_take_is_refused(
    idle: Running, operation: str, of: str, more: dict[str, Any], words: str
) -> None:
    definition = as_listed(idle)[0]["definition"]
    set_metrics(idle, as_listed(idle, definition={**definition, "kind": of}))
    status, said = post(idle, "/v1/jobs", job(operation, "homepage") | more)
    assert status == (422 if words else 202), said
    if words:
        assert words in said["detail"]


def test_a_location_is_named_as_a_whole_or_by_its_parts(idle: Running) -> None:
    definition = {**as_listed(idle)[0]["definition"], "kind": "location"}
    set_metrics(
        idle,
        [
            {**row, "name": f"home/{slot}/7"}
            for row in as_listed(idle, definition=definition)
            for slot in ("day", "night")
        ],
    )
    assert post(idle, "/v1/jobs", job("decode", "home"))[0] == 202
    assert post(idle, "/v1/jobs", job("decode", "home/day/7"))[0] == 202
    status, said = post(idle, "/v1/jobs", job("decode", "house"))
    assert status == 422
    assert said["detail"] == "the collector has no metric 'house'; it has 'home'"
