"""The Python SDK against the vectors of a device, which all clients share."""

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from client_sdk.randomization.key_derivation import cohort_of, derive, keyed_input, secret_check
from client_sdk.randomization.metric_encoder import CoinPair, MetricEncoder
from client_sdk.recording.bounds import agree_budget
from client_sdk.recording.ledger import Promise
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.calendar import EPOCH_ORDINAL, period_number
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

FOLDER = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((FOLDER / "device.json").read_text())
LIVES = VECTORS["lives"]
METRICS = parse_metrics(json.loads((FOLDER / "metrics.json").read_text())["metrics.toml"]).metrics


@pytest.mark.parametrize("row", VECTORS["derivations"])
def test_derivations(row: dict[str, Any]) -> None:
    secret, fields = bytes.fromhex(row["secret"]), [bytes.fromhex(f) for f in row["fields"]]
    purpose, output = row["purpose"], bytes.fromhex(row["output"])
    assert keyed_input(secret, purpose.encode(), *fields).hex() == row["input"]
    assert derive(secret, purpose.encode(), *fields, length=len(output)) == output


def test_secret_checks() -> None:
    for row in VECTORS["secret_checks"]:
        secret = bytes.fromhex(row["secret"])
        assert secret_check(secret).hex() == row["check"]


def test_cohorts() -> None:
    for row in VECTORS["cohorts"]:
        secret, name, number = bytes.fromhex(row["secret"]), row["metric"], row["num_cohorts"]
        assert cohort_of(secret, name, number) == row["cohort"]


@pytest.mark.parametrize("row", VECTORS["coins"])
def test_coins(row: dict[str, Any]) -> None:
    bits, random = bytes.fromhex(row["bits"]), bytes.fromhex(row["random"])
    pair = CoinPair(row["if_one"], row["if_zero"], row["num_bits"])
    assert pair.num_bytes == len(random)
    tossed = pair.toss(int.from_bytes(bits, "little"), random)
    assert tossed.to_bytes(len(bits), "little").hex() == row["result"]


def check_expected(file: MetricsFile, expected: dict[str, Any]) -> None:
    """Compare the metrics of a file, in order, with their rows in a vector."""
    assert list(file.metrics) == list(expected)
    for name, row in expected.items():
        metric = file.metrics[name]
        assert json.loads(json.dumps(metric.meaning)) == row["meaning"]
        assert metric.params_id == row["params_id"]
        assert metric.lifetime_epsilon == pytest.approx(row["lifetime_epsilon"])


def check_response(metric: Metric, row: dict[str, Any]) -> None:
    """Compare a device that has a row's secret and random bytes with the row."""
    random = bytes.fromhex(row["random"])
    device = MetricEncoder(metric, bytes.fromhex(row["secret"]), lambda number: random[:number])
    bits, size = device.value_bits(row["value"]), metric.params.report_bytes
    found = {
        "params_id": device.params_id,
        "cohort": device.cohort,
        "encoded_bits": bits.to_bytes(size, "little").hex(),
        "permanent_bits": device.permanent_bits(bits).to_bytes(size, "little").hex(),
        "ledger_digest": device.digest(bits).hex(),
        "report_bits": device.report_bits(bits).hex(),
    }
    stated = {"encoded_bits" if name == "bloom_bits" else name: row[name] for name in row}
    assert len(found.keys() & stated) >= 4
    assert {name: stated.get(name, found[name]) for name in found} == found


@pytest.mark.parametrize("row", VECTORS["reports"])
def test_reports(row: dict[str, Any]) -> None:
    check_response(METRICS[row["metric"]], row)


def test_periods() -> None:
    for row in VECTORS["periods"]:
        day = date.fromisoformat(row["day"]).toordinal() - EPOCH_ORDINAL
        assert period_number(row["period"], day) == row["number"]


def test_the_ledgers_decisions() -> None:
    script = VECTORS["ledger"]
    metrics = parse_metrics(script["metrics.toml"])
    state = MemoryState(bytes.fromhex(script["secret"]))
    recorder = Recorder(metrics.metrics, state, budget=metrics.budget)
    for operation in script["operations"]:
        day = date.fromisoformat(operation["day"]).toordinal() - EPOCH_ORDINAL
        outcome = recorder.record(operation["metric"], operation["value"], day * 86_400.0)
        assert outcome == operation["outcome"], operation


@pytest.mark.parametrize("life", LIVES["lives"], ids=lambda life: life["name"])
def test_a_life_over_versions_of_an_app(life: dict[str, Any]) -> None:
    state, version = MemoryState(bytes.fromhex(LIVES["secret"])), 0
    for step in life["steps"]:
        if "consent" in step:
            agree_budget(state, step["consent"])
        if "metric" not in step:
            version = step.get("open", version)
            metrics = parse_metrics(LIVES["versions"][version])
            recorder = Recorder(metrics.metrics, state, budget=metrics.budget)
        else:
            day = date.fromisoformat(step["day"]).toordinal() - EPOCH_ORDINAL
            outcome = recorder.record(step["metric"], step["value"], day * 86_400.0)
            assert outcome == step["outcome"], step
        assert recorder.budget == (math.inf if step["budget"] is None else step["budget"])


@pytest.mark.parametrize("row", LIVES["weaker"])
def test_which_limit_is_weaker(row: dict[str, Any]) -> None:
    first, then = (Promise(1, 1, 1, 1, 1, 0, *row[name]) for name in ("first", "then"))
    assert bool(then.weaker_than(first)) == row["weaker"]
