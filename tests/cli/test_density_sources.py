"""What `rappor density` asks of a collector, and what it makes of the answers."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from decoder.density.cells import places_of
from decoder.errors import RemoteError
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.cli.density_support import DAY, DECLARED


class Blocks:
    """A collector that serves each sub-metric from and until days of its own, in blocks."""

    def __init__(self, text: str, served: dict[str, list[tuple[int, int]]]) -> None:
        self.metrics = parse_metrics(text).metrics
        self.served = served
        self.period = "day"
        self.rng = np.random.default_rng(0)

    def listed(self, *_: object) -> dict[str, object]:
        rows = []
        for name, found in self.served.items():
            days = [str(DAY + timedelta(day)) for day in (found[0][0], found[-1][1])]
            served = dict(zip(("first_day", "last_day"), days, strict=True))
            rows.append({"name": name, "definition": {"period": self.period}, "served": served})
        return {"metrics": rows}

    def fetch(self, _: str, name: str, *, first: date, last: date) -> Aggregate:
        start, end = ((day - DAY).days for day in (first, last))
        inside = [(a, b) for a, b in self.served[name] if start <= a and b <= end]
        if end > self.served[name][-1][1] or not inside:
            raise RemoteError("not served", {"reason": "no_reports"})
        metric = self.metrics[name]
        assert metric.location is not None
        values = list(places_of([metric.location]).finest)
        shares = np.full(len(values), 1 / len(values))
        found, _ = draw_aggregate(values, shares, 4_000, metric.params, self.rng, name)
        days = [DAY + timedelta(day) for day in (inside[0][0], inside[-1][1])]
        return replace(found, definition=metric.to_dict(), params_id=metric.params_id,
                       first_day=days[0], last_day=days[1])  # fmt: skip


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Blocks:
    """Two levels and two slots, whose days were merged and sealed differently."""
    weeks = [(0, 6), (7, 13), (14, 20)]
    late = [(3, 6), (7, 11), (14, 17)]
    found = Blocks(
        DECLARED.replace("levels = [0]", "levels = [0, 1]"),
        {"places/night/0": weeks, "places/night/1": late, "places/day/0": late,
         "places/day/1": weeks[:2], "elsewhere/day/0": [(0, 30)]},
    )  # fmt: skip
    monkeypatch.setattr("decoder.sources.aggregates.ask_json", found.listed)
    monkeypatch.setattr("decoder.sources.aggregates.fetch_aggregate", found.fetch)
    return found


def test_slots_and_levels_share_the_asked_windows(
    blocks: Blocks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever days of a window have been merged or served of each: one map a slot and window."""
    assert main(["density", "places", "--collector", "http://127.0.0.1:9", "--by", "week", "--json",
                 "-o", str(tmp_path), "--method", "simplex"]) == 0  # fmt: skip
    told = capsys.readouterr()
    rows = json.loads(told.out)["rows"]
    found: dict[str, set[tuple[int, int]]] = {}
    for row in rows:
        days = tuple((date.fromisoformat(row[key]) - DAY).days for key in ("first_day", "last_day"))
        found.setdefault(row["slot"], set()).add(days)  # type: ignore[arg-type]
    assert {slot: sorted(days) for slot, days in found.items()} == {
        "night": [(0, 6), (7, 13), (14, 20)], "day": [(0, 6), (7, 13)],
    }  # fmt: skip
    assert {row["reports"] for row in rows} == {8_000}
    assert {row["cell"][0] for row in rows} == {"1", "o"}
    assert "'day', 2026-11-16 to 2026-11-22: left out, as it has no reports" in told.err


def test_days_without_period_ends_are_not_asked(
    blocks: Blocks, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reports of a week are dated by its Sunday: 2 November 2026 is a Monday."""
    blocks.period = "week"
    blocks.served = {name: [(6, 6), (13, 13)] for name in list(blocks.served)[:4]}
    assert main(["density", "places", "--collector", "http://127.0.0.1:9", "--by", "day", "--json",
                 "--method", "simplex"]) == 0  # fmt: skip
    told = capsys.readouterr()
    assert told.err == ""
    assert {row["first_day"] for row in json.loads(told.out)["rows"]} == {
        "2026-11-08",
        "2026-11-15",
    }


@pytest.mark.parametrize(
    ("metric", "window", "said"),
    [
        ("place", [], ["'place' is known here", "elsewhere, places"]),
        ("places", ["--from", "2026-12-24"], ["2026-11-02 to 2026-11-22", "2026-12-24"]),
        ("elsewhere", [], ["17 reports", "min_reports", "rappor close DAY"]),
    ],
)
def test_absent_maps_have_reasons(
    metric: str,
    window: list[str],
    said: list[str],
    blocks: Blocks,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = blocks.listed()
    *_, elsewhere = listed["metrics"]  # type: ignore[misc]
    elsewhere.update(served=None, accepted=17)
    monkeypatch.setattr("decoder.sources.aggregates.ask_json", lambda *_: listed)
    assert main(["density", metric, "--collector", "http://127.0.0.1:9", *window]) == 1
    told = capsys.readouterr().err
    assert all(words in told for words in said), told


def test_a_failing_collector_leaves_no_partial_map(
    blocks: Blocks, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a window that is not served may be left out."""
    asked: list[str] = []

    def dies(*about: object, **window: date) -> Aggregate:
        asked.append(str(about[1]))
        if len(asked) > 3:
            raise RemoteError("no collector answers at http://127.0.0.1:9: gone")
        return blocks.fetch(*about, **window)  # type: ignore[arg-type]

    monkeypatch.setattr("decoder.sources.aggregates.fetch_aggregate", dies)
    assert main(["density", "places", "--collector", "http://127.0.0.1:9", "--by", "week"]) == 1
    assert "gone" in capsys.readouterr().err
    assert len(asked) == 4


def test_reports_of_an_older_version_are_told(
    blocks: Blocks, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would seem to be lost after `rappor metrics push`."""
    now = blocks.listed()
    rows: list[dict[str, object]] = now["metrics"]  # type: ignore[assignment]
    older = [row | {"params_id": "0ff1ce"} for row in rows if row["name"] == "places/day/0"]
    for row in rows:
        row["params_id"] = "ab"
    monkeypatch.setattr(
        "decoder.sources.aggregates.ask_json", lambda *_: {"metrics": [*older, *rows]}
    )
    asked = ["density", "places", "--collector", "http://127.0.0.1:9", "--method", "simplex"]
    assert main(asked) == 0
    way_out = "rappor aggregate places/day/0 --params-id 0ff1ce -o FILE"
    assert "left out: older versions of 'places'" in (told := capsys.readouterr().err)
    assert way_out in told
    for row in rows:
        row.update(served=None, accepted=0)
    assert main(asked) == 1
    assert way_out in capsys.readouterr().err
