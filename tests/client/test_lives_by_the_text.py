"""Devices over several versions of an app: ours, and one written from docs/porting.md alone."""

import json
import math
import tomllib
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from client_sdk.recording.bounds import agree_budget
from client_sdk.recording.ledger import Promise
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.calendar import EPOCH_ORDINAL
from rappor_core.metrics.file import parse_metrics

FOLDER = Path(__file__).parents[1] / "vectors" / "v1"
LIVES = json.loads((FOLDER / "device.json").read_text())["lives"]
TOUCHED = {"day": (1, 1, 1), "week": (7, 1, 2), "month": (31, 6, 1)}  # days, weeks, months


class PlainDevice:
    """Sections 5 and 6 of docs/porting.md, for one value a metric."""

    def __init__(self) -> None:
        self.pinned: float | None = None
        self.first: dict[str, tuple[str, int]] = {}
        self.unit: dict[str, str] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.cost: dict[str, float] = {}

    def open(self, text: str) -> None:
        self.file = tomllib.loads(text)
        declared = self.file.get("budget", math.inf)
        self.pinned = declared if self.pinned is None else min(self.pinned, declared)
        self.seen: set[str] = set()

    def consent(self, budget: float) -> None:
        self.pinned = budget

    @property
    def budget(self) -> float:
        return min(self.pinned, float(self.file.get("budget", math.inf)))

    def record(self, name: str, day: date) -> str:
        metric = self.file["metrics"][name]
        unit, most = metric["period"], metric["max_reports_per_period"]
        first_unit, first_most = self.first.setdefault(name, (unit, most))
        place = ("day", "week", "month").index(unit)
        if most * TOUCHED[first_unit][place] > first_most:
            return "closed"
        if self.unit.setdefault(name, unit) != unit:
            self.carry(name, unit)
        if self.counts[name, self.label(unit, day)] >= most:
            return "full"
        f, h = metric["prob_f"], metric["num_hashes"]
        cost = 2 * 2 * h * math.log((1 - f / 2) / (f / 2))  # the value and the fallback
        others = sum(spent for other, spent in self.cost.items() if other != name)
        if others + cost > self.budget:
            return "closed"
        self.cost[name] = cost
        self.counts[name, self.label(unit, day)] += 1
        return "queued"

    def carry(self, name: str, unit: str) -> None:
        """Every day of a counted period lies in a period of the new unit: add the count there."""
        before, self.unit[name] = self.unit[name], unit
        days = [date(2026, 9, 1) + timedelta(n) for n in range(200)]
        old = {period: n for (metric, period), n in self.counts.items() if metric == name}
        for period in old:
            del self.counts[name, period]
        for period, number in old.items():
            for new in {self.label(unit, day) for day in days if self.label(before, day) == period}:
                self.counts[name, new] += number

    @staticmethod
    def label(unit: str, day: date) -> str:
        year, week, _ = day.isocalendar()
        return {"day": f"{day}", "week": f"{year} w{week}", "month": f"{day:%Y-%m}"}[unit]


@pytest.mark.parametrize("life", LIVES["lives"], ids=lambda life: life["name"])
def test_a_life_of_ours(life: dict[str, Any]) -> None:
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


@pytest.mark.parametrize("life", LIVES["lives"], ids=lambda life: life["name"])
def test_a_life_by_the_text(life: dict[str, Any]) -> None:
    device = PlainDevice()
    for step in life["steps"]:
        if "open" in step:
            device.open(LIVES["versions"][step["open"]])
        elif "consent" in step:
            device.consent(step["consent"])
        else:
            outcome = device.record(step["metric"], date.fromisoformat(step["day"]))
            assert outcome == step["outcome"], step
        assert device.budget == (math.inf if step["budget"] is None else step["budget"])


@pytest.mark.parametrize("row", LIVES["weaker"])
def test_which_limit_is_weaker(row: dict[str, Any]) -> None:
    (first, n), (then, m) = row["first"], row["then"]
    place = ("day", "week", "month").index(then)
    assert (m * TOUCHED[first][place] > n) == row["weaker"]
    promises = [
        Promise(1, 1, 1, 1, 1, 0, unit, number) for unit, number in (row["first"], row["then"])
    ]
    assert bool(promises[1].weaker_than(promises[0])) == row["weaker"]
