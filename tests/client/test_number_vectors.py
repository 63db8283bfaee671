"""The vectors of numbers: what is written now, and a second implementation of docs/porting.md."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from client_sdk.numbers import Collected, NumberRecorder
from client_sdk.randomization.key_derivation import jitter_of as sdk_jitter_of
from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.errors import MetricsFileError, RapporError
from rappor_core.metrics.compiled import compiled, read_compiled
from rappor_core.metrics.file import parse_metrics
from tests.client.test_place_vectors import plain_draw
from tests.client.test_vectors import plain_derive

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "numbers.json").read_text())
METRICS = parse_metrics(VECTORS["metrics"]["metrics.toml"]).metrics
DAY = 86_400.0
WRITTEN = VECTORS["metrics"]["document"]["metrics"]
DEFINITIONS = {row["definition"]["name"]: row["definition"] for row in WRITTEN}
IDS = {row["definition"]["name"]: row["params_id"] for row in WRITTEN}


def asked(definition: dict[str, Any]) -> list[Any]:
    details = definition["details"]
    edges = list(details["edges"])
    if details["ask"] == "edges" and edges[0] == 0:
        edges = edges[1:]
    return ["data", *edges] if details["none"] == "apart" else edges


def cuts(definition: dict[str, Any], cohort: int, jitter: float) -> list[float]:
    details, questions = definition["details"], asked(definition)
    stride = math.ceil(len(questions) / (definition["params"]["num_bits"] - 1))
    found = []
    for cut in questions[cohort % stride :: stride]:
        moved = -math.inf if cut == "data" else cut
        edges = details["edges"]
        if details["ask"] == "mean" and cut not in ("data", edges[-1]):
            after = edges[edges.index(cut) + 1]
            if details["scale"] == "log":
                low, high = math.log(cut), math.log(after)
                moved = math.exp(low + jitter * (high - low))
            else:
                moved = cut + jitter * (after - cut)
        found.append(moved)
    return found


def symbol(definition: dict[str, Any], cohort: int, jitter: float, value: Any) -> int:
    if value is None:
        if definition["details"]["none"] == "apart":
            return 0
        value = 0
    return sum(cut <= float(value) for cut in cuts(definition, cohort, jitter))


def jitter_of(secret: bytes, definition: dict[str, Any], params_id: str) -> float:
    if definition["details"]["ask"] != "mean":
        return 0.0
    fields = [definition["name"].encode(), bytes.fromhex(params_id)]
    word = int.from_bytes(plain_derive(secret, "jitter", fields, 8), "big")
    return (word >> 11) / 2**53


def made(of_period: str, numbers: list[float]) -> float | None:
    if not numbers:
        return None
    return {
        "sum": sum(numbers),
        "count": len(numbers),
        "mean": sum(numbers) / len(numbers),
        "median": sorted(numbers)[len(numbers) // 2],
        "max": max(numbers),
        "last": numbers[-1],
    }[of_period]


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


def test_questions_jitters_and_symbols_by_the_text() -> None:
    assert {name: asked(one) for name, one in DEFINITIONS.items()} == VECTORS["asked"]
    for row in VECTORS["jitters"]:
        definition, secret = DEFINITIONS[row["metric"]], bytes.fromhex(row["secret"])
        assert jitter_of(secret, definition, row["params_id"]) == row["jitter"]
        assert sdk_jitter_of(secret, row["metric"], row["params_id"]) == row["jitter"]
    assert len(VECTORS["symbols"]) > 300
    for row in VECTORS["symbols"]:
        definition = DEFINITIONS[row["metric"]]
        assert symbol(definition, row["cohort"], row["jitter"], row["value"]) == row["symbol"], row
        metric = METRICS[row["metric"]]
        number, g = metric.rules.number(metric, row["value"]), metric.params.num_bits
        found = metric.details.symbol(number, row["cohort"], g, row["jitter"])
        assert found == row["symbol"], row


def test_periods_are_those_made_by_the_text() -> None:
    for row in VECTORS["collected"]:
        definition, secret = DEFINITIONS[row["metric"]], bytes.fromhex(row["secret"])
        number = made(definition["details"]["of_period"], row["numbers"])
        jitter = jitter_of(secret, definition, IDS[row["metric"]])
        assert symbol(definition, row["cohort"], jitter, number) == row["symbol"], row
        device = MetricEncoder(METRICS[row["metric"]], secret, bytes)
        collected = Collected(device, None)
        collected.begin(20_500)
        for one in row["numbers"]:
            collected.take(one)
        assert device.cohort == row["cohort"]
        assert collected.bits() == 1 << row["symbol"], row


class Device:
    """A device by the text: what it reports, before any coin."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.definition = DEFINITIONS[name]
        self.details = self.definition["details"]
        self.jitter = jitter_of(secret, self.definition, IDS[name])
        cohorts = self.definition["params"]["num_cohorts"]
        self.cohort = plain_draw(secret.hex(), "cohort", name, cohorts)
        self.phase = plain_draw(secret.hex(), "phase", name, self.details["spread"])
        self.period: int | None = None
        self.numbers: list[float] = []
        self.reports: list[list[Any]] = []

    def period_of(self, day: int) -> int:
        return (day + 719_163 - 1) // 7 if self.definition["period"] == "week" else day

    def last_day(self, period: int) -> int:
        return period * 7 + 7 - 719_163 if self.definition["period"] == "week" else period

    def look(self, day: int) -> None:
        present = self.period_of(day)
        if self.period is not None and self.period < present:
            oldest = self.period_of(day - self.definition["accept_days"])
            for period in range(max(self.period, oldest), present):
                self.close(period, self.numbers if period == self.period else [])
        if self.period != present:
            self.period, self.numbers = present, []

    def record(self, day: int, number: float) -> None:
        self.look(day)
        if self.period is not None and self.period % self.details["spread"] == self.phase:
            self.numbers.append(number)

    def close(self, period: int, numbers: list[float]) -> None:
        day = self.last_day(period)
        done = [report for report in self.reports if report[1] == day]
        once = self.details["mode"] == "once" and self.reports
        if done or once or period % self.details["spread"] != self.phase:
            return
        number = made(self.details["of_period"], numbers)
        told = symbol(self.definition, self.cohort, self.jitter, number)
        self.reports.append([self.definition["name"], day, told])


@pytest.mark.parametrize("life", VECTORS["lives"])
def test_lives_by_the_text(life: dict[str, Any]) -> None:
    devices = {name: Device(name, bytes.fromhex(life["secret"])) for name in DEFINITIONS}
    for what, day, *numbers in life["steps"]:
        if numbers:
            devices[what].record(day, numbers[0])
        else:
            for device in devices.values():
                device.look(day)
    told = sorted(report for device in devices.values() for report in device.reports)
    assert told == life["reports"] == lived(life)


def lived(life: dict[str, Any]) -> list[list[Any]]:
    """What the SDK reports in a life, before any coin."""
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
    return sorted(reports)
