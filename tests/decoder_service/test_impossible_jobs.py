"""A job that cannot succeed ends with a readable reason, by the checks of the decoder."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from rappor_core.aggregate import Aggregate
from tests.decoder_service.in_process import do_jobs, done
from tests.decoder_service.live_collector import MONDAY
from tests.decoder_service.support import STRINGS, Running, set_metrics, submit, upload

DAY = timedelta(days=1)
VALUES = {"numbers": [0, 9]}


def window(first: date | None = None, last: date | None = None) -> dict[str, Any]:
    days = {"first": first and str(first), "last": last and str(last)}
    return {"collector": {"metric": "homepage", **days}}


def dated(number: int, days: int = 1) -> bytes:
    """The strings on separate days."""
    first = MONDAY + number * DAY
    one = Aggregate.from_json(STRINGS)
    return replace(one, first_day=first, last_day=first + (days - 1) * DAY).to_json().encode()


def of_uploads(idle: Running, *contents: bytes) -> dict[str, Any]:
    with idle.client("ana") as ana:
        return {"aggregates": [upload(ana, content) for content in contents]}


def reason(idle: Running, spec: dict[str, Any], folder: Path) -> str:
    with idle.client("ana") as ana:
        job = submit(ana, spec)
        do_jobs(idle.service, folder)
        ended = ana.get(f"/v1/jobs/{job}").json()
    assert ended["state"] == "failed", ended
    return str(ended["reason"])


LAST = MONDAY + DAY
NO_VALUES = {"candidates": {}}
SERIES = {"operation": "series"}
UNKNOWN = {"collector": {"metric": "hompage"}}
OF_WINDOWS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (window(), NO_VALUES, "must be guessed to be found: give a list of candidates"),
    (window(MONDAY, MONDAY), SERIES, "two or more"),
    (window(), {**SERIES, "each": "week"}, "1 window: a series needs two or more"),
    (window(date(2030, 1, 1)), {}, f"no reports from 2030-01-01 to {LAST}; served are {MONDAY}"),
    (window(None, LAST + 4 * DAY), {}, f"days after {LAST} have no reports; served are {MONDAY}"),
    (
        window(MONDAY, LAST),
        {"operation": "compare", "before": window(None, MONDAY)},
        f"the windows {MONDAY} to {MONDAY} and {MONDAY} to {LAST} overlap",
    ),
    (window(), {"options": {"without_cohorts": [0, 1, 2, 3]}}, "leave out fewer"),
    (window(), {"crowd": 9}, "crowd: does not apply to a metric of kind string"),
    (UNKNOWN, NO_VALUES, "hompage"),
    (UNKNOWN, {**SERIES, **NO_VALUES}, "hompage"),
]


@pytest.mark.parametrize(("source", "more", "words"), OF_WINDOWS)
def test_windows_of_which_no_job_can_be_made(idle, source, more, words, tmp_path) -> None:
    assert words in reason(idle, {"source": source, "candidates": VALUES} | more, tmp_path)


def test_uploads_of_which_no_job_can_be_made(idle: Running, tmp_path: Path) -> None:
    one, two = of_uploads(idle, dated(0)), of_uploads(idle, dated(1, days=3))
    undated, over = of_uploads(idle, STRINGS), of_uploads(idle, dated(2))
    both = {"aggregates": one["aggregates"] + two["aggregates"]}
    twice = {"aggregates": one["aggregates"] * 2}
    every_cohort = {"without_cohorts": list(range(1000))}
    three = {"aggregates": both["aggregates"] + over["aggregates"]}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"source": one, **NO_VALUES}, "give a list of candidates"),
        ({"source": twice}, "overlap: reports would count twice"),
        ({"source": three}, "overlap: reports would count twice"),
        ({"source": one, **SERIES}, "a series needs two or more"),
        ({"source": undated, **SERIES}, "has no first_day and last_day"),
        ({"operation": "compare", "before": one, "source": both}, "overlap"),
        ({"operation": "compare", "before": two, "source": over}, "overlap"),
        ({"source": one, "options": every_cohort}, "cohort 8 is not one of 0 to 7"),
    ]
    for spec, words in cases:
        assert words in reason(idle, {"candidates": VALUES} | spec, tmp_path), spec


def test_series_without_days_take_all_closed(idle: Running, tmp_path: Path) -> None:
    """Days as in the form; with one end, from there or until there."""
    with idle.client("ana") as ana:
        listed = ana.post("/v1/lists?name=w", content=b"word-0\nword-1\n").json()["id"]
        candidates = {"list": listed}
        for first, last in ((None, None), (MONDAY, None), (None, MONDAY + DAY)):
            spec = {"operation": "series", "source": window(first, last), "candidates": candidates}
            result = done(idle, ana, tmp_path, spec)
            summary = ana.get(f"/v1/results/{result}").json()["summary"]
            days = [str(MONDAY), str(MONDAY + DAY)]
            assert [one["first_day"] for one in summary["windows"]] == days, json.dumps(summary)


def test_aggregates_are_put_together_in_any_order(idle: Running, tmp_path: Path) -> None:
    """Whatever was uploaded first; before, the third lay within the sum of the first two."""
    source = of_uploads(idle, dated(0), dated(2), dated(1))
    with idle.client("ana") as ana:
        done(idle, ana, tmp_path, {"source": source, "candidates": VALUES})


def test_counts_that_are_here_ask_no_collector(idle: Running, tmp_path: Path) -> None:
    """An upload of a metric that the collector has not is decoded, while it hangs or is gone."""
    away: list[list[dict[str, Any]] | None] = [None, []]
    for number, listed in enumerate(away):
        set_metrics(idle, listed)
        with idle.client("ana") as ana:
            spec = {"source": {"aggregates": [upload(ana, STRINGS)]}, "operation": "decode"}
            submit(ana, {**spec, "candidates": {"numbers": [number, 9]}})
    assert do_jobs(idle.service, tmp_path) == 2
