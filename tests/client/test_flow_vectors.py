"""The vectors of flows: what is written now, and a second implementation of docs/porting.md."""

import hashlib
import json
import math
import tomllib
from datetime import UTC, date, datetime, timedelta
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
from tests.client.test_place_vectors import plain_draw
from tests.client.test_vectors import plain_derive
from tests.core.test_protocol_by_the_text import mmh3_positions

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "flows.json").read_text())
FILE = parse_metrics(VECTORS["metrics"]["metrics.toml"])
HEXAGONS = parse_metrics(VECTORS["h3"]["metrics"]["metrics.toml"])
TABLES = tomllib.loads(VECTORS["metrics"]["metrics.toml"])["metrics"]
SIDES = {row["metric"]: row for row in VECTORS["sides"]}
ASKED = ["home"] * 2 + ["work"] * 2 + ["distance"] + ["zones"] * 2 + ["pair"] * 3
EPOCH = date(1970, 1, 1).toordinal()
ACCEPTED = 7  # days, and one more, since UTC may be behind


@pytest.mark.parametrize(("file", "rows"), [(FILE, VECTORS), (HEXAGONS, VECTORS["h3"])])
def test_the_vectors_are_what_the_core_says(file: MetricsFile, rows: dict[str, Any]) -> None:
    """Also of hexagons, which the second implementation leaves out."""
    assert json.loads(json.dumps(compiled(file))) == rows["metrics"]["document"]
    for name, row in rows["metrics"].get("expected", {}).items():
        metric = file.metrics[name]
        assert (metric.params_id, metric.lifetime_epsilon) == (
            row["params_id"], row["lifetime_epsilon"],
        )  # fmt: skip
        assert json.loads(json.dumps(metric.meaning)) == row["meaning"]
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
    for name, row in VECTORS["metrics"]["expected"].items():
        table, mine = TABLES[name], dict(row["meaning"])
        details = {
            "grid": {
                "kind": table["grid"],
                "box": [float(edge) for edge in table["box"]],
                "levels": table["levels"],
                "rows": table.get("rows", 0),
                "columns": table.get("columns", 0),
            },
            "from": table["from"],
            "to": table["to"],
            "bands_km": [float(edge) for edge in table["bands_km"]],
            "mode": table["mode"],
            "spread": table.get("spread", 1),
            "window": table.get("window", 0),
            "lag": table.get("lag", 0),
            "max_gap_minutes": table.get("max_gap_minutes", 60),
        }
        symbols = table["num_symbols"]
        lie = math.ceil(2**16 / (math.exp(table["epsilon"]) + symbols - 1))
        expected = {
            "meaning_version": 1, "kind": "flow", "categories": [], "encoding": "flow_symbol",
            "hash": "mmh3", "num_bits": symbols, "num_hashes": 1,
            "num_cohorts": table["num_cohorts"], "p1": 2**16, "q1": 0,
            "p2": 2**16 - (symbols - 1) * lie, "q2": lie,
            "period": table.get("period", "day"), "details": details,
        }  # fmt: skip
        assert mine == expected
        text = json.dumps(expected, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest()[:32] == row["params_id"]
        nats = table.get("max_reports", 1) * math.log(mine["p2"] / mine["q2"])
        assert row["lifetime_epsilon"] == pytest.approx(nats)


def test_good_compiled_texts_are_read_and_bad_refused() -> None:
    read = read_compiled(json.dumps(VECTORS["metrics"]["document"]))
    assert read == parse_metrics(VECTORS["metrics"]["metrics.toml"])
    for row in VECTORS["bad_metrics"]:
        with pytest.raises(MetricsFileError) as error:
            parse_metrics(row["metrics.toml"])
        assert str(error.value) == row["error"]


def parent(name: str, table: dict[str, Any]) -> str:
    """The zone of a cell, by their names."""
    coarse, fine = table["levels"]
    if table["grid"] == "square":
        _, row, column = map(int, name.split("-"))
        step = 2 ** (fine - coarse)
        return f"{coarse}-{row // step}-{column // step}"
    return name[:coarse]


def code(name: str, table: dict[str, Any]) -> int:
    if table["grid"] == "square":
        level, row, column = map(int, name.split("-"))
        return row * table["columns"] * 2**level + column
    digits = "0123456789bcdefghjkmnpqrstuvwxyz"
    each = 4 if table["grid"] == "quadkey" else 32
    found = 0
    for letter in name:
        found = found * each + digits.index(letter)
    return found


def center(name: str, table: dict[str, Any]) -> tuple[float, float]:
    if table["grid"] == "square":
        level, row, column = map(int, name.split("-"))
        south, west, north, east = table["box"]
        rows, columns = table["rows"] * 2**level, table["columns"] * 2**level
        return (
            south + (row + 0.5) * (north - south) / rows,
            west + (column + 0.5) * (east - west) / columns,
        )
    word, level = code(name, table), len(name)
    if table["grid"] == "quadkey":
        x = sum((word >> (2 * i) & 1) << i for i in range(level))
        y = sum((word >> (2 * i + 1) & 1) << i for i in range(level))

        def latitude(row: int) -> float:
            return math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * row / 2**level))))

        return (latitude(y) + latitude(y + 1)) / 2, (x + 0.5) / 2**level * 360 - 180
    box = [-90.0, 90.0, -180.0, 180.0]
    for place in range(5 * level):
        low = 2 if place % 2 == 0 else 0
        middle = (box[low] + box[low + 1]) / 2
        box[low + (1 - (word >> (5 * level - 1 - place) & 1))] = middle
    return (box[0] + box[1]) / 2, (box[2] + box[3]) / 2


def meters(one: str, two: str, table: dict[str, Any]) -> int:
    (a, b), (c, d) = (tuple(map(math.radians, center(name, table))) for name in (one, two))
    half = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return math.floor(2 * 6_371_000 * math.asin(math.sqrt(half)) + 0.5)


def test_cells_are_ordered_and_zones_are_their_parents() -> None:
    for name, row in SIDES.items():
        table = TABLES[name]
        assert row["cells"] == sorted(row["cells"], key=lambda cell: code(cell, table))
        parents = [parent(cell, table) for cell in row["cells"]]
        zones = sorted(set(parents), key=lambda zone: code(zone, table))
        assert row["zones"] == zones
        assert row["zone_of"] == [zones.index(zone) for zone in parents]


def classes(name: str, value: str) -> dict[str, int]:
    table, row = TABLES[name], SIDES[name]
    cells, zones = row["cells"], row["zones"]
    names = [*cells, "other", "no_data"]
    first, second = value.split(">")
    o, d = names.index(first), names.index(second)
    edges = [math.floor(1000 * edge + 0.5) for edge in table["bands_km"]]
    if max(o, d) >= len(cells):
        band = len(edges) + 2
    else:
        far = meters(first, second, table)
        band = 0 if o == d else 1 + sum(far > edge for edge in edges)
    wide = [*row["zone_of"], len(zones), len(zones) + 1]
    return {
        "home": 2 * o + (o == d),
        "work": 2 * d + (o == d),
        "distance": band,
        "zones": (len(zones) + 2) * wide[o] + wide[d],
        "pair": len(names) * o + d,
    }


def symbol(name: str, question: str, number: int, cohort: int) -> int:
    if question == "distance":
        return number
    text = f"{question} {number}".encode()
    return mmh3_positions(text, cohort, TABLES[name]["num_symbols"], 1)[0]


def test_classes_and_symbols_of_pairs() -> None:
    bands = set()
    for row in VECTORS["pairs"]:
        name, table = row["metric"], TABLES[row["metric"]]
        first, second = row["value"].split(">")
        if row["metres"] is not None:
            assert meters(first, second, table) == row["metres"]
        mine = classes(name, row["value"])
        assert mine == row["classes"]
        for cohort, found in enumerate(row["symbols"]):
            question = ASKED[cohort % 10]
            assert symbol(name, question, mine[question], cohort) == found
        bands.add((name, mine["distance"]))
    assert {band for name, band in bands if name == "commute"} >= {0, 4, 5, 6, 7}


def test_symbols_of_classes_in_any_cohort() -> None:
    for row in VECTORS["hashed"]:
        asked = row["question"], row["class"], row["cohort"]
        assert symbol("commute", *asked) == row["symbol"]
        assert flow_symbol(FILE.metrics["commute"].params, *asked) == row["symbol"]


def number_of(table: dict[str, Any], day: int) -> int:
    if table.get("period", "day") == "day":
        return day
    at = date.fromordinal(day + EPOCH)
    return at.year * 12 + at.month - 1


def is_drawn(name: str, secret: str, period: int) -> bool:
    """Whether the pair that begins in a period is one that the device may answer."""
    table = TABLES[name]
    if table["mode"] == "once":
        spread = table.get("spread", 1)
        return period % spread == plain_draw(secret, "phase", name, spread)
    block, window = period // table["window"], table["window"]
    fields = [name.encode(), block.to_bytes(8, "big")]
    word = int.from_bytes(plain_derive(bytes.fromhex(secret), "turn", fields, 8), "big")
    return period % window == word * window >> 64


class PlainDevice:
    """Of metrics with periods of days, and fixes an hour apart or more."""

    def __init__(self, name: str, secret: str) -> None:
        self.name, self.secret, self.table = name, secret, TABLES[name]
        self.seen: dict[tuple[int, str], str] = {}
        self.first: int | None = None
        self.now: int | None = None
        self.answered: set[int] = set()
        self.reports: list[list[Any]] = []

    def step(self, text: str, point: list[float]) -> None:
        at = datetime.fromisoformat(text)
        today = at.date().toordinal() - EPOCH
        if point and self.now is not None and today < self.now and today in self.answered:
            return  # late
        if self.now is not None and today < self.now:
            self.seen = {key: cell for key, cell in self.seen.items() if key[0] < today}
        before = self.now if self.now is not None else today
        for day in range(max(before, today - ACCEPTED - 1), today):
            self.close(day)
        self.now = today
        self.first = today if self.first is None else min(self.first, today)
        if point:
            slot = "all" if self.table.get("lag") else ("early" if at.hour < 12 else "late")
            self.seen.setdefault((today, slot), place_of(self.name, point))

    def close(self, day: int) -> None:
        lag, most = self.table.get("lag", 0), self.table.get("max_reports", 1)
        start = day - lag
        if day in self.answered or len(self.answered) >= most:
            return
        if start < self.first or not is_drawn(self.name, self.secret, start):
            return
        slots = ("all", "all") if lag else ("early", "late")
        keys = (start, slots[0]), (day, slots[1])
        value = ">".join(self.seen.get(key, "no_data") for key in keys)
        cohort = plain_draw(self.secret, "cohort", self.name, self.table["num_cohorts"])
        question = ASKED[cohort % 10]
        number = classes(self.name, value)[question]
        self.reports.append([value, day, symbol(self.name, question, number, cohort)])
        self.answered.add(day)


def place_of(name: str, point: list[float]) -> str:
    """The cell whose center is nearest, for points that lie well within one; `other` outside."""
    south, west, north, east = TABLES[name]["box"]
    latitude, longitude = point
    east, longitude = (east + 360, longitude % 360) if west > east else (east, longitude)
    if not (south <= latitude <= north and west <= longitude <= east):
        return "other"
    table = TABLES[name]

    def away(cell: str) -> float:
        up, right = center(cell, table)
        turned = (right - longitude + 180) % 360 - 180
        return max(abs(up - latitude), abs(turned))

    return min(SIDES[name]["cells"], key=away)


@pytest.mark.parametrize("row", VECTORS["lives"], ids=lambda row: f"{row['metric']}: {row['what']}")
def test_lives(row: dict[str, Any]) -> None:
    device = PlainDevice(row["metric"], row["secret"])
    for text, *point in row["steps"]:
        device.step(text, point)
    assert device.reports == row["reports"] == lived(row)


def lived(row: dict[str, Any]) -> list[list[Any]]:
    """What the SDK sends, before any coin; the app is closed and opened between any two steps."""
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
    return sent


def test_the_turns_of_devices_that_only_look() -> None:
    for row in VECTORS["turns"]:
        name, table = row["metric"], TABLES[row["metric"]]
        first = number_of(table, date(2026, 11, 2).toordinal() - EPOCH)
        most, lag = table.get("max_reports", 1), table.get("lag", 0)
        turns = [p + lag for p in range(first, first + 40) if is_drawn(name, row["secret"], p)]
        assert [number_of(table, day) for day in row["days"]] == turns[:most]
        for day in row["days"]:
            assert number_of(table, day + 1) == number_of(table, day) + 1  # its last day
        days = list[int]()
        visits = visits_of(
            FILE.parts(name), bytes.fromhex(row["secret"]), lambda *sent, d=days: d.append(sent[2])
        )
        for day in range({"commute": 800, "daily": 30, "moved": 30, "everyday": 9}[name]):
            visits.look(moment_of(datetime(2026, 11, 2, 12, tzinfo=UTC) + timedelta(day)))
        assert days == row["days"]


def test_one_ledger_entry_for_all_answers() -> None:
    for row in VECTORS["digests"]:
        name = row["metric"]
        params_id = bytes.fromhex(VECTORS["metrics"]["expected"][name]["params_id"])
        zeros = bytes(-(-TABLES[name]["num_symbols"] // 8))
        fields = [name.encode(), params_id, zeros]
        derived = plain_derive(bytes.fromhex(row["secret"]), "ledger", fields, 16)
        device = MetricEncoder(FILE.metrics[name], bytes.fromhex(row["secret"]), bytes)
        found = {device.digest(1 << one) for one in range(device.metric.params.num_bits)}
        assert found == {derived} == {bytes.fromhex(row["digest"])}
