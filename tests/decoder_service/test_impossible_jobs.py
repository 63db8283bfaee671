"""A job that cannot succeed is refused when it is sent, and so is its schedule."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from decoder_service.jobs.specs import JobSpec
from decoder_service.shell.errors import RequestError
from rappor_core.aggregate import Aggregate
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import MONDAY
from tests.decoder_service.support import (
    STRINGS,
    Running,
    as_listed,
    set_metrics,
    submit,
    upload,
)
from tests.decoder_service.test_schedule_status import SCHEDULE, post

DAY = timedelta(days=1)
VALUES = {"numbers": [0, 9]}


def window(first: date | None = None, last: date | None = None) -> dict[str, Any]:
    days = {"first": first and str(first), "last": last and str(last)}
    return {"collector": {"metric": "homepage", **days}}


def dated(number: int, days: int = 1) -> bytes:
    """The strings on days of their own."""
    first = MONDAY + number * DAY
    one = Aggregate.from_json(STRINGS)
    return replace(one, first_day=first, last_day=first + (days - 1) * DAY).to_json().encode()


def of_uploads(idle: Running, *contents: bytes) -> dict[str, Any]:
    with idle.client("ana") as ana:
        return {"aggregates": [upload(ana, content) for content in contents]}


def refusal(idle: Running, spec: dict[str, Any]) -> str:
    """What the API says, in the words of the rules; nothing is queued."""
    status, said = post(idle, "/v1/jobs", spec)
    assert status == 422, said
    words = str(said["detail"])
    with pytest.raises(RequestError) as refused:
        idle.service.jobs.submit(idle.people["ana"], JobSpec.model_validate(spec))
    assert str(refused.value) == words
    with idle.client("ana") as ana:
        assert ana.get("/v1/jobs?state=queued").json()["jobs"] == []
    return words


OF_WINDOWS: list[tuple[dict[str, Any], str]] = [
    ({"source": window()}, "choose a list of candidates, numbers or days"),
    (
        {"operation": "series", "source": window(MONDAY, MONDAY), "candidates": VALUES},
        "two or more",
    ),
    (
        {"operation": "series", "each": "week", "source": window(), "candidates": VALUES},
        "one window by week",
    ),
    (
        {"source": window(date(2030, 1, 1)), "candidates": VALUES},
        "no day of 2030-01-01 to the last day; choose days of those",
    ),
    (
        {"source": window(MONDAY, MONDAY + 5 * DAY), "candidates": VALUES},
        f"and not yet {MONDAY + 5 * DAY}; end the window on {MONDAY + DAY}, or wait",
    ),
    (
        {
            "operation": "compare",
            "before": window(None, MONDAY),
            "source": window(MONDAY, MONDAY + DAY),
            "candidates": VALUES,
        },
        f"the first day to {MONDAY} and {MONDAY} to {MONDAY + DAY}, share days",
    ),
    (
        {
            "operation": "decode",
            "source": window(),
            "candidates": VALUES,
            "options": {"without_cohorts": [0, 1, 2, 3]},
        },
        "all 4 cohorts of metric 'homepage' are left out",
    ),
]


@pytest.mark.parametrize(("spec", "words"), OF_WINDOWS)
def test_windows_of_which_no_job_can_be_made(
    idle: Running, spec: dict[str, Any], words: str
) -> None:
    assert words in refusal(idle, spec)


def test_uploads_of_which_no_job_can_be_made(idle: Running) -> None:
    one, two = of_uploads(idle, dated(0)), of_uploads(idle, dated(1, days=3))
    undated, over = of_uploads(idle, STRINGS), of_uploads(idle, dated(2))
    both = {"aggregates": one["aggregates"] + two["aggregates"]}
    twice = {"aggregates": one["aggregates"] * 2}
    some = {"candidates": VALUES}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"source": one}, "choose a list of candidates"),
        ({"source": twice, **some}, "is named 2 times"),
        ({"operation": "series", "source": one, **some}, "a series needs two or more"),
        ({"operation": "series", "source": undated, **some}, "does not say its days"),
        ({"operation": "compare", "before": one, "source": both, **some}, "in both windows"),
        ({"operation": "compare", "before": two, "source": over, **some}, "overlap"),
        (
            {"source": {"aggregates": both["aggregates"] + over["aggregates"]},
             **some}, "overlap: reports would count twice; leave one of them out",
        ),
        (
            {"source": one, **some,
             "options": {"without_cohorts": list(range(1000))}}, "cohort 999 is not one of",
        ),
    ]  # fmt: skip
    for spec, words in cases:
        assert words in refusal(idle, spec), spec


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"candidates": {}}, "choose a list of candidates, numbers or days"),
        ({"options": {"without_cohorts": [3, 2, 1, 0]}}, "all 4 cohorts"),
    ],
)
def test_schedules_are_refused_as_their_jobs(
    idle: Running, changes: dict[str, Any], words: str
) -> None:
    status, said = post(idle, "/v1/schedules", {**SCHEDULE, **changes})
    assert (status, words in said["detail"]) == (422, True), said
    status, made = post(idle, "/v1/schedules", {**SCHEDULE, "name": f"b{sorted(changes)}"})
    assert status == 201, made
    path, kept = f"/v1/schedules/{made['id']}", {"name": "c", "candidates": VALUES}
    with idle.client("ana") as ana:
        said = ana.put(path, json={**kept, **changes})
        assert (said.status_code, words in said.text) == (422, True)
        ana.delete(path)


def test_days_closed_just_now_are_known(idle: Running) -> None:
    """What was listed is kept for half a minute; it is asked again before a job is refused."""
    listed = as_listed(idle, served=None)
    set_metrics(idle, listed)
    metrics = idle.service.jobs.metrics
    assert metrics.versions_of("homepage")[0]
    listed[:] = as_listed(idle)
    metrics._asked -= 2
    spec = {"source": window(), "candidates": VALUES}
    assert post(idle, "/v1/jobs", spec)[0] == 202


def test_what_is_not_known_refuses_nothing(idle: Running) -> None:
    """Of a definition of another version of the program, and while the collector is away."""
    definition = {**as_listed(idle)[0]["definition"], "params": {"new": 1}}
    for listed in (as_listed(idle, definition=definition), None):
        set_metrics(idle, listed)
        spec = {"source": window(), "options": {"without_cohorts": [9]}}
        assert post(idle, "/v1/jobs", spec)[0] == 202


def test_series_without_days_take_all_closed(idle: Running, tmp_path: Path) -> None:
    """As the form says; with one end, from there or until there."""
    with idle.client("ana") as ana:
        listed = ana.post("/v1/lists?name=w", content=b"word-0\nword-1\n").json()["id"]
        candidates = {"list": listed}
        for first, last in ((None, None), (MONDAY, None), (None, MONDAY + DAY)):
            spec = {"operation": "series", "source": window(first, last), "candidates": candidates}
            job = submit(ana, spec)
            do_jobs(idle.service, tmp_path)
            ended = ana.get(f"/v1/jobs/{job}").json()
            assert ended["state"] == "done", ended
            summary = ana.get(f"/v1/results/{ended['result_id']}").json()["summary"]
            days = [str(MONDAY), str(MONDAY + DAY)]
            assert [one["first_day"] for one in summary["windows"]] == days, json.dumps(summary)


def test_aggregates_are_put_together_in_any_order(idle: Running, tmp_path: Path) -> None:
    """Whatever was uploaded first; before, the third lay within the sum of the first two."""
    source = of_uploads(idle, dated(0), dated(2), dated(1))
    with idle.client("ana") as ana:
        job = submit(ana, {"source": source, "candidates": VALUES})
        do_jobs(idle.service, tmp_path)
        assert ana.get(f"/v1/jobs/{job}").json()["state"] == "done"
