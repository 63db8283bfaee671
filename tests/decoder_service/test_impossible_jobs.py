"""A job that cannot succeed ends with the reason in words, by the checks of the decoder."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from rappor_core.aggregate import Aggregate
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import MONDAY
from tests.decoder_service.support import (
    STRINGS,
    Running,
    submit,
    upload,
)

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


def reason(idle: Running, spec: dict[str, Any], folder: Path) -> str:
    """Why a job failed."""
    with idle.client("ana") as ana:
        job = submit(ana, spec)
        do_jobs(idle.service, folder)
        ended = ana.get(f"/v1/jobs/{job}").json()
    assert ended["state"] == "failed", ended
    return str(ended["reason"])


OF_WINDOWS: list[tuple[dict[str, Any], str]] = [
    ({"source": window()}, "must be guessed to be found: give a list of candidates"),
    (
        {"operation": "series", "source": window(MONDAY, MONDAY), "candidates": VALUES},
        "two or more",
    ),
    (
        {"operation": "series", "each": "week", "source": window(), "candidates": VALUES},
        "1 window: a series needs two or more",
    ),
    (
        {"source": window(date(2030, 1, 1)), "candidates": VALUES},
        f"no reports from 2030-01-01 to {MONDAY + DAY}; served are {MONDAY}",
    ),
    (
        {"source": window(MONDAY, MONDAY + 5 * DAY), "candidates": VALUES},
        f"days after {MONDAY + DAY} have no reports; served are {MONDAY}",
    ),
    (
        {
            "operation": "compare",
            "before": window(None, MONDAY),
            "source": window(MONDAY, MONDAY + DAY),
            "candidates": VALUES,
        },
        f"the windows {MONDAY} to {MONDAY} and {MONDAY} to {MONDAY + DAY} overlap",
    ),
    (
        {
            "operation": "decode",
            "source": window(),
            "candidates": VALUES,
            "options": {"without_cohorts": [0, 1, 2, 3]},
        },
        "leave out fewer",
    ),
]


@pytest.mark.parametrize(("spec", "words"), OF_WINDOWS)
def test_windows_of_which_no_job_can_be_made(
    idle: Running, spec: dict[str, Any], words: str, tmp_path: Path
) -> None:
    assert words in reason(idle, spec, tmp_path)


def test_uploads_of_which_no_job_can_be_made(idle: Running, tmp_path: Path) -> None:
    one, two = of_uploads(idle, dated(0)), of_uploads(idle, dated(1, days=3))
    undated, over = of_uploads(idle, STRINGS), of_uploads(idle, dated(2))
    both = {"aggregates": one["aggregates"] + two["aggregates"]}
    twice = {"aggregates": one["aggregates"] * 2}
    some = {"candidates": VALUES}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"source": one}, "give a list of candidates"),
        ({"source": twice, **some}, "overlap: reports would count twice"),
        ({"operation": "series", "source": one, **some}, "a series needs two or more"),
        ({"operation": "series", "source": undated, **some}, "has no first_day and last_day"),
        ({"operation": "compare", "before": one, "source": both, **some}, "overlap"),
        ({"operation": "compare", "before": two, "source": over, **some}, "overlap"),
        (
            {"source": {"aggregates": both["aggregates"] + over["aggregates"]},
             **some}, "overlap: reports would count twice",
        ),
        (
            {"source": one, **some,
             "options": {"without_cohorts": list(range(1000))}}, "cohort 8 is not one of 0 to 7",
        ),
    ]  # fmt: skip
    for spec, words in cases:
        assert words in reason(idle, spec, tmp_path), spec


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
