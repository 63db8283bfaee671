"""The Python SDK against the vectors of places, which all clients share."""

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from client_sdk.location.dwell_time import assignment_of, is_weekend, moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.randomization.metric_encoder import SymbolCoin
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.errors import MetricsFileError, ValueRefusedError
from rappor_core.grid.grid import Grid
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.test_vectors import check_expected, check_response

FOLDER = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((FOLDER / "places.json").read_text())
NO_DATA = json.loads((FOLDER / "places_no_data.json").read_text())
TURNS = json.loads((FOLDER / "places_turns.json").read_text())
FILE = parse_metrics(VECTORS["metrics"]["metrics.toml"])
FILE_NO_DATA = parse_metrics(NO_DATA["metrics"]["metrics.toml"])


@pytest.mark.parametrize("row", VECTORS["cells"], ids=lambda row: row["grid"]["kind"])
def test_cells(row: dict[str, Any]) -> None:
    grid = Grid.from_dict(row["grid"])
    outside = 0
    for point in row["points"]:
        if "refused" in point:
            with pytest.raises(ValueRefusedError):
                grid.locate(*point["point"])
            continue
        cell = grid.locate(*point["point"])
        assert (None if cell is None else str(cell)) == point.get("cell")
        assert [grid.value(cell, level) for level in grid.levels] == point["values"]
        outside += cell is None
    assert outside or row["grid"]["box"][3] == 180


@pytest.mark.parametrize("row", VECTORS["refused"], ids=lambda row: row["reason"])
def test_what_is_not_a_point(row: dict[str, Any]) -> None:
    grid = Grid.from_dict({"kind": "quadkey", "box": row["box"], "levels": [12], "rows": 0,
                           "columns": 0})  # fmt: skip
    with pytest.raises(ValueRefusedError, match=row["reason"].removeprefix("not ")):
        grid.locate(*map(float, row["point"]))


def test_names_and_params_ids() -> None:
    check_expected(FILE, VECTORS["metrics"]["expected"])
    check_expected(FILE_NO_DATA, NO_DATA["metrics"]["expected"])


@pytest.mark.parametrize("row", VECTORS["times"], ids=lambda row: row["time"])
def test_local_times(row: dict[str, Any]) -> None:
    at = datetime.fromisoformat(row["time"])
    moment, location = moment_of(at), FILE.metrics["filter/work/13"].location
    assert (moment.day, moment.hour, moment.left) == (row["day"], row["hour"], row["left_in_hour"])
    assert location.slot_at(moment.hour, row["weekend"]) == row["slot"]
    assert is_weekend(moment.day) == row["weekend"]
    for period, number in row["periods"].items():
        assert period_number(period, moment.day) == number
        assert last_day(period, number) == row["last_days"][period]


@pytest.mark.parametrize(
    ("file", "row"),
    [
        pytest.param(file, row, id=f"{row['what']}{end}")
        for file, vectors, end in ((FILE, VECTORS, ""), (FILE_NO_DATA, NO_DATA, ", no data"))
        for row in vectors["usual"]
    ],
)
def test_usual_cells(file: MetricsFile, row: dict[str, Any]) -> None:
    sent: list[list[Any]] = []
    parts, secret = file.parts(row["metric"]), bytes.fromhex(row["secret"])
    visits = Visits(parts, secret, lambda *report: sent.append(list(report)), None)
    for at, latitude, longitude in row["fixes"]:
        visits.fix(latitude, longitude, moment_of(datetime.fromisoformat(at)))
    visits.roll(moment_of(datetime.fromisoformat(row["until"])))
    assert sent == row["reports"]


def test_which_fixes_are_taken() -> None:
    script = VECTORS["fix_times"]
    parts, secret = FILE.parts(script["metric"]), bytes.fromhex(script["secret"])
    visits = Visits(parts, secret, lambda *_: None, None)
    for row in script["fixes"]:
        clock, at = (datetime.fromisoformat(row[name]) for name in ("clock", "at"))
        refused = visits.refuses(moment_of(at), moment_of(clock))
        if refused is None:
            visits.fix(40.7128, -74.006, moment_of(at))
        assert (refused or "taken") == row["outcome"], row


@pytest.mark.parametrize("row", VECTORS["duties"], ids=lambda row: row["metric"])
def test_duties(row: dict[str, Any]) -> None:
    duty = assignment_of(bytes.fromhex(row["secret"]), FILE.parts(row["metric"]))
    assert (duty.level, duty.every, duty.phase) == (row["level"], row["every"], row["phase"])
    for period, names in row["due"].items():
        assert [sub_metric for _, sub_metric in duty.due(int(period))] == names


def test_symbol_coins() -> None:
    for row in VECTORS["symbol_coins"]:
        kept, lie, g, own = row["kept"], row["lie"], row["num_symbols"], row["symbol"]
        random = bytes.fromhex(row["random"])
        tossed = SymbolCoin(kept, lie, g).toss(1 << own, random)
        assert tossed == 1 << row["result"]


def test_responses() -> None:
    for file, vectors in ((FILE, VECTORS), (FILE_NO_DATA, NO_DATA)):
        for row in vectors["responses"]:
            check_response(file.metrics[row["metric"]], row)


def test_in_a_list_no_data_is_the_last_bit() -> None:
    bits = {row["value"]: int.from_bytes(bytes.fromhex(row["encoded_bits"]), "little")
            for row in NO_DATA["responses"] if row["metric"] == "window/late/0"}  # fmt: skip
    assert bits["other"] == bits["not a cell"] == 1 << 12
    assert bits["no_data"] == 1 << 13


def test_the_window_lies_within_its_life() -> None:
    script = VECTORS["limits"]
    recorder = Recorder(FILE.metrics, MemoryState(bytes.fromhex(script["secret"])))
    for operation in script["operations"]:
        now = day_of(date.fromisoformat(operation["day"])) * 86_400.0
        outcome = recorder.record(operation["metric"], "0-0-0", now)
        assert outcome == operation["outcome"], operation


BAD = [row for vectors in (VECTORS, NO_DATA, TURNS) for row in vectors["bad_metrics"]]


@pytest.mark.parametrize("vectors", [NO_DATA, TURNS], ids=["no data", "turns"])
def test_the_compiled_form_is_the_file(vectors: dict[str, Any]) -> None:
    file = parse_metrics(vectors["metrics"]["metrics.toml"])
    assert read_compiled(json.dumps(vectors["compiled"])).metrics == file.metrics


@pytest.mark.parametrize("row", BAD, ids=lambda row: row["reason"])
def test_metrics_that_must_fail(row: dict[str, str]) -> None:
    with pytest.raises(MetricsFileError) as caught:
        parse_metrics(row["metrics.toml"])
    assert str(caught.value) == row["error"]
