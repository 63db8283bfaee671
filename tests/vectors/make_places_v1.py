"""Writes tests/vectors/v1/places.json. Run by hand when the protocol changes, never by tests.

    python tests/vectors/make_places_v1.py

What a client in another language must compute for metrics of kind `location`; docs/porting.md
explains each part. Byte strings are hexadecimal; cells are decimal text (h3's need 64 bits).
"""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from client_sdk.location.assignment import assignment_of
from client_sdk.location.local_time import is_weekend, moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.randomisation.coins import SymbolCoin
from client_sdk.randomisation.metric_encoder import MetricEncoder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.memory import MemoryState
from client_sdk.testing import FixedRandomness
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.errors import MetricsFileError, ValueRefusedError
from rappor_core.grid.box import Box
from rappor_core.grid.grid import OTHER, Grid
from rappor_core.metrics.file import parse_metrics

HERE = Path(__file__).parent / "v1"
SECRETS = [bytes(32), bytes(range(32)), b"\xff" * 32]

METRICS = """
[metrics.filter]
kind = "location"
description = "Memoised cells of two levels, in two slots"
owner = "maps@example.org"
expires = 2027-12-31
grid = "quadkey"
box = [40.5, -74.3, 40.95, -73.65]
levels = [11, 13]
slots = ["night 22-6", "work 9-17 weekdays"]
mode = "memo"
num_bits = 32
num_cohorts = 64
mechanism = "l-osue"
epsilon_infinity = 2.0
epsilon_one = 1.0
max_memoized_values = 3

[metrics.symbol]
kind = "location"
description = "One of four symbols, once a week"
owner = "maps@example.org"
expires = 2027-12-31
grid = "geohash"
box = [-21, 176, -12, -178]
levels = [3]
period = "week"
mode = "memo"
encoding = "symbol"
num_symbols = 4
num_cohorts = 64
epsilon_infinity = 2.0
epsilon_one = 1.5

[metrics.window]
kind = "location"
description = "One report in five days, four in a life, a bit a cell"
owner = "maps@example.org"
expires = 2027-12-31
grid = "square"
box = [0, 0, 10, 10]
rows = 4
columns = 3
levels = [0]
slots = ["early 0-12", "late 12-24"]
mode = "window"
window = 5
max_reports = 4
encoding = "one_hot"
epsilon = 1.0

[metrics.once]
kind = "location"
description = "Trips, asked once"
owner = "maps@example.org"
expires = 2027-12-31
grid = "square"
box = [0, 0, 10, 10]
rows = 2
columns = 2
levels = [0, 1]
period = "month"
mode = "once"
pairs = true
num_bits = 16
num_hashes = 2
num_cohorts = 8
epsilon = 2.0
"""

CITY = Box(40.5, -74.3, 40.95, -73.65)
FIJI = Box(-21, 176, -12, -178)
WORLD = Box(-90, -180, 90, 180)
MERCATOR = Box(-85, -180, 85, 180)
GRIDS = [
    Grid("quadkey", CITY, (9, 13, 16)),
    Grid("quadkey", MERCATOR, (1, 5, 28)),
    Grid("quadkey", FIJI, (6, 10)),
    Grid("geohash", CITY, (5, 6)),
    Grid("geohash", WORLD, (1, 4, 12)),
    Grid("geohash", FIJI, (2, 3)),
    Grid("square", CITY, (0, 2, 5), 3, 7),
    Grid("square", WORLD, (0, 1, 12), 18, 36),
    Grid("square", FIJI, (0, 3), 5, 5),
    Grid("h3", CITY, (6, 8)),
    Grid("h3", WORLD, (0, 5)),
]
POINTS = [
    (40.7128, -74.006),
    (40.5, -74.3),
    (40.95, -73.65),
    (40.95, -74.3),
    (40.949999999, -73.650000001),
    (40.96, -74.0),
    (0.0, 0.0),
    (-0.0, -180.0),
    (0.0, 180.0),
    (12.5, 359.0),
    (90.0, 12.0),
    (-90.0, -12.0),
    (85.0, 179.999999),
    (-16.5, 179.999999),
    (-16.5, -179.999999),
    (-16.5, 180.0),
    (-16.5, -180.0),
    (-16.5, 181.0),
    (-21.0, 176.0),
    (-12.0, -178.0),
    (48.8584, 2.2945),
]
REFUSED: list[tuple[str, Box, Any, Any]] = [
    ("not finite", CITY, "nan", -74.0),
    ("not finite", CITY, 40.7, "inf"),
    ("not finite", CITY, "-inf", -74.0),
    ("swapped", CITY, -74.0, 40.7),
    ("latitude", CITY, 91.0, -74.0),
    ("latitude", CITY, -90.0001, 0.0),
    ("longitude", CITY, 40.7, 361.0),
    ("longitude", CITY, 40.7, -360.5),
]

TIMES = [
    "2026-11-02T05:59:59.5-05:00",
    "2026-11-02T06:00:00-05:00",
    "2026-11-06T16:59:59-05:00",
    "2026-11-06T17:00:00-05:00",
    "2026-11-07T10:00:00-05:00",
    "2026-11-08T23:59:59-05:00",
    "2026-11-09T00:00:00-05:00",
    "2026-11-01T01:30:00-04:00",
    "2026-11-01T01:30:00-05:00",
    "2026-03-08T01:59:59-05:00",
    "2026-03-08T03:00:00-04:00",
    "2026-12-31T23:30:00+14:00",
    "2026-12-31T23:30:00-11:00",
    "2028-02-29T12:00:00+05:45",
    "1970-01-01T00:00:00+00:00",
]

FIXES = [
    (
        "a day with a night before and after; the fix at 08:10 speaks for an hour at most",
        "filter",
        [
            ("2026-11-02T00:15:00-05:00", 40.7128, -74.006),
            ("2026-11-02T01:05:00-05:00", 40.7128, -74.006),
            ("2026-11-02T05:40:00-05:00", 40.8, -73.9),
            ("2026-11-02T08:10:00-05:00", 40.8, -73.9),
            ("2026-11-02T09:50:00-05:00", 40.6, -74.2),
            ("2026-11-02T10:20:00-05:00", 40.8, -73.9),
            ("2026-11-02T10:40:00-05:00", 40.6, -74.2),
            ("2026-11-02T22:30:00-05:00", 41.5, -74.2),
        ],
        "2026-11-04T00:00:00-05:00",
    ),
    (
        "outside wins, and a weekend has no work slot but reports it as no data",
        "filter",
        [
            ("2026-11-07T23:00:00-05:00", 48.8, 2.3),
            ("2026-11-07T23:50:00-05:00", 40.6, -74.2),
        ],
        "2026-11-08T00:00:01-05:00",
    ),
    (
        "an hour is gained by flying west: from 04:30 to 04:45 is an hour and a quarter",
        "filter",
        [
            ("2026-11-02T04:20:00+02:00", 40.6, -74.2),
            ("2026-11-02T04:30:00+02:00", 40.8, -73.9),
            ("2026-11-02T04:45:00+01:00", 40.7, -74.1),
            ("2026-11-02T05:15:00+01:00", 40.6, -74.2),
        ],
        "2026-11-03T12:00:00+01:00",
    ),
    (
        "an absence of three weeks: as far back as a week is still taken",
        "symbol",
        [
            ("2026-11-03T12:00:00+12:00", -16.5, 179.9),
            ("2026-11-03T12:30:00+12:00", -16.5, -179.9),
        ],
        "2026-12-01T12:00:00+12:00",
    ),
    (
        "the clock goes back a day: what belongs to no period that is over is forgotten",
        "symbol",
        [
            ("2026-11-09T12:00:00+12:00", -16.5, 179.9),
            ("2026-11-08T12:00:00+12:00", -16.5, -179.9),
        ],
        "2026-11-09T12:00:00+12:00",
    ),
]

FIX_TIMES = [  # what the device's clock shows, and the time that a fix came with
    ("2026-11-09T12:00:00-05:00", "2026-11-08T23:59:59-05:00"),
    ("2026-11-09T12:00:00-05:00", "2026-11-09T00:00:00-05:00"),
    ("2026-11-09T12:00:00-05:00", "1970-01-01T00:00:00+00:00"),
    ("2026-11-09T12:00:00-05:00", "2031-11-09T12:00:00-05:00"),
    ("2026-11-09T12:00:00-05:00", "2026-11-10T12:00:01-05:00"),
    ("2026-11-09T12:00:00-05:00", "2026-11-10T17:00:00+00:00"),
    ("2026-11-10T12:00:00-05:00", "2026-11-09T23:59:59-05:00"),
    ("2026-11-08T12:00:00-05:00", "2026-11-08T12:00:00-05:00"),
    ("2026-11-08T12:00:00-05:00", "2026-11-07T12:00:00-05:00"),
    ("2026-11-12T12:00:00-05:00", "2026-11-08T13:00:00-05:00"),
    ("2026-11-12T12:00:00-05:00", "2026-11-11T12:00:00-05:00"),
    ("2026-11-12T12:00:00-05:00", "2026-11-08T13:00:00-05:00"),
    ("2028-01-01T12:00:00-05:00", "2027-12-31T12:00:00-05:00"),
    ("2028-01-01T12:00:00-05:00", "2028-01-01T12:00:00-05:00"),
]

WINDOW_SCRIPT = [
    ("window/early/0", "2026-11-01"),
    ("window/early/0", "2026-11-01"),
    ("window/late/0", "2026-11-01"),
    ("window/early/0", "2026-11-05"),
    ("window/early/0", "2026-11-06"),
    ("window/late/0", "2026-11-10"),
    ("window/late/0", "2026-11-11"),
    ("window/late/0", "2026-10-28"),
    ("window/late/0", "2026-10-27"),
    ("window/early/0", "2026-11-30"),
]

BAD = [
    ("levels that do not increase", "levels = [11, 13]", "levels = [13, 11]"),
    ("a level that no quadkey has", "levels = [11, 13]", "levels = [29]"),
    ("a box that is empty", "[40.5, -74.3, 40.95, -73.65]", "[40.95, -74.3, 40.5, -73.65]"),
    ("a box of three numbers", "[40.5, -74.3, 40.95, -73.65]", "[40.5, -74.3, 40.95]"),
    ("a quadkey beyond the Mercator square", "40.5, -74.3, 40.95", "40.5, -74.3, 86"),
    ("slots that overlap", '"work 9-17 weekdays"', '"work 5-17 weekdays"'),
    ("two slots of one name", '"work 9-17 weekdays"', '"night 9-17"'),
    ("hours that no day has", "night 22-6", "night 22-25"),
    ("a slot without hours", "night 22-6", "night"),
    ("a grid that is none", '"quadkey"', '"hexagons"'),
    ("a mode that is none", 'mode = "memo"\nnum_bits', 'mode = "always"\nnum_bits'),
    ("epsilon_one above epsilon_infinity", "epsilon_one = 1.0", "epsilon_one = 3.0"),
    ("no place beside `other`", "max_memoized_values = 3", "max_memoized_values = 1"),
    ("a window of one period", "window = 5", "window = 1"),
    ("a window without an end", "max_reports = 4\n", ""),
    ("a bit a cell for pairs", 'encoding = "one_hot"', 'encoding = "one_hot"\npairs = true'),
    ("one symbol", "num_symbols = 4", "num_symbols = 1"),
    ("a second life", "epsilon = 2.0", "epsilon = 2.0\nmax_reports = 2"),
]


def cells() -> list[dict[str, Any]]:
    return [{"grid": grid.to_dict(), "points": list(map(_point(grid), POINTS))} for grid in GRIDS]


def _point(grid: Grid) -> Any:
    def row(point: tuple[float, float]) -> dict[str, Any]:
        try:
            cell = grid.locate(*point)
        except ValueRefusedError as error:
            return {"point": point, "refused": str(error)}
        names = [grid.value(cell, level) for level in grid.levels]
        known = {} if cell is None else {"cell": str(cell)}
        return {"point": point, **known, "values": names}

    return row


def refused() -> list[dict[str, Any]]:
    rows = []
    for reason, box, latitude, longitude in REFUSED:
        grid = Grid("quadkey", box, (12,))
        try:
            grid.locate(float(latitude), float(longitude))
        except ValueRefusedError as error:
            if reason.removeprefix("not ") in str(error):
                row = {"point": [latitude, longitude], "reason": reason}
                rows.append({"box": grid.to_dict()["box"], **row})
    assert len(rows) == len(REFUSED)
    return rows


def metrics() -> dict[str, Any]:
    file = parse_metrics(METRICS)
    return {
        "metrics.toml": METRICS,
        "expected": {
            name: {
                "params_id": metric.params_id,
                "meaning": metric.meaning,
                "lifetime_epsilon": metric.lifetime_epsilon,
            }
            for name, metric in file.metrics.items()
        },
    }


def bad_metrics() -> list[dict[str, str]]:
    rows = []
    for reason, good, bad in BAD:
        assert METRICS.count(good) == 1, good
        text = METRICS.replace(good, bad)
        try:
            parse_metrics(text)
        except MetricsFileError as error:
            rows.append({"reason": reason, "error": str(error), "metrics.toml": text})
    assert len(rows) == len(BAD)
    return rows


def times() -> list[dict[str, Any]]:
    (metric,) = {
        m.base_name: m for m in parse_metrics(METRICS).declared if m.base_name == "filter"
    }.values()
    rows = []
    for text in TIMES:
        moment = moment_of(datetime.fromisoformat(text))
        weekend = is_weekend(moment.day)
        periods = {p: period_number(p, moment.day) for p in ("day", "week", "month")}
        rows.append(
            {
                "time": text,
                "day": moment.day,
                "hour": moment.hour,
                "left_in_hour": moment.left,
                "weekend": weekend,
                "slot": metric.location.slot_at(moment.hour, weekend) if metric.location else None,
                "periods": periods,
                "last_days": {p: last_day(p, number) for p, number in periods.items()},
            }
        )
    return rows


def usual() -> list[dict[str, Any]]:
    file, rows = parse_metrics(METRICS), []
    for what, name, fixes, until in FIXES:
        for secret in SECRETS[:2]:
            sent: list[list[Any]] = []
            visits = Visits(
                file.parts(name), secret, lambda *row, s=sent: s.append(list(row)), None
            )
            for at, latitude, longitude in fixes:
                visits.fix(latitude, longitude, moment_of(datetime.fromisoformat(at)))
            visits.roll(moment_of(datetime.fromisoformat(until)))
            rows.append(
                {
                    "what": what,
                    "metric": name,
                    "secret": secret.hex(),
                    "fixes": fixes,
                    "until": until,
                    "reports": sent,
                }
            )
    return rows


def fix_times() -> dict[str, Any]:
    visits = Visits(parse_metrics(METRICS).parts("filter"), SECRETS[0], lambda *_: None, None)
    rows = []
    for clock, at in FIX_TIMES:
        shown, moment = (moment_of(datetime.fromisoformat(text)) for text in (clock, at))
        refused = visits.refuses(moment, shown)
        if refused is None:
            visits.fix(40.7128, -74.006, moment)
        rows.append({"clock": clock, "at": at, "outcome": refused or "taken"})
    return {"metric": "filter", "secret": SECRETS[0].hex(), "fixes": rows}


def duties() -> list[dict[str, Any]]:
    file = parse_metrics(METRICS)
    rows = []
    for name in ("filter", "symbol", "window", "once"):
        for secret in SECRETS:
            duty = assignment_of(secret, file.parts(name))
            first = day_of(date(2026, 11, 1))
            due = {str(p): [n for _, n in duty.due(p)] for p in range(first, first + 12)}
            rows.append(
                {
                    "metric": name,
                    "secret": secret.hex(),
                    "level": duty.level,
                    "every": duty.every,
                    "phase": duty.phase,
                    "due": due,
                }
            )
    return rows


def symbol_coins() -> list[dict[str, Any]]:
    rows = []
    for kept, lie, g in ((57_724, 7_812, 2), (40_000, 8_512, 4), (65_536 - 199 * 100, 100, 200)):
        coin = SymbolCoin(kept, lie, g)
        for own in (0, g // 2, g - 1):
            for draw in (0, kept - 1, kept, kept + lie - 1, kept + lie, 65_535):
                tossed = coin.toss(1 << own, (draw & 65_535).to_bytes(2, "little"))
                rows.append(
                    {
                        "kept": kept,
                        "lie": lie,
                        "num_symbols": g,
                        "symbol": own,
                        "random": (draw & 65_535).to_bytes(2, "little").hex(),
                        "result": tossed.bit_length() - 1,
                    }
                )
    return rows


def responses() -> list[dict[str, Any]]:
    file = parse_metrics(METRICS)
    values = {
        "filter/night/13": ["0320101101322", OTHER],
        "filter/work/13": ["0320101101322"],
        "filter/night/11": ["03201011013"],
        "symbol/day/3": ["rv7", "2j5", OTHER],
        "window/late/0": ["0-3-2", OTHER, "not a cell"],
        "once/day/1": ["1-3-2>1-0-0", OTHER],
    }
    return [
        _response(file.metrics[name], secret, value)
        for name, several in values.items()
        for value in several
        for secret in SECRETS
    ]


def _response(metric: Any, secret: bytes, value: str) -> dict[str, Any]:
    drawn: list[bytes] = []
    source = FixedRandomness(len(value))

    def recording(num_bytes: int) -> bytes:
        drawn.append(source(num_bytes))
        return drawn[-1]

    device = MetricEncoder(metric, secret, recording)
    bits, size = device.value_bits(value), metric.params.report_bytes
    report = device.report_bits(bits)
    return {
        "metric": metric.name,
        "secret": secret.hex(),
        "value": value,
        "cohort": device.cohort,
        "encoded_bits": bits.to_bytes(size, "little").hex(),
        "permanent_bits": device.permanent_bits(bits).to_bytes(size, "little").hex(),
        "ledger_digest": device.digest(bits).hex(),
        "random": drawn[0].hex(),
        "report_bits": report.hex(),
    }


def limits() -> dict[str, Any]:
    file = parse_metrics(METRICS)
    recorder = Recorder(file.metrics, MemoryState(SECRETS[1]))
    rows = []
    for name, day in WINDOW_SCRIPT:
        noon = datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC).timestamp()
        rows.append({"metric": name, "day": day, "outcome": recorder.record(name, "0-0-0", noon)})
    return {"secret": SECRETS[1].hex(), "operations": rows}


def main() -> None:
    content = {
        "cells": cells(),
        "refused": refused(),
        "metrics": metrics(),
        "bad_metrics": bad_metrics(),
        "times": times(),
        "usual": usual(),
        "fix_times": fix_times(),
        "duties": duties(),
        "symbol_coins": symbol_coins(),
        "responses": responses(),
        "limits": limits(),
    }
    (HERE / "places.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
