"""Writes tests/vectors/v1/places_turns.json. Run by hand when the protocol changes.

    python tests/vectors/make_places_turns_v1.py

Metrics of kind `location` with `turn` and `hold` (docs/porting.md, part 7): which (period, slot) of
a block a device answers, with what, and what its ledger then allows.
"""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from client_sdk.location.assignment import assignment_of
from client_sdk.location.local_time import moment_of
from client_sdk.location.period_visits import Visits
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.memory import MemoryState
from rappor_core.calendar import day_of, period_number
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.file import parse_metrics

HERE = Path(__file__).parent / "v1"
SECRETS = [bytes(32), bytes(range(32)), b"\xff" * 32]

METRICS = """
[metrics.fresh]
kind = "location"
description = "One answer in each block of five days, of two slots"
owner = "maps@example.org"
expires = 2027-12-31
grid = "square"
box = [0, 0, 4, 4]
rows = 2
columns = 2
levels = [0, 1]
slots = ["early 0-12", "late 12-24"]
mode = "window"
window = 5
turn = "fresh"
hold = 2
max_reports = 4
num_bits = 16
num_cohorts = 4
epsilon = 2.0

[metrics.weekly]
kind = "location"
description = "One answer in each block of 52 weeks"
owner = "maps@example.org"
expires = 2027-12-31
grid = "quadkey"
box = [42.0, -72.8, 42.5, -72.4]
levels = [13]
slots = ["night 22-6", "work 9-17 weekdays"]
period = "week"
no_data = "no_data"
mode = "window"
window = 52
turn = "fresh"
hold = 4
max_reports = 2
num_bits = 32
num_cohorts = 64
epsilon = 2.0

[metrics.unheld]
kind = "location"
description = "Fresh turns, and no look-back"
owner = "maps@example.org"
expires = 2027-12-31
grid = "square"
box = [0, 0, 4, 4]
rows = 2
columns = 2
levels = [0]
period = "month"
mode = "window"
window = 3
turn = "fresh"
max_reports = 3
encoding = "one_hot"
epsilon = 1.0

[metrics.fixed]
kind = "location"
description = "A turn for life, with a look-back"
owner = "maps@example.org"
expires = 2027-12-31
grid = "square"
box = [0, 0, 4, 4]
rows = 2
columns = 2
levels = [0]
mode = "window"
window = 5
turn = "fixed"
hold = 4
max_reports = 4
num_bits = 16
num_cohorts = 4
epsilon = 2.0

[metrics.memoised]
kind = "location"
description = "Answers every day, with the last known cell of two days"
owner = "maps@example.org"
expires = 2027-12-31
grid = "square"
box = [0, 0, 4, 4]
rows = 2
columns = 2
levels = [0]
mode = "memo"
hold = 2
encoding = "symbol"
num_symbols = 2
num_cohorts = 4
epsilon_infinity = 2.0
epsilon_one = 1.0
"""

BAD = [
    ("a turn that is none", 'turn = "fresh"\nhold = 2', 'turn = "new"\nhold = 2'),
    ("a turn that is no text", 'turn = "fresh"\nhold = 2', "turn = 1\nhold = 2"),
    ("fresh turns where all are answered", 'mode = "memo"', 'mode = "memo"\nturn = "fresh"'),
    ("a look-back of a whole window", 'turn = "fresh"\nhold = 2', 'turn = "fresh"\nhold = 5'),
    ("a negative look-back", 'turn = "fresh"\nhold = 2', 'turn = "fresh"\nhold = -1'),
    ("half a period", 'turn = "fresh"\nhold = 2', 'turn = "fresh"\nhold = 1.5'),
    ("a look-back that is true", 'turn = "fresh"\nhold = 2', 'turn = "fresh"\nhold = true'),
    ("more periods than any may", 'mode = "memo"\nhold = 2', 'mode = "memo"\nhold = 61'),
    ("gaps that show in a series", 'mode = "memo"\nhold = 2', 'mode = "memo"\nhold = 0'),
    ("a look-back before the first period",
     'mode = "window"\nwindow = 3\nturn = "fresh"\nmax_reports = 3', 'mode = "once"\nhold = 1'),
]  # fmt: skip

PLACES = {"a": (0.5, 0.5), "b": (3.5, 0.5), "c": (0.5, 3.5), "o": (9.0, 9.0)}
FIRST = date(2026, 11, 2)  # a Monday, the last day of a block of five
LIVES = [  # fixes as day, hour, place; "-" is a look at the clock
    ("a fix in each slot of each day", [(d, h, "abc"[d % 3]) for d in range(17) for h in (9, 15)]),
    ("one morning, then nothing", [(0, 9, "a"), *((d, 15, "-") for d in range(17))]),
    ("the first day of each block, and outside the grid on the third",
     [(d, h, "bo"[d % 5 == 0]) for d in range(17) for h in (9, 15) if d % 5 in (0, 3)]),
    ("two days without the app within each block",
     [(d, h, "ab"[d % 2]) for d in range(17) for h in (9, 15) if d % 5 < 2]),
    ("a clock that goes back three days",
     [(0, 9, "a"), (1, 15, "b"), (3, 9, "c"), (0, 15, "-"), (2, 9, "a"), (12, 9, "-")]),
]  # fmt: skip

LIMITS = [  # days since FIRST, the last day of a block of five: blocks are -4 to 0, 1 to 5, 6 to 10
    ("fresh/early/0", 5), ("fresh/early/0", 6),  # a day apart, in two blocks
    ("fresh/late/1", 10), ("fresh/late/1", 1),  # as many days apart as a block has, in one
    ("fresh/late/0", 0), ("fresh/early/1", -4), ("fresh/late/0", -1), ("fresh/early/0", 11),
    ("fresh/early/0", 16), ("fresh/late/0", 2),
]  # fmt: skip


def metrics() -> dict[str, Any]:
    file = parse_metrics(METRICS)
    rows = {
        name: {
            "params_id": metric.params_id,
            "meaning": metric.meaning,
            "lifetime_epsilon": metric.lifetime_epsilon,
        }
        for name, metric in file.metrics.items()
    }
    return {"metrics.toml": METRICS, "expected": rows}


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


def duties() -> list[dict[str, Any]]:
    file, rows = parse_metrics(METRICS), []
    for name, blocks in (("fresh", 6), ("weekly", 5), ("unheld", 8)):
        for secret in SECRETS:
            parts = file.parts(name)
            window = parts[0].location.window if parts[0].location else 0
            duty = assignment_of(secret, parts)
            block = period_number(parts[0].period, day_of(FIRST)) // window
            turns = {
                str(number): [
                    [period, sub_metric]
                    for period in range(number * window, (number + 1) * window)
                    for _, sub_metric in duty.due(period)
                ]
                for number in range(block, block + blocks)
            }
            rows.append({"metric": name, "secret": secret.hex(), "turns_by_block": turns})
    return rows


def at(days: int, hour: int) -> datetime:
    return datetime(FIRST.year, FIRST.month, FIRST.day, hour, tzinfo=UTC) + timedelta(days)


def usual() -> list[dict[str, Any]]:
    file, rows = parse_metrics(METRICS), []
    for name in ("fresh", "fixed", "memoised"):
        for secret in SECRETS[: 1 if name == "memoised" else 3]:
            for what, fixes in LIVES:
                sent: list[list[Any]] = []

                def send(*row: Any, sent: list[list[Any]] = sent) -> None:
                    sent.append(list(row))

                saved = None
                for day, hour, place in fixes:  # the app is closed and opened between any two
                    visits = Visits(file.parts(name), secret, send, saved)
                    moment = moment_of(at(day, hour))
                    if place == "-":
                        visits.roll(moment)
                    else:
                        visits.fix(*PLACES[place], moment)
                    saved = visits.to_json()
                rows.append(
                    {
                        "what": what,
                        "metric": name,
                        "secret": secret.hex(),
                        "steps": [
                            [at(day, hour).isoformat(), *PLACES.get(place, ())]
                            for day, hour, place in fixes
                        ],
                        "reports": sent,
                    }
                )
    return rows


def limits() -> dict[str, Any]:
    file = parse_metrics(METRICS)
    recorder = Recorder(file.metrics, MemoryState(SECRETS[1]))
    rows = []
    for name, days in LIMITS:
        noon = at(days, 12)
        outcome = recorder.record(name, "other", noon.timestamp())
        rows.append({"metric": name, "day": noon.date().isoformat(), "outcome": outcome})
    return {"secret": SECRETS[1].hex(), "operations": rows}


def main() -> None:
    content = {
        "metrics": metrics(),
        "compiled": compiled(parse_metrics(METRICS)),
        "bad_metrics": bad_metrics(),
        "duties": duties(),
        "usual": usual(),
        "limits": limits(),
    }
    (HERE / "places_turns.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
