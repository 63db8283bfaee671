"""Counts of a metric that the collector has not, or of a kind that takes no such job."""

from pathlib import Path
from typing import Any

import pytest

from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import STRINGS, Running, set_metrics, submit, upload
from tests.decoder_service.test_impossible_jobs import reason


@pytest.mark.parametrize("operation", ["decode", "series"])
def test_a_job_of_an_unknown_metric_fails_with_its_name(
    idle: Running, operation: str, tmp_path: Path
) -> None:
    spec = {"operation": operation, "source": {"collector": {"metric": "hompage"}}}
    assert "hompage" in reason(idle, spec, tmp_path)


def test_counts_that_are_here_ask_no_collector(idle: Running, tmp_path: Path) -> None:
    """An upload of a metric that the collector has not is decoded, while it hangs or is gone."""
    away: list[list[dict[str, Any]] | None] = [None, []]
    for number, listed in enumerate(away):
        set_metrics(idle, listed)
        with idle.client("ana") as ana:
            spec = {"source": {"aggregates": [upload(ana, STRINGS)]}, "operation": "decode"}
            submit(ana, {**spec, "candidates": {"numbers": [number, 9]}})
    assert do_jobs(idle.service, tmp_path) == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"crowd": 9}, "crowd: not of a metric of kind string"),
        ({"map": {"split": "day"}}, "map: not of a metric of kind string"),
    ],
)
def test_what_a_kind_does_not_take_is_refused(
    idle: Running, more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    spec = {"source": {"collector": {"metric": "homepage"}}, "candidates": {"numbers": [0, 9]}}
    assert words in reason(idle, spec | more, tmp_path)
