"""The Python SDK against the vectors of numbers, which all clients share."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from client_sdk.numbers import Collected, NumberRecorder
from client_sdk.randomization.key_derivation import jitter_of
from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.errors import MetricsFileError, RapporError
from rappor_core.metrics.compiled import compiled, read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.number import NO_CUT

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "numbers.json").read_text())
METRICS = parse_metrics(VECTORS["metrics"]["metrics.toml"]).metrics
DAY = 86_400.0


def test_the_vectors_are_current() -> None:
    file = parse_metrics(VECTORS["metrics"]["metrics.toml"])
    assert json.loads(json.dumps(compiled(file))) == VECTORS["metrics"]["document"]
    text = json.dumps(VECTORS["metrics"]["document"])
    assert read_compiled(text) == file
    for bad in VECTORS["bad_metrics"]:
        with pytest.raises(MetricsFileError):
            parse_metrics(bad["metrics.toml"])


def test_values_that_are_refused() -> None:
    special = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    for row in VECTORS["refused"]:
        value = row["value"]
        value = special[value["special"]] if isinstance(value, dict) else value
        with pytest.raises(RapporError):
            METRICS[row["metric"]].value_bits(value, 0)


def test_questions() -> None:
    assert METRICS.keys() == VECTORS["asked"].keys()
    for name, asked in VECTORS["asked"].items():
        cuts = [NO_CUT if question == "data" else question for question in asked]
        assert list(METRICS[name].details.asked) == cuts


def test_jitters() -> None:
    for row in VECTORS["jitters"]:
        assert METRICS[row["metric"]].params_id == row["params_id"]
        secret = bytes.fromhex(row["secret"])
        assert jitter_of(secret, row["metric"], row["params_id"]) == row["jitter"]


def test_symbols() -> None:
    assert len(VECTORS["symbols"]) > 300
    for row in VECTORS["symbols"]:
        metric = METRICS[row["metric"]]
        number, g = metric.rules.number(metric, row["value"]), metric.params.num_bits
        found = metric.details.symbol(number, row["cohort"], g, row["jitter"])
        assert found == row["symbol"], row


def test_numbers_of_a_period() -> None:
    for row in VECTORS["collected"]:
        device = MetricEncoder(METRICS[row["metric"]], bytes.fromhex(row["secret"]), bytes)
        collected = Collected(device, None)
        collected.begin(20_500)
        for number in row["numbers"]:
            collected.take(number)
        assert device.cohort == row["cohort"]
        assert collected.bits() == 1 << row["symbol"], row


@pytest.mark.parametrize("life", VECTORS["lives"])
def test_lives(life: dict[str, Any]) -> None:
    """Compare what the SDK reports in a life, before any coin."""
    recorder = Recorder(METRICS, state := MemoryState(bytes.fromhex(life["secret"])))
    device, reports = NumberRecorder(METRICS, state, recorder), list[list[Any]]()
    inner = recorder.record_bits

    def noted(name: str, bits: int, day: int) -> Any:
        outcome = inner(name, bits, day)
        if outcome == "queued":
            reports.append([name, day, bits.bit_length() - 1])
        return outcome

    recorder.record_bits = noted  # type: ignore[method-assign, assignment]
    for name, day, *numbers in life["steps"]:
        if numbers:
            device.record(name, numbers[0], day * DAY)
        else:
            device.roll(day * DAY)
    assert sorted(reports) == life["reports"]
