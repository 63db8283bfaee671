"""Fresh turns and last known places: our code, and a second one by docs/porting.md alone."""

import hashlib
import json
import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from client_sdk.location.dwell_time import assignment_of, moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.location import Location
from tests.client.test_place_vectors import plain_draw, plain_value
from tests.client.test_vectors import plain_derive

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/v1/places_turns.json").read_text())
FILE = parse_metrics(VECTORS["metrics"]["metrics.toml"])
TABLES = tomllib.loads(VECTORS["metrics"]["metrics.toml"])["metrics"]
ACCEPTED = 7  # days, and one more, since UTC may be behind


def plain_turn(name: str, secret: str, period: int) -> tuple[int, str] | None:
    """The period and sub-metric that a device answers, of the block or round of this period."""
    table = TABLES[name]
    slots = [text.split()[0] for text in table.get("slots", ["day 0-24"])]
    window, block = table["window"], period // table["window"]
    if table.get("turn") == "fresh":
        fields = [name.encode(), block.to_bytes(8, "big")]
        word = int.from_bytes(plain_derive(bytes.fromhex(secret), "turn", fields, 8), "big")
        index = word * window * len(slots) >> 64
    else:
        index = plain_draw(secret, "phase", name, window * len(slots))
    level = table["levels"][plain_draw(secret, "level", name, len(table["levels"]))]
    slot = slots[index % len(slots)]
    return block * window + index // len(slots), f"{name}/{slot}/{level}"


def plain_reports(row: dict[str, Any]) -> list[list[Any]]:
    """Of days: the last place of a slot among its own day and those that `hold` reaches back to."""
    name, table = row["metric"], TABLES[row["metric"]]
    grid = FILE.parts(name)[0].location.grid  # type: ignore[union-attr]
    seen: dict[tuple[int, str], str] = {}
    reports, answered, now = [], set[int](), None
    for text, *point in row["steps"]:
        at = datetime.fromisoformat(text)
        today = at.date().toordinal() - date(1970, 1, 1).toordinal()
        if now is not None and today < now:
            seen = {key: value for key, value in seen.items() if key[0] < today}
        for day in range(max(today if now is None else now, today - ACCEPTED - 1), today):
            due = plain_due(name, row["secret"], day)
            if day in answered or due is None:
                continue
            answered.add(day)
            slot, level = due.split("/")[1:]
            first = day - table["hold"]
            if table.get("turn") == "fresh":
                first = max(first, day // table["window"] * table["window"])
            known = [seen[d, slot] for d in range(first, day + 1) if (d, slot) in seen]
            value = known[-1].split(",")[int(level)] if known else "other"
            reports.append([due, value, day])
        now = today
        if point:
            slot = "day" if "slots" not in table else ("early" if at.hour < 12 else "late")
            cell = grid.locate(*point)
            values = [plain_value(grid.to_dict(), cell, level) for level in grid.levels]
            seen.setdefault((today, slot), ",".join(values))
    return reports


def plain_due(name: str, secret: str, day: int) -> str | None:
    if TABLES[name]["mode"] == "memo":
        return f"{name}/day/0"
    turn = plain_turn(name, secret, day)
    return turn[1] if turn is not None and turn[0] == day else None


def test_params_ids_digest_turn_and_hold_where_new() -> None:
    expected = VECTORS["metrics"]["expected"]
    assert list(FILE.metrics) == list(expected)
    for name, row in expected.items():
        table = TABLES[name.split("/")[0]]
        assert FILE.metrics[name].params_id == row["params_id"]
        assert FILE.metrics[name].lifetime_epsilon == pytest.approx(row["lifetime_epsilon"])
        location = row["meaning"]["location"]
        fresh = "fresh" if table.get("turn") == "fresh" else None
        assert (location.get("turn"), location.get("hold")) == (fresh, table.get("hold"))
        text = json.dumps(row["meaning"], sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest()[:32] == row["params_id"]


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
    name, secret = row["metric"], row["secret"]
    duty, window = assignment_of(bytes.fromhex(secret), FILE.parts(name)), TABLES[name]["window"]
    for block, turns in row["turns_by_block"].items():
        first = int(block) * window
        found = [[p, sub] for p in range(first, first + window) for _, sub in duty.due(p)]
        turn = plain_turn(name, secret, first)
        assert found == turns == [list(turn)]


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
    assert sent == row["reports"] == plain_reports(row)


def test_the_ledger_counts_by_block() -> None:
    script, table = VECTORS["limits"], TABLES["fresh"]
    recorder = Recorder(FILE.metrics, MemoryState(bytes.fromhex(script["secret"])))
    taken, days, by_distance = set[int](), list[int](), 0
    for operation in script["operations"]:
        day = (date.fromisoformat(operation["day"]) - date(1970, 1, 1)).days
        block = day // table["window"]
        full = block in taken or len(taken) == table["max_reports"]
        outcome = recorder.record(operation["metric"], "other", day * 86_400.0)
        assert outcome == operation["outcome"] == ("full" if full else "queued"), operation
        near = any(abs(day - other) < table["window"] for other in days)
        apart = "full" if near or len(days) == table["max_reports"] else "queued"
        by_distance += outcome != apart
        if outcome == "queued":
            taken.add(block)
            days.append(day)
    assert by_distance  # who counts the days between two reports is told apart
