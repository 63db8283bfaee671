"""The Python SDK against the vectors of fresh turns and last known places."""

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from client_sdk.location.dwell_time import assignment_of, moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.calendar import day_of
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.location import Location
from tests.client.test_vectors import check_expected

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/v1/places_turns.json").read_text())
FILE = parse_metrics(VECTORS["metrics"]["metrics.toml"])


def test_params_ids_digest_turn_and_hold_where_new() -> None:
    check_expected(FILE, VECTORS["metrics"]["expected"])


def test_a_file_with_neither_means_the_same() -> None:
    text = VECTORS["metrics"]["metrics.toml"].replace('turn = "fresh"\nhold = 2\n', "")
    plain = parse_metrics(text).metrics["fresh/early/0"]
    said = parse_metrics(text.replace("window = 5\n", 'window = 5\nturn = "fixed"\nhold = 0\n', 1))
    assert said.metrics["fresh/early/0"].params_id == plain.params_id
    assert {"turn", "hold"}.isdisjoint(plain.location.meaning)
    assert Location.from_dict(plain.location.to_dict()) == plain.location
    assert plain.params_id != FILE.metrics["fresh/early/0"].params_id


@pytest.mark.parametrize("row", VECTORS["duties"], ids=lambda row: row["metric"])
def test_one_turn_in_each_block(row: dict[str, Any]) -> None:
    parts = FILE.parts(row["metric"])
    duty, window = assignment_of(bytes.fromhex(row["secret"]), parts), parts[0].location.window
    for block, turns in row["turns_by_block"].items():
        first = int(block) * window
        found = [[p, sub] for p in range(first, first + window) for _, sub in duty.due(p)]
        assert found == turns


@pytest.mark.parametrize("row", VECTORS["usual"], ids=lambda row: f"{row['metric']}: {row['what']}")
def test_answers(row: dict[str, Any]) -> None:
    sent: list[list[Any]] = []
    parts, secret, saved = FILE.parts(row["metric"]), bytes.fromhex(row["secret"]), None
    for at, *point in row["steps"]:
        visits = Visits(parts, secret, lambda *report: sent.append(list(report)), saved)
        moment = moment_of(datetime.fromisoformat(at))
        if point:
            visits.fix(point[0], point[1], moment)
        else:
            visits.roll(moment)
        saved = visits.to_json()
    assert sent == row["reports"]


def test_the_ledger_counts_by_block() -> None:
    script = VECTORS["limits"]
    recorder = Recorder(FILE.metrics, MemoryState(bytes.fromhex(script["secret"])))
    for operation in script["operations"]:
        now = day_of(date.fromisoformat(operation["day"])) * 86_400.0
        outcome = recorder.record(operation["metric"], "other", now)
        assert outcome == operation["outcome"], operation
