"""Writes tests/vectors/v1/device.json. Run by hand when the protocol changes, never by tests.

    python tests/vectors/make_device_v1.py

What a client in another language must compute; docs/porting.md explains each part. Byte strings are
hexadecimal; bits are given as on the wire (bit i is bit i % 8 of byte i // 8).
"""

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

from client_sdk.randomisation.key_derivation import cohort_of, derive, keyed_input, secret_check
from client_sdk.randomisation.metric_encoder import MetricEncoder
from client_sdk.randomisation.randomness import CoinPair
from client_sdk.recording.budget import agree_budget
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.memory import MemoryState
from client_sdk.storage.periods import MOST_TOUCHED
from client_sdk.testing import FixedRandomness
from rappor_core.calendar import EPOCH_ORDINAL, period_number
from rappor_core.metrics.file import parse_metrics

HERE = Path(__file__).parent / "v1"
SECRETS = [bytes(32), bytes(range(32)), b"\xff" * 32]
NOON = 43_200

LEDGER_METRICS = """
budget = 20

[metrics.page]
kind = "string"
description = "Shows the cap and the fallback"
owner = "o@example.org"
expires = 2026-12-31
num_bits = 64
num_hashes = 2
num_cohorts = 8
prob_f = 0.5
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
max_reports_per_period = 2
period = "week"

[metrics.once]
kind = "category"
description = "Shows a limit for life, without a permanent round"
owner = "o@example.org"
expires = 2026-12-31
categories = ["a", "b"]
prob_f = 0
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 2
max_reports = 2
"""
OPERATIONS = [
    ("page", "x", "2026-11-16"),
    ("page", "x", "2026-11-22"),
    ("page", "x", "2026-11-22"),
    ("page", "y", "2026-11-23"),
    ("page", "z", "2026-11-24"),
    ("page", "y", "2026-11-24"),
    ("page", "z", "2026-11-30"),
    ("page", "x", "2026-11-20"),
    ("once", "a", "2026-11-20"),
    ("once", "b", "2026-11-21"),
    ("once", "a", "2026-11-22"),
    ("page", "x", "2027-01-01"),
]

# What each version of an app declares: a budget, and the limit on reports of the metric "page".
VERSIONS: list[tuple[float | None, str, int]] = [
    (9.0, "day", 1),
    (None, "day", 1),
    (40.0, "day", 1),
    (5.0, "day", 1),
    (9.0, "month", 28),
    (9.0, "week", 1),
]
# A device's life: ("open", version), ("consent", nats), or ("record", metric, value, day).
LIVES: dict[str, list[tuple[Any, ...]]] = {
    "an update cannot raise the budget": [
        ("open", 0), ("record", "page", "x", "2026-11-16"),
        ("record", "more", "x", "2026-11-16"),
        ("open", 1), ("record", "third", "x", "2026-11-16"),
        ("open", 2), ("record", "third", "x", "2026-11-16"),
    ],
    "a new consent raises it": [
        ("open", 0), ("record", "page", "x", "2026-11-16"),
        ("record", "more", "x", "2026-11-16"),
        ("open", 2), ("record", "third", "x", "2026-11-16"),
        ("consent", 13.0), ("record", "third", "x", "2026-11-16"),
    ],
    "a smaller one holds for good": [
        ("open", 2), ("open", 3), ("open", 2),
        ("record", "page", "x", "2026-11-16"), ("record", "more", "x", "2026-11-16"),
    ],
    "without one at first": [
        ("open", 1), ("record", "page", "x", "2026-11-16"),
        ("open", 3),
        ("open", 1), ("record", "more", "x", "2026-11-16"),
    ],
    "more reports in a day are weaker": [
        ("open", 0), ("record", "page", "x", "2026-11-16"),
        ("open", 4), ("record", "page", "x", "2026-11-17"),
    ],
    "counts are carried over to another unit": [
        ("open", 0), ("record", "page", "x", "2026-11-16"),
        ("open", 5), ("record", "page", "x", "2026-11-17"),
        ("record", "page", "x", "2026-11-23"), ("record", "page", "x", "2026-11-24"),
        ("open", 0), ("record", "page", "x", "2026-11-25"),
        ("record", "page", "x", "2026-11-30"),
    ],
}  # fmt: skip


def version_text(budget: float | None, period: str, most: int) -> str:
    """A metrics.toml with three metrics of 4.09 nats each, of which one has this limit."""
    head = "" if budget is None else f"budget = {budget}\n"
    tables = [
        f"""
[metrics.{name}]
kind = "string"
description = "Shows the budget of a device"
owner = "o@example.org"
expires = 2026-12-31
num_bits = 64
num_hashes = 2
num_cohorts = 8
prob_f = 0.75
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 2
fallback = "other"
period = "{period if name == "page" else "day"}"
max_reports_per_period = {most if name == "page" else 1}
"""
        for name in ("page", "more", "third")
        if budget is None or budget > 12 or name != "third"
    ]
    return head + "".join(tables[:1] if budget is not None and budget < 8 else tables)


def derivations() -> list[dict[str, Any]]:
    return [
        {
            "secret": secret.hex(),
            "purpose": purpose.decode(),
            "fields": [field.hex() for field in fields],
            "input": keyed_input(secret, purpose, *fields).hex(),
            "output": derive(secret, purpose, *fields, length=length).hex(),
        }
        for secret in SECRETS
        for purpose, fields, length in (
            (b"cohort", (b"homepage",), 8),
            (b"check", (), 8),
            (b"ledger", (b"homepage", bytes(16), b"\x05\x80"), 16),
            (b"permanent", (b"homepage", bytes(16), b"\x05\x80"), 40),
        )
    ]


def cohorts() -> list[dict[str, Any]]:
    return [
        {
            "secret": secret.hex(),
            "metric": metric,
            "num_cohorts": number,
            "cohort": cohort_of(secret, metric, number),
        }
        for secret in SECRETS
        for metric in ("homepage", "a.b-c_d")
        for number in (1, 3, 32, 65_536)
    ]


def hexed(bits: int, num_bits: int) -> str:
    """Bit i is bit i % 8 of byte i // 8."""
    return bits.to_bytes((num_bits + 7) // 8, "little").hex()


def coins() -> list[dict[str, Any]]:
    source = FixedRandomness(1)
    rows = []
    for if_one, if_zero in ((49_152, 32_768), (65_536, 0), (1, 65_535), (22_938, 42_598), (0, 3)):
        for num_bits in (1, 12, 128):
            pair = CoinPair(if_one, if_zero, num_bits)
            random_bytes = source(pair.num_bytes)
            bits = int.from_bytes(source((num_bits + 7) // 8), "little") & ((1 << num_bits) - 1)
            rows.append(
                {
                    "if_one": if_one,
                    "if_zero": if_zero,
                    "num_bits": num_bits,
                    "bits": hexed(bits, num_bits),
                    "random": random_bytes.hex(),
                    "result": hexed(pair.toss(bits, random_bytes), num_bits),
                }
            )
    return rows


def reports() -> list[dict[str, Any]]:
    """Metrics are those of metrics.json."""
    text = json.loads((HERE / "metrics.json").read_text())["metrics.toml"]
    metrics = parse_metrics(text).metrics
    values = {
        "homepage": ["", "example.org", "cafe\u0301"],
        "theme": ["light", "caf\u00e9"],
        "crashed": [False, True],
        "once": ["abc"],
        "usual_cell": ["north", "other"],
    }
    return [
        _report(metrics[name], secret, value)
        for name in values
        for value in values[name]
        for secret in SECRETS
    ]


def _report(metric: Any, secret: bytes, value: object) -> dict[str, Any]:
    drawn: list[bytes] = []
    source = FixedRandomness(len(metric.name))

    def recording(num_bytes: int) -> bytes:
        drawn.append(source(num_bytes))
        return drawn[-1]

    device = MetricEncoder(metric, secret, recording)
    bits, num_bits = device.value_bits(value), metric.params.num_bits
    report_bits = device.report_bits(bits)
    return {
        "metric": metric.name,
        "secret": secret.hex(),
        "value": value,
        "params_id": device.params_id,
        "cohort": device.cohort,
        "bloom_bits": hexed(bits, num_bits),
        "permanent_bits": hexed(device.permanent_bits(bits), num_bits),
        "ledger_digest": device.digest(bits).hex(),
        "random": drawn[0].hex(),
        "report_bits": report_bits.hex(),
    }


def periods() -> list[dict[str, Any]]:
    days = ("1970-01-01", "2026-11-15", "2026-11-16", "2026-11-30", "2026-12-01", "2028-02-29")
    return [
        {"period": period, "day": day, "number": period_number(period, _day(day))}
        for period in ("day", "week", "month")
        for day in days
    ]


def ledger() -> dict[str, Any]:
    metrics = parse_metrics(LEDGER_METRICS)
    recorder = Recorder(metrics.metrics, MemoryState(SECRETS[1]), budget=metrics.budget)
    return {
        "metrics.toml": LEDGER_METRICS,
        "secret": SECRETS[1].hex(),
        "operations": [
            {"metric": name, "value": value, "day": day, "outcome": _outcome(recorder, *operation)}
            for operation in OPERATIONS
            for name, value, day in [operation]
        ],
    }


def lives() -> dict[str, Any]:
    """Devices over several versions of an app: what holds, and what is refused."""
    texts = [version_text(*version) for version in VERSIONS]
    return {
        "secret": SECRETS[1].hex(),
        "versions": texts,
        "lives": [{"name": name, "steps": _life(life, texts)} for name, life in LIVES.items()],
        "weaker": [
            {"first": [first, n], "then": [then, m], "weaker": m * MOST_TOUCHED[first, then] > n}
            for first in ("day", "week", "month")
            for then in ("day", "week", "month")
            for n, m in ((1, 1), (2, 1), (6, 1), (7, 1), (30, 1), (31, 1), (1, 28))
        ],
    }


def _life(life: list[tuple[Any, ...]], texts: list[str]) -> list[dict[str, Any]]:
    state, version, steps = MemoryState(SECRETS[1]), 0, []
    recorder = None
    for act, *given in life:
        if act == "open":
            version = given[0]
            step = {"open": version}
        elif act == "consent":
            agree_budget(state, given[0])
            step = {"consent": given[0]}
        if act != "record" or recorder is None:
            metrics = parse_metrics(texts[version])
            recorder = Recorder(metrics.metrics, state, budget=metrics.budget)
        else:
            name, value, day = given
            step = {"metric": name, "value": value, "day": day}
            step["outcome"] = recorder.record(name, value, _day(day) * 86_400.0)
        budget = recorder.budget
        steps.append(step | {"budget": None if math.isinf(budget) else budget})
    return steps


def _outcome(recorder: Recorder, name: str, value: str, day: str) -> str:
    return recorder.record(name, value, _day(day) * 86_400 + NOON)


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - EPOCH_ORDINAL


def main() -> None:
    content = {
        "derivations": derivations(),
        "secret_checks": [
            {"secret": secret.hex(), "check": secret_check(secret).hex()} for secret in SECRETS
        ],
        "cohorts": cohorts(),
        "coins": coins(),
        "reports": reports(),
        "periods": periods(),
        "ledger": ledger(),
        "lives": lives(),
    }
    (HERE / "device.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
