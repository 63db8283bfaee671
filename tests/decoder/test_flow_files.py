"""Flows from an aggregate to files, a page and a terminal: what each holds, and what is refused."""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from decoder.errors import CountsError, DecodeError, OutputError
from decoder.formats.density_inputs import read_known_flows
from decoder.kinds.flow import KIND
from decoder.kinds.result import Question, Result
from decoder.kinds.run import claim, write_result
from decoder.options import FlowOptions
from decoder.output.flows_view import placed_flows
from decoder.progress import silent
from decoder.sources.aggregates import AggregateFiles, check_metric
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from simulations.flows import city_matrix, city_metric, draw_flows
from tests.decoder.flow_support import decode_flows_once
from tests.map_pages import data_of, markup

METRIC = city_metric(4.0, 100_000, rows=2, columns=2)  # zones; 16 cells
FLOWS_COLUMNS = ["origin", "destination", "origin_name", "destination_name", "km", "estimate",
                 "std_error", "low", "high", "detected", "flow_share", "gravity",
                 "note"]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _decoded_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("decoder.kinds.flow.decode_flows", decode_flows_once)
        yield


def city_counts() -> Aggregate:
    matrix = city_matrix(METRIC.details, np.random.default_rng(1))
    days = date(2026, 11, 1), date(2026, 11, 30)
    return draw_flows(METRIC, matrix, 100_000, np.random.default_rng(1), days)


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flows") / "commute.json"
    path.write_text(city_counts().to_json(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(counts: Path) -> Path:
    out = counts.parent / "out"
    assert main(["flows", "commute", "--aggregate", str(counts), "-o", str(out)]) == 0
    return out


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_flows_csv_has_every_pair(folder: Path) -> None:
    rows = table(folder / "flows.csv")
    sides = METRIC.details.num_sides
    assert list(rows[0])[: len(FLOWS_COLUMNS)] == FLOWS_COLUMNS
    assert [(row["origin"], row["destination"]) for row in rows] == [
        (a, b) for a in METRIC.details.side_names for b in METRIC.details.side_names
    ]
    assert sum(float(row["flow_share"]) for row in rows) == pytest.approx(1)
    assert len(rows) == sides**2
    other = next(row for row in rows if row["origin"] == "other")
    assert other["km"] == ""
    frame = parquet.read_table(folder / "flows.parquet").to_pylist()
    assert [float(row["estimate"]) for row in rows] == [row["estimate"] for row in frame]
    assert {row["detected"] for row in rows} == {"true", "false"}
    assert all(float(row["low"]) > 0 for row in rows if row["detected"] == "true")


def test_a_note_says_where_the_guess_lies_outside(folder: Path) -> None:
    for row in table(folder / "flows.csv"):
        outside = not float(row["low"]) <= float(row["flow_share"]) <= float(row["high"])
        assert ("lies outside the interval" in row["note"]) == outside
        assert ("not detected" in row["note"]) == (row["detected"] == "false")


def test_lines_are_told_and_largest_other_flows(folder: Path) -> None:
    features = json.loads((folder / "flows.geojson").read_text())["features"]
    reply = [row for row in table(folder / "flows.csv") if row["detected"] == "true"]
    assert len([one for one in features if one["properties"]["detected"]]) == len(reply) > 0
    assert len(features) == len(reply) + 200
    for one in features:
        shape, known = one["geometry"], one["properties"]
        assert shape["type"] == ("Point" if known["km"] == 0 else "LineString")
        ends = [shape["coordinates"]] if known["km"] == 0 else shape["coordinates"]
        assert all(-74.11 < x < -73.85 and 40.63 < y < 40.83 for x, y in ends)
        assert 1 <= known["width"] <= 12
    assert max(one["properties"]["width"] for one in features) == 12


def test_only_what_is_told_is_solid(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!#)", markup(page))  # nothing from a network
    found = json.loads((folder / "results.json").read_text())
    reply = sum(row["detected"] for row in found["flows"])
    (shown,) = data_of(page)["maps"]
    assert shown["detected"] == list(range(reply))


def test_flows_under_a_distance_are_not_shown(counts: Path) -> None:
    read = AggregateFiles((counts,)).read()
    flows = KIND.decode(read, Question(flows=FlowOptions(3.0, 5))).content["flows"]
    assert all(row["km"] >= 3 for row in flows)
    assert sum(not row["detected"] for row in flows) == 5


CELL = METRIC.details.cells[0]


def census(folder: Path, *lines: str) -> Path:
    path = folder / "census.csv"
    path.write_text("\n".join(["origin,destination,count", *lines]) + "\n", encoding="utf-8")
    return path


def test_a_census_is_read_by_names_of_cells(tmp_path: Path) -> None:
    flow, notes = METRIC.details, list[str]()
    a, b = flow.cells[:2]
    path = census(tmp_path, f"{a},{b},30", f"{a},{b},10", f"Elsewhere,{b},7")
    known = read_known_flows(path, flow, notes.append).reshape(flow.num_sides, -1)
    assert known[0, 1] == 40
    assert known[len(flow.cells), 1] == 7  # other
    assert known.sum() == 47
    assert "Elsewhere" in notes[0]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("x,y,5",), "no count of a pair of this metric's cells"),
        ((f"{CELL},{CELL},-1",), "line 2, column 'count': '-1'"),
        ((f"{CELL},{CELL},nan",), "line 2, column 'count': 'nan'"),
    ],
)
def test_a_bad_census_is_refused(tmp_path: Path, lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(CountsError, match=re.escape(said)):
        read_known_flows(census(tmp_path, *lines), METRIC.details)
    bad = tmp_path / "columns.csv"
    bad.write_text("from,to,count\n1,2,3\n")
    with pytest.raises(CountsError, match="no column 'origin', 'destination'"):
        read_known_flows(bad, METRIC.details)


def test_what_cannot_be_is_refused_in_words(counts: Path, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="the counts are of metric 'commute', not of 'walks'"):
        check_metric(AggregateFiles((counts,)).read(), "walks")
    (tmp_path / "flows.csv").write_text("mine")
    with pytest.raises(OutputError, match="so it is not replaced"):
        claim(tmp_path, KIND)
    other = replace(city_counts(), definition={"kind": "string"})
    with pytest.raises(DecodeError, match="is of kind 'string', and has no flows"):
        KIND.decode([other], Question())


def written(counts: Aggregate, folder: Path) -> Result:
    found = KIND.decode([counts], Question())
    write_result(found, KIND, "decode", folder, silent)
    return found


def test_moves_give_shares_and_no_matrix(tmp_path: Path) -> None:
    moves = city_metric(4.0, 100_000, rows=2, columns=2, to="night 22-6", lag=3)
    matrix = city_matrix(moves.details, np.random.default_rng(1))
    drawn = draw_flows(moves, matrix, 50_000, np.random.default_rng(5))
    answer = written(drawn, tmp_path)
    assert answer.content["flows"] == answer.content["zones"] == []
    assert table(tmp_path / "flows.csv") == []
    assert "moved to another cell" in (tmp_path / "report.html").read_text()
    assert "moved to another cell" in answer.summary["headline"]


def test_questions_without_reports_leave_a_page(tmp_path: Path) -> None:
    """What no answer reveals is from 0 to 1; one report asks one question."""
    metric = city_metric(2.0, 1_000, rows=2, columns=2)
    matrix = city_matrix(metric.details, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    drawn = draw_flows(metric, matrix, 20, rng, questions=frozenset({"home"}))
    answer = written(drawn, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "None" not in page
    assert "no report answers the question" in page
    assert answer.content["num_detected"] == 0
    assert answer.content["detectable_share"] <= 1
    assert answer.content["forged_shift"] <= 1
    assert {(row["low"], row["high"]) for row in answer.content["bands"]} == {(0.0, 1.0)}


def test_a_line_is_cut_at_180_degrees() -> None:
    row = {"origin": "a", "destination": "b", "detected": True, "flow_share": 0.1, "low": 0.05,
           "high": 0.2}  # fmt: skip
    centers = {"a": (10.0, 179.5), "b": (12.0, -179.5)}
    ((shape, _),) = placed_flows([row], centers, "m")
    assert shape == {
        "type": "MultiLineString",
        "coordinates": [[[179.5, 10.0], [180.0, 11.0]], [[-180.0, 11.0], [-179.5, 12.0]]],
    }
