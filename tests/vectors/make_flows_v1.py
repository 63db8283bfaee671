"""Writes tests/vectors/v1/flows.json. Run by hand when the protocol changes.

    python tests/vectors/make_flows_v1.py

Metrics of kind `flow` (docs/porting.md, "Flows"): zones, distances, classes and symbols; which
period a device answers for, with what, and the one entry of its ledger.
"""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from client_sdk.location.dwell_time import moment_of
from client_sdk.location.recorder import visits_of
from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.testing import FixedRandomness
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.flow import flow_symbol
from rappor_core.metrics.metrics_file import MetricsFile

HERE = Path(__file__).parent / "v1"
SECRETS = [bytes([n]) * 32 for n in range(1, 13)]

METRICS = """
[metrics.commute]
kind = "flow"
description = "Usual night cell and usual work cell of one month, once"
owner = "maps@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [42.0, -72.8, 42.5, -72.4]
levels = [11, 13]
from = "night 22-6"
to = "work 9-17 weekdays"
bands_km = [1, 2, 5, 10, 20]
period = "month"
mode = "once"
spread = 12
epsilon = 2.0
num_symbols = 8
num_cohorts = 160
no_data = "no_data"

[metrics.daily]
kind = "flow"
description = "A pair in each block of three days"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [0, 0, 4, 4]
rows = 2
columns = 2
levels = [0, 1]
from = "early 0-12"
to = "late 12-24"
bands_km = [111.195, 250.5]
mode = "window"
window = 3
max_reports = 4
epsilon = 1.0986
num_symbols = 5
num_cohorts = 10

[metrics.moved]
kind = "flow"
description = "From the usual place of a day to that of two days later"
owner = "maps@example.org"
expires = 2099-12-31
grid = "geohash"
box = [10.0, 20.0, 13.0, 23.0]
levels = [2, 3]
from = "all 0-24"
to = "all 0-24"
lag = 2
spread = 3
bands_km = [200]
mode = "once"
epsilon = 4.0
num_symbols = 56
num_cohorts = 20
max_gap_minutes = 30

[metrics.everyday]
kind = "flow"
description = "Moves, of which any day may be the first"
owner = "maps@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [-1.0, 179.5, 1.0, -179.5]
levels = [7, 9]
from = "all 0-24"
to = "all 0-24"
lag = 1
bands_km = [100]
mode = "once"
epsilon = 2.0
num_symbols = 8
num_cohorts = 10
"""
HEXAGONS = METRICS.split("\n\n")[0].replace("commute", "hexagons").replace("quadkey", "h3").replace(
    "levels = [11, 13]", "levels = [5, 6]"
)  # fmt: skip

BAD = [
    ("three levels", "levels = [11, 13]", "levels = [11, 12, 13]"),
    ("one level", "levels = [11, 13]", "levels = [13]"),
    ("more than 200 cells", "levels = [11, 13]", "levels = [11, 14]"),
    (
        "more than 64 zones",
        "box = [42.0, -72.8, 42.5, -72.4]\nlevels = [11, 13]",
        "box = [42.01, -72.8, 42.011, -66.5]\nlevels = [12, 13]",
    ),
    ("a gap of nothing", "spread = 12", "spread = 12\nmax_gap_minutes = 0"),
    ("bands that do not rise", "[1, 2, 5, 10, 20]", "[1, 2, 2, 10, 20]"),
    ("a band of nothing", "[1, 2, 5, 10, 20]", "[0, 2]"),
    ("more bands than symbols", "[1, 2, 5, 10, 20]", "[1, 2, 5, 10, 20, 30]"),
    ("no bands", "[1, 2, 5, 10, 20]", "[]"),
    ("65 symbols", "num_symbols = 8\nnum_cohorts = 160", "num_symbols = 65\nnum_cohorts = 160"),
    ("cohorts that miss a question", "num_cohorts = 160", "num_cohorts = 165"),
    ("a mode that memoises", 'mode = "once"\nspread = 12', 'mode = "memo"\nspread = 12'),
    ("no bound for life", "max_reports = 4\n", ""),
    ("a spread of a window", "window = 3\n", "window = 3\nspread = 2\n"),
    ("a window of once", "spread = 12", "spread = 12\nwindow = 3"),
    ("two reports of once", "spread = 12", "spread = 12\nmax_reports = 2"),
    ("a lag between two slots", "spread = 12", "spread = 12\nlag = 1"),
    ("one slot without a lag", "lag = 2\n", ""),
    ("slots that overlap", 'to = "work 9-17 weekdays"', 'to = "work 5-17 weekdays"'),
    ("two slots of one name", 'to = "work 9-17 weekdays"', 'to = "night 9-17"'),
    ("another name for no data", 'no_data = "no_data"', 'no_data = "none"'),
    ("a fallback", 'no_data = "no_data"', 'fallback = "other"'),
    ("no spread", "spread = 12", "spread = 0"),
]

PLACES = {"a": (10.5, 20.5), "b": (12.2, 22.9), "o": (40.0, 40.0)}
SQUARE = {"a": (0.5, 0.5), "b": (3.5, 1.5), "o": (9.0, 9.0)}
LINE = {"a": (0.5, 179.9), "b": (-0.5, -179.6), "o": (9.0, 9.0)}
FIRST = date(2026, 11, 2)  # a Monday
LIVES = [  # fixes as day, hour, place; "-" is a look at the clock
    ("a fix in each half of each day", [(d, h, "ab"[h > 12]) for d in range(15) for h in (9, 15)]),
    ("the other way every second day", [(d, h, "ab"[(d + h // 12) % 2]) for d in range(15)
                                        for h in (9, 15)]),
    ("mornings alone, and nothing after the sixth day",
     [*((d, 9, "a") for d in range(6)), *((d, 15, "-") for d in range(15))]),
    ("looks alone", [(d, 12, "-") for d in range(15)]),
    ("outside the box from the third day on",
     [(d, h, "ao"[d > 2]) for d in range(15) for h in (9, 15)]),
    ("two weeks without the app", [(0, 9, "a"), (0, 15, "b"), (14, 9, "b"), (14, 15, "a"), *(
        (d, 15, "a") for d in range(15, 20))]),
    ("a clock that goes back",
     [(d, 9, "ab"[d % 2]) for d in (4, 5, 6, 2, 3, 4, 5, 6, 7, 8, 9, 10)]),
]  # fmt: skip


def metrics(file: MetricsFile) -> dict[str, Any]:
    """The file, what it means, and its compiled form; one with hexagons by itself."""
    expected = {
        name: {
            "params_id": metric.params_id,
            "meaning": metric.meaning,
            "lifetime_epsilon": metric.lifetime_epsilon,
        }
        for name, metric in file.metrics.items()
    }
    return {"metrics.toml": METRICS, "expected": expected, "document": compiled(file)}


def bad_metrics() -> list[dict[str, str]]:
    """Texts that must be refused, with our words."""
    rows = []
    for reason, good, bad in BAD:
        text = METRICS.replace(good, bad, 1)
        if text == METRICS:
            raise ValueError(f"{good!r} stands nowhere")
        try:
            parse_metrics(text)
        except MetricsFileError as error:
            rows.append({"reason": reason, "error": str(error), "metrics.toml": text})
    if len(rows) != len(BAD):
        raise ValueError("one is not refused")
    return rows


def pairs(file: MetricsFile) -> list[dict[str, Any]]:
    """Of some pairs of sides of each metric: distance, classes, and symbols by cohort."""
    rows = []
    for name, metric in file.metrics.items():
        flow = metric.details
        sides, step = flow.num_sides, max(1, flow.num_sides // 4)
        for origin in [*range(0, sides, step), sides - 2, sides - 1]:
            for destination in [origin, *range(1, sides, step + 1), sides - 1]:
                cells = max(origin, destination) < len(flow.cells)
                metres = flow.meters(origin, destination) if cells else None
                classes = {
                    question: flow.class_of(question, origin, destination)
                    for question in ("home", "work", "distance", "zones", "pair")
                }
                value = flow.pair_text(origin, destination)
                symbols = [
                    metric.value_bits(value, cohort).bit_length() - 1
                    for cohort in range(min(20, metric.params.num_cohorts))
                ]
                rows.append({"metric": name, "value": value, "metres": metres,
                             "classes": classes, "symbols": symbols})  # fmt: skip
    return rows


def sides(file: MetricsFile) -> list[dict[str, Any]]:
    """Cells, zones, and the zone of each cell."""
    return [
        {"metric": name, "cells": list(m.details.cells), "zones": list(m.details.zones),
         "zone_of": list(m.details.zone_of),
         "classes": {q: m.details.num_classes(q) for q in ("home", "work", "distance", "zones",
                                                           "pair")}}
        for name, m in file.metrics.items()
    ]  # fmt: skip


def hashed(file: MetricsFile) -> list[dict[str, Any]]:
    """Symbols of classes in cohorts, whether the cohort asks the question or not."""
    params = file.metrics["commute"].params
    return [
        {"question": question, "class": number, "cohort": cohort,
         "symbol": flow_symbol(params, question, number, cohort)}
        for question in ("home", "work", "distance", "zones", "pair")
        for number in (0, 3, 7)
        for cohort in (0, 1, 99, 159)
    ]  # fmt: skip


def at(days: int, hour: int) -> datetime:
    """A time in UTC, which is local time here."""
    return datetime(FIRST.year, FIRST.month, FIRST.day, hour, tzinfo=UTC) + timedelta(days)


def lives(file: MetricsFile) -> list[dict[str, Any]]:
    """What a device sends, before any coin; the app is closed and opened between any two steps."""
    rows = []
    for name, places in (("daily", SQUARE), ("moved", PLACES), ("everyday", LINE)):
        for secret in SECRETS[:4]:
            device = MetricEncoder(file.metrics[name], secret, FixedRandomness())
            for what, fixes in LIVES:
                sent: list[list[Any]] = []

                def send(
                    _: str,
                    value: str,
                    day: int,
                    sent: list[list[Any]] = sent,
                    device: MetricEncoder = device,
                ) -> None:
                    sent.append([value, day, device.value_bits(value).bit_length() - 1])

                saved = None
                for day, hour, place in fixes:
                    visits = visits_of(file.parts(name), secret, send, saved)
                    moment = moment_of(at(day, hour))
                    if place == "-":
                        visits.look(moment)
                    elif visits.refuses(moment, moment) is None:
                        visits.fix(*places[place], moment)
                    saved = visits.to_json()
                steps = [[at(d, h).isoformat(), *places.get(p, ())] for d, h, p in fixes]
                rows.append({"what": what, "metric": name, "secret": secret.hex(),
                             "cohort": device.cohort, "steps": steps,
                             "reports": sent})  # fmt: skip
    return rows


def turns(file: MetricsFile) -> list[dict[str, Any]]:
    """In which period a device answers that looks at the clock every day for three years."""
    rows = []
    for name, days in (("commute", 800), ("daily", 30), ("moved", 30), ("everyday", 9)):
        for secret in SECRETS:
            sent: list[int] = []

            def send(_: str, __: str, day: int, sent: list[int] = sent) -> None:
                sent.append(day)

            visits = visits_of(file.parts(name), secret, send)
            for day in range(days):
                visits.look(moment_of(at(day, 12)))
            rows.append({"metric": name, "secret": secret.hex(), "days": sent})
    return rows


def digests(file: MetricsFile) -> list[dict[str, str]]:
    """The one entry of the ledger, whatever the answer."""
    rows = []
    for name, metric in file.metrics.items():
        device = MetricEncoder(metric, SECRETS[0], FixedRandomness())
        found = {device.digest(1 << symbol) for symbol in range(metric.params.num_bits)}
        (digest,) = found
        rows.append({"metric": name, "secret": SECRETS[0].hex(), "digest": digest.hex()})
    return rows


def make() -> dict[str, Any]:
    """All of it."""
    file = parse_metrics(METRICS)
    hexagons = parse_metrics(HEXAGONS)
    return {
        "metrics": metrics(file),
        "bad_metrics": bad_metrics(),
        "sides": sides(file),
        "pairs": pairs(file),
        "hashed": hashed(file),
        "turns": turns(file),
        "lives": lives(file),
        "digests": digests(file),
        "h3": {
            "metrics": {"metrics.toml": HEXAGONS, "document": compiled(hexagons)},
            "sides": sides(hexagons),
            "pairs": pairs(hexagons),
        },
    }


if __name__ == "__main__":
    (HERE / "flows.json").write_text(json.dumps(make(), indent=1) + "\n")
