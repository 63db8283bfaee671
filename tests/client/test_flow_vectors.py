"""The Python SDK against the vectors of flows, which all clients share."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from client_sdk.location.dwell_time import moment_of
from client_sdk.location.recorder import visits_of
from client_sdk.randomization.metric_encoder import MetricEncoder
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled, read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.flow import flow_symbol
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.test_vectors import check_expected

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "flows.json").read_text())
FILE = parse_metrics(VECTORS["metrics"]["metrics.toml"])
HEXAGONS = parse_metrics(VECTORS["h3"]["metrics"]["metrics.toml"])


@pytest.mark.parametrize(("file", "rows"), [(FILE, VECTORS), (HEXAGONS, VECTORS["h3"])])
def test_the_vectors_are_what_the_core_says(file: MetricsFile, rows: dict[str, Any]) -> None:
    assert json.loads(json.dumps(compiled(file))) == rows["metrics"]["document"]
    for row in rows["sides"]:
        flow = file.metrics[row["metric"]].details
        assert [list(flow.cells), list(flow.zones), list(flow.zone_of)] == [
            row["cells"], row["zones"], row["zone_of"],
        ]  # fmt: skip
        assert {q: flow.num_classes(q) for q in row["classes"]} == row["classes"]
    for row in rows["pairs"]:
        flow = (metric := file.metrics[row["metric"]]).details
        o, d = ([*flow.cells, "other", "no_data"].index(x) for x in row["value"].split(">"))
        assert flow.pair_text(o, d) == row["value"]
        assert {q: flow.class_of(q, o, d) for q in row["classes"]} == row["classes"]
        metres = None if max(o, d) >= len(flow.cells) else flow.meters(o, d)
        assert metres == row["metres"]
        bits = [metric.value_bits(row["value"], c) for c in range(len(row["symbols"]))]
        assert bits == [1 << one for one in row["symbols"]]


def test_params_ids_digest_the_details() -> None:
    check_expected(FILE, VECTORS["metrics"]["expected"])


def test_good_compiled_texts_are_read_and_bad_refused() -> None:
    read = read_compiled(json.dumps(VECTORS["metrics"]["document"]))
    assert read == parse_metrics(VECTORS["metrics"]["metrics.toml"])
    for row in VECTORS["bad_metrics"]:
        with pytest.raises(MetricsFileError) as error:
            parse_metrics(row["metrics.toml"])
        assert str(error.value) == row["error"]


def test_symbols_of_classes_in_any_cohort() -> None:
    for row in VECTORS["hashed"]:
        asked = row["question"], row["class"], row["cohort"]
        assert flow_symbol(FILE.metrics["commute"].params, *asked) == row["symbol"]


@pytest.mark.parametrize("row", VECTORS["lives"], ids=lambda row: f"{row['metric']}: {row['what']}")
def test_lives(row: dict[str, Any]) -> None:
    """Close and open the app between any two steps, and compare what is sent before any coin."""
    secret, saved, sent = bytes.fromhex(row["secret"]), None, list[list[Any]]()
    device = MetricEncoder(FILE.metrics[row["metric"]], secret, bytes)
    assert device.cohort == row["cohort"]

    def send(_: str, value: str, day: int) -> None:
        sent.append([value, day, device.value_bits(value).bit_length() - 1])

    for text, *point in row["steps"]:
        visits = visits_of(FILE.parts(row["metric"]), secret, send, saved)
        moment = moment_of(datetime.fromisoformat(text))
        if not point:
            visits.look(moment)
        elif visits.refuses(moment, moment) is None:
            visits.fix(*point, moment)
        saved = visits.to_json()
    assert sent == row["reports"]


def test_the_turns_of_devices_that_only_look() -> None:
    for row in VECTORS["turns"]:
        name, days = row["metric"], list[int]()
        visits = visits_of(
            FILE.parts(name), bytes.fromhex(row["secret"]), lambda *sent, d=days: d.append(sent[2])
        )
        for day in range({"commute": 800, "daily": 30, "moved": 30, "everyday": 9}[name]):
            visits.look(moment_of(datetime(2026, 11, 2, 12, tzinfo=UTC) + timedelta(day)))
        assert days == row["days"]


def test_one_ledger_entry_for_all_answers() -> None:
    for row in VECTORS["digests"]:
        device = MetricEncoder(FILE.metrics[row["metric"]], bytes.fromhex(row["secret"]), bytes)
        found = {device.digest(1 << one) for one in range(device.metric.params.num_bits)}
        assert found == {bytes.fromhex(row["digest"])}
