"""The vectors of places: our code, and a second one by docs/porting.md alone."""

import hashlib
import json
import math
import tomllib
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import h3
import pytest

from client_sdk.location.dwell_time import assignment_of, moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.randomization.metric_encoder import SymbolCoin
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_core.errors import MetricsFileError, ValueRefusedError
from rappor_core.grid.grid import Grid
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.file import parse_metrics
from tests.client.test_vectors import check_response, plain_derive

FOLDER = Path(__file__).parents[1] / "vectors" / "v1"
VECTORS = json.loads((FOLDER / "places.json").read_text())
TOML = VECTORS["metrics"]["metrics.toml"]
FILE = parse_metrics(TOML)
TABLES = tomllib.loads(TOML)["metrics"]
ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"
EPOCH = date(1970, 1, 1)


def plain_cell(grid: dict[str, Any], latitude: float, longitude: float) -> int | None:
    """The finest cell of a point, or None outside the box."""
    south, west, north, east = grid["box"]
    longitude = longitude if west <= longitude <= east else (longitude + 180) % 360 - 180
    over = west > east
    if longitude == -180 and west > -180 and not over:
        longitude = 180.0
    across = longitude >= west or longitude <= east if over else west <= longitude <= east
    if not (south <= latitude <= north and across):
        return None
    level = grid["levels"][-1]
    if grid["kind"] == "h3":
        return int(h3.latlng_to_cell(latitude, longitude, level), 16)
    if grid["kind"] == "square":
        rows, columns = grid["rows"] << level, grid["columns"] << level
        width = east - west + (360 if over else 0)
        row = min(int((latitude - south) / (north - south) * rows), rows - 1)
        ahead = longitude - west + (360 if over and longitude < west else 0)
        return row * columns + min(int(ahead / width * columns), columns - 1)
    turn = (longitude + 180) / 360
    if grid["kind"] == "quadkey":
        down = 0.5 - math.asinh(math.tan(math.radians(latitude))) / (2 * math.pi)
        size = 2**level
        x, y = (min(max(int(part * size), 0), size - 1) for part in (turn, down))
        return int("".join(f"{y >> i & 1}{x >> i & 1}" for i in reversed(range(level))), 2)
    up, code = (latitude + 90) / 180, 0
    for place in range(5 * level):  # the bits of longitude and latitude take turns
        turn, up, turns = (turn, up, turn) if place % 2 == 0 else (turn, up, up)
        code = code << 1 | (turns >= 0.5)
        halved = min(turns * 2 % 1, 1.0) if turns < 1 else 1.0
        turn, up = (halved, up) if place % 2 == 0 else (turn, halved)
    return code


def plain_value(grid: dict[str, Any], cell: int | None, level: int) -> str:
    """What is encoded for a finest cell at a level."""
    steps = grid["levels"][-1] - level
    if cell is None:
        return "other"
    if grid["kind"] == "h3":
        return str(h3.cell_to_parent(f"{cell:x}", level))
    if grid["kind"] == "quadkey":
        return "".join(str(cell >> 2 * (i + steps) & 3) for i in reversed(range(level)))
    if grid["kind"] == "geohash":
        return "".join(ALPHABET[cell >> 5 * (i + steps) & 31] for i in reversed(range(level)))
    row, column = divmod(cell, grid["columns"] << grid["levels"][-1])
    return f"{level}-{row >> steps}-{column >> steps}"


def plain_draw(secret: str, purpose: str, name: str, choices: int) -> int:
    word = plain_derive(bytes.fromhex(secret), purpose, [name.encode()], 8)
    return int.from_bytes(word, "big") * choices // 2**64


def plain_slots(name: str) -> list[tuple[str, int, int, str]]:
    """Name, first hour, last hour and days of each slot."""
    rows = []
    for text in TABLES[name].get("slots", ["day 0-24"]):
        slot, hours, *days = text.split()
        first, last = map(int, hours.split("-"))
        rows.append((slot, first, last, days[0] if days else "all"))
    return rows


def plain_slot(name: str, at: datetime) -> str | None:
    for slot, first, last, days in plain_slots(name):
        inside = first <= at.hour < last if first < last else at.hour >= first or at.hour < last
        if inside and days in ("all", "weekends" if at.weekday() >= 5 else "weekdays"):
            return slot
    return None


def plain_period(period: str, day: date) -> int:
    weeks = (day.toordinal() - 1) // 7
    months = day.year * 12 + day.month - 1
    return {"day": (day - EPOCH).days, "week": weeks, "month": months}[period]


def plain_last_day(period: str, day: date) -> int:
    """Of the period that a day is in: days are tried until one is in the next."""
    while plain_period(period, day + timedelta(1)) == plain_period(period, day):
        day += timedelta(1)
    return (day - EPOCH).days


def plain_duty(name: str, secret: str) -> tuple[int, int, int]:
    """Level, and every how many (period, slot) it answers, at which phase; 0: once for life."""
    table, slots = TABLES[name], len(plain_slots(name))
    every = {"memo": 1, "window": table.get("window", 0) * slots, "once": 0}[table["mode"]]
    level = table["levels"][plain_draw(secret, "level", name, len(table["levels"]))]
    return level, every, plain_draw(secret, "phase", name, every or slots)


def plain_due(name: str, secret: str, period: int) -> list[str]:
    (level, every, phase), slots = plain_duty(name, secret), plain_slots(name)
    due = [
        index
        for index in range(len(slots))
        if (index == phase if every == 0 else (period * len(slots) + index) % every == phase)
    ]
    return [f"{name}/{slots[index][0]}/{level}" for index in due]


def plain_usual(row: dict[str, Any], missing: str = "other") -> list[list[Any]]:
    """Second by second: where a device was, in which slot and period; then the largest.

    missing: what a slot and period without a fix is.
    """
    name, gap = row["metric"], timedelta(minutes=60)
    grid, unit = FILE.parts(name)[0].location.grid.to_dict(), TABLES[name].get("period", "day")  # type: ignore[union-attr]
    fixes = [(datetime.fromisoformat(at), *point) for at, *point in row["fixes"]]
    until = datetime.fromisoformat(row["until"])
    spent: dict[tuple[int, str, int | None], float] = {}
    seen, reports = None, []
    for (at, *point), following in zip(fixes, [*(f[0] for f in fixes[1:]), until], strict=True):
        period = plain_period(unit, at.date())
        if seen is not None and period < seen:
            spent.clear()
        seen = period
        cell, slot = plain_cell(grid, *point), plain_slot(name, at)
        if slot is not None:
            spent.setdefault((period, slot, cell), 1.0)
        for second in range(int(min(max(following - at, timedelta(0)), gap).total_seconds())):
            now = at + timedelta(seconds=second)
            key = plain_period(unit, now.date()), plain_slot(name, now), cell
            if key[1] is not None and key[0] == period:
                spent[key] = spent.get(key, 0.0) + 1  # type: ignore[index]
    end = plain_period(unit, until.date())
    today = (until.date() - EPOCH).days
    for period in range(seen or 0, end):
        days = (EPOCH + timedelta(number) for number in range(7_000, 40_000))
        day = next(day for day in days if plain_period(unit, day) == period)
        if plain_last_day(unit, day) + 7 + 1 < today:
            continue
        for sub_metric in plain_due(name, row["secret"], period):
            _, slot, level = sub_metric.split("/")
            here = {c: t for (p, s, c), t in spent.items() if (p, s) == (period, slot)}
            usual = max(here, key=here.__getitem__) if here else None
            value = plain_value(grid, usual, int(level)) if here else missing
            reports.append([sub_metric, value, plain_last_day(unit, day)])
    return reports


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
        plain = plain_cell(row["grid"], *point["point"])
        assert plain == cell, point
        assert [plain_value(row["grid"], plain, level) for level in grid.levels] == point["values"]
        outside += cell is None
    assert outside or row["grid"]["box"][3] == 180


@pytest.mark.parametrize("row", VECTORS["refused"], ids=lambda row: row["reason"])
def test_what_is_not_a_point(row: dict[str, Any]) -> None:
    grid = Grid.from_dict({"kind": "quadkey", "box": row["box"], "levels": [12], "rows": 0,
                           "columns": 0})  # fmt: skip
    with pytest.raises(ValueRefusedError, match=row["reason"].removeprefix("not ")):
        grid.locate(*map(float, row["point"]))


def test_names_and_params_ids() -> None:
    expected = VECTORS["metrics"]["expected"]
    names = []
    for name, table in TABLES.items():
        slots = [slot for slot, *_ in plain_slots(name)]
        names += [f"{name}/{slot}/{level}" for slot in slots for level in table["levels"]]
    assert list(FILE.metrics) == list(expected) == names
    for name, row in expected.items():
        assert FILE.metrics[name].params_id == row["params_id"]
        assert FILE.metrics[name].lifetime_epsilon == pytest.approx(row["lifetime_epsilon"])
        assert plain_place(name) == row["meaning"]["location"]
        text = json.dumps(row["meaning"], sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest()[:32] == row["params_id"]


def plain_place(name: str) -> dict[str, Any]:
    """What a location adds to the fields that `params_id` digests."""
    base, _, level = name.split("/")
    table = TABLES[base]
    grid = {key: table.get(key, 0) for key in ("rows", "columns")}
    box = list(map(float, table["box"]))
    grid |= {"kind": table["grid"], "levels": table["levels"], "box": box}
    return {
        "grid": grid,
        "level": int(level),
        "slots": table.get("slots", ["day 0-24"]),
        "mode": table["mode"],
        "window": table.get("window", 0),
        "pairs": table.get("pairs", False),
        "max_gap_minutes": table.get("max_gap_minutes", 60),
    }


@pytest.mark.parametrize("row", VECTORS["times"], ids=lambda row: row["time"])
def test_local_times(row: dict[str, Any]) -> None:
    at = datetime.fromisoformat(row["time"])
    moment, location = moment_of(at), FILE.metrics["filter/work/13"].location
    assert (moment.day, moment.hour, moment.left) == (row["day"], row["hour"], row["left_in_hour"])
    assert location.slot_at(moment.hour, row["weekend"]) == row["slot"] == plain_slot("filter", at)
    assert row["day"] == (at.date() - EPOCH).days
    assert row["weekend"] == (at.weekday() >= 5)
    for period, number in row["periods"].items():
        assert plain_period(period, at.date()) == number
        assert plain_last_day(period, at.date()) == row["last_days"][period]


@pytest.mark.parametrize("row", VECTORS["usual"], ids=lambda row: row["what"])
def test_usual_cells(row: dict[str, Any]) -> None:
    sent: list[list[Any]] = []
    parts, secret = FILE.parts(row["metric"]), bytes.fromhex(row["secret"])
    visits = Visits(parts, secret, lambda *report: sent.append(list(report)), None)
    for at, latitude, longitude in row["fixes"]:
        visits.fix(latitude, longitude, moment_of(datetime.fromisoformat(at)))
    visits.roll(moment_of(datetime.fromisoformat(row["until"])))
    assert sent == row["reports"] == plain_usual(row)


def test_which_fixes_are_taken() -> None:
    script = VECTORS["fix_times"]
    parts, secret = FILE.parts(script["metric"]), bytes.fromhex(script["secret"])
    visits = Visits(parts, secret, lambda *_: None, None)
    reported: set[int] = set()
    begun: int | None = None
    for row in script["fixes"]:
        clock, at = (datetime.fromisoformat(row[name]) for name in ("clock", "at"))
        refused = visits.refuses(moment_of(at), moment_of(clock))
        if refused is None:
            visits.fix(40.7128, -74.006, moment_of(at))
        days = [(time.date() - EPOCH).days for time in (clock, at)]
        plain = plain_refusal(*days, at - clock, begun, reported)
        assert (refused or "taken") == row["outcome"] == plain, row
        if plain == "taken":
            recent = range(max(days[1] - 8, begun or days[1]), days[1])
            reported |= set(recent)
            begun = days[1]


def plain_refusal(
    clock: int, day: int, ahead: timedelta, begun: int | None, reported: set[int]
) -> str:
    """For a metric with a period of a day; begun: the day that is being collected."""
    if ahead > timedelta(days=1):
        return "ahead"
    if date.fromordinal(day + EPOCH.toordinal()) > TABLES["filter"]["expires"]:
        return "expired"
    left_behind = day < clock and (begun is None or day < begun)
    return "late" if left_behind or (day in reported and begun and day < begun) else "taken"


@pytest.mark.parametrize("row", VECTORS["duties"], ids=lambda row: row["metric"])
def test_duties(row: dict[str, Any]) -> None:
    name, secret = row["metric"], row["secret"]
    duty = assignment_of(bytes.fromhex(secret), FILE.parts(name))
    stated = row["level"], row["every"], row["phase"]
    assert (duty.level, duty.every, duty.phase) == stated == plain_duty(name, secret)
    for period, names in row["due"].items():
        assert [sub_metric for _, sub_metric in duty.due(int(period))] == names
        assert plain_due(name, secret, int(period)) == names


def test_symbol_coins() -> None:
    for row in VECTORS["symbol_coins"]:
        kept, lie, g, own = row["kept"], row["lie"], row["num_symbols"], row["symbol"]
        random = bytes.fromhex(row["random"])
        tossed = SymbolCoin(kept, lie, g).toss(1 << own, random)
        assert tossed == 1 << row["result"]
        assert plain_symbol(kept, lie, own, random) == row["result"]


def plain_symbol(kept: int, lie: int, own: int, random: bytes) -> int:
    draw = random[0] + 256 * random[1]
    if draw < kept:
        return own
    others = [symbol for symbol in range(256) if symbol != own]
    return others[(draw - kept) // lie]


@pytest.mark.parametrize("row", VECTORS["responses"], ids=lambda row: row["metric"])
def test_responses(row: dict[str, Any]) -> None:
    check_response(FILE.metrics[row["metric"]], row)
    plain_response(row)


def plain_response(row: dict[str, Any]) -> None:
    """Cohort, digest, and both rounds of a symbol: all by the name up to the first `/`."""
    name, meaning = row["metric"].split("/")[0], VECTORS["metrics"]["expected"][row["metric"]]
    encoded = bytes.fromhex(row["encoded_bits"])
    fields = [name.encode(), bytes.fromhex(meaning["params_id"]), encoded]
    secret, fields_of = bytes.fromhex(row["secret"]), meaning["meaning"]
    assert plain_draw(row["secret"], "cohort", name, fields_of["num_cohorts"]) == row["cohort"]
    assert plain_derive(secret, "ledger", fields, 16).hex() == row["ledger_digest"]
    if fields_of["encoding"] != "symbol":
        return
    own = int.from_bytes(encoded, "little").bit_length() - 1
    drawn = plain_derive(secret, "permanent", fields, 2)
    permanent = plain_symbol(fields_of["p1"], fields_of["q1"], own, drawn)
    shown = plain_symbol(fields_of["p2"], fields_of["q2"], permanent, bytes.fromhex(row["random"]))
    assert int.from_bytes(bytes.fromhex(row["permanent_bits"]), "little") == 1 << permanent
    assert int.from_bytes(bytes.fromhex(row["report_bits"]), "little") == 1 << shown


def test_the_window_lies_within_its_life() -> None:
    script = VECTORS["limits"]
    recorder = Recorder(FILE.metrics, MemoryState(bytes.fromhex(script["secret"])))
    table, taken = TABLES["window"], list[int]()
    for operation in script["operations"]:
        day = (date.fromisoformat(operation["day"]) - EPOCH).days
        outcome = recorder.record(operation["metric"], "0-0-0", day * 86_400.0)
        near = any(abs(day - other) < table["window"] for other in taken)
        plain = "full" if near or len(taken) == table["max_reports"] else "queued"
        taken += [day] if plain == "queued" else []
        assert outcome == operation["outcome"] == plain, operation


OF_PLACES = [
    json.loads((FOLDER / f"{name}.json").read_text())
    for name in ("places", "places_no_data", "places_turns")
]
BAD = [row for vectors in OF_PLACES for row in vectors["bad_metrics"]]


@pytest.mark.parametrize("vectors", OF_PLACES[1:], ids=["no data", "turns"])
def test_the_compiled_form_is_the_file(vectors: dict[str, Any]) -> None:
    file = parse_metrics(vectors["metrics"]["metrics.toml"])
    assert read_compiled(json.dumps(vectors["compiled"])).metrics == file.metrics


@pytest.mark.parametrize("row", BAD, ids=lambda row: row["reason"])
def test_metrics_that_must_fail(row: dict[str, str]) -> None:
    with pytest.raises(MetricsFileError) as caught:
        parse_metrics(row["metrics.toml"])
    assert str(caught.value) == row["error"]
