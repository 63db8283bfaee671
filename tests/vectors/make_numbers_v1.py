"""Writes tests/vectors/v1/numbers.json. Run by hand when a metric of numbers means something else.

    python tests/vectors/make_numbers_v1.py

Beside the other vectors of version 1, none of which it changes: reports of numbers travel as any
others, and a client without the kind refuses its metrics file by name (docs/porting.md, part 12).
"""

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

from client_sdk import MemoryState, Recorder
from client_sdk.numbers import Collected, NumberRecorder
from client_sdk.randomization.key_derivation import jitter_of
from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.testing import FixedRandomness
from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.file import parse_metrics

HERE = Path(__file__).parent / "v1"
HEAD = """
[metrics.{name}]
kind = "number"
description = "A vector"
owner = "vectors@example.org"
expires = 2099-06-30
unit = "{unit}"
of_period = "{of}"
"""
MEMO = 'mode = "memo"\nepsilon_infinity = 1.0\nepsilon_one = 0.9\n'
TABLES = {
    "startup": ("ms", "median", 'edges = { scale = "log", from = 50, to = 60000 }\nnone = "apart"\n'
                'period = "week"\n' + MEMO),
    "crashes": ("crashes", "sum", 'edges = [1, 2.5, 10]\nwhole = true\nnone = "zero"\n' + MEMO),
    "balance": ("EUR", "last", 'edges = [-100, 0, 0.1, 100]\nnone = "apart"\n' + MEMO),
    "load": ("%", "mean", 'ask = "mean"\nedges = { scale = "linear", from = 0, to = 100 }\n'
             'none = "zero"\n' + MEMO),
    "size": ("bytes", "max", 'edges = { scale = "log", from = 1, to = 1e6, bins = 4 }\n'
             'ask = "mean"\nnone = "apart"\n' + MEMO),
    "visits": ("visits", "count", 'edges = [1, 2, 3, 5, 8, 13, 21]\nnone = "zero"\nmode = "once"\n'
               'epsilon = 2.0\nspread = 3\n'),
}  # fmt: skip
TOML = "".join(HEAD.format(name=n, unit=u, of=of) + more for n, (u, of, more) in TABLES.items())
BAD = {
    "edges that do not rise": ("edges = [1, 2.5, 10]", "edges = [1, 1]"),
    "a scale of logarithms from 0": ("from = 50", "from = 0"),
    "cohorts that no question divides": ('unit = "EUR"', 'unit = "EUR"\nnum_cohorts = 7'),
    "a fallback": ('unit = "EUR"', 'unit = "EUR"\nfallback = "x"'),
    "an unknown way to count no data": ('none = "zero"\n' + MEMO, 'none = "skip"\n' + MEMO),
    "a mean of a list": ("edges = [-100, 0, 0.1, 100]", 'edges = [1, 2]\nask = "mean"'),
    "whole means": ('of_period = "mean"', 'of_period = "mean"\nwhole = true'),
    "more symbols than answers": ("epsilon = 2.0", "epsilon = 2.0\nnum_symbols = 9"),
    "a spread of what is memoised": ('unit = "EUR"', 'unit = "EUR"\nspread = 2'),
}
VALUES: dict[str, list[Any]] = {
    "startup": [None, -0.0, 5e-324, 49.99999999999999, 50, 62.4014, 62.401399999999995, 1e300],
    "crashes": [None, 0, 1, 2, 3, 9, 10, 9007199254740993],
    "balance": [None, -1e300, -100, -99.99999999999999, -0.0, 0.1, 0.09999999999999999, 100],
    "load": [None, 0.0, 6.25, 12.5, 99.9, 100, 1e6],
    "size": [None, 0, 1, 1000, 1e6],
    "visits": [0, 1, 4, 8, 40],
}
REFUSED: list[tuple[str, Any]] = [
    ("startup", "812"), ("startup", True), ("startup", {"special": "NaN"}), ("startup", -1),
    ("startup", {"special": "Infinity"}), ("balance", {"special": "-Infinity"}), ("crashes", 1.5),
    ("startup", []),
]  # fmt: skip
RECORDED = {
    "startup": [[], [100.0], [100.0, 900.0], [1.0, 60.0, 70.0, 80.0, 5000.0]],
    "crashes": [[], [1.0, 1.0], [0.0]],
    "balance": [[5.0, -3.0]],
    "load": [[10.0, 20.0, 40.0]],
    "size": [[3.0, 70000.0, 12.0]],
    "visits": [[], [7.0, 7.0, 7.0]],
}
DAY0 = 20_500  # a Sunday


def make() -> dict[str, Any]:
    """All of it."""
    file = parse_metrics(TOML)
    secrets = [bytes([n]) * 32 for n in range(1, 9)]
    return {
        "metrics": {"metrics.toml": TOML, "document": compiled(file)},
        "bad_metrics": [{"why": why, "metrics.toml": _bad(*change)} for why, change in BAD.items()],
        "asked": {n: ["data" if math.isinf(cut) else cut for cut in m.details.asked]
                  for n, m in file.metrics.items()},
        "jitters": [
            {"secret": s.hex(), "metric": n, "params_id": file.metrics[n].params_id,
             "jitter": jitter_of(s, n, file.metrics[n].params_id)}
            for s, n in product(secrets, ("load", "size"))
        ],
        "symbols": [row for n in VALUES for row in _symbols(file.metrics[n], n)],
        "refused": [{"metric": name, "value": value} for name, value in REFUSED],
        "collected": [row for s, n in product(secrets, RECORDED) for row in _collected(file, s, n)],
        "lives": [_life(file, s) for s in secrets],
    }  # fmt: skip


def _bad(old: str, new: str) -> str:
    text = TOML.replace(old, new, 1)
    if text == TOML:
        raise ValueError(f"{old!r} stands nowhere")
    try:
        parse_metrics(text)
    except RapporError:
        return text
    raise ValueError(f"{new!r} is not refused")


def _symbols(metric: Any, name: str) -> list[dict[str, Any]]:
    number, g = metric.details, metric.params.num_bits
    jitters = (0.0, 0.25, 0.75) if number.ask == "mean" else (0.0,)
    return [
        {"metric": name, "cohort": cohort, "jitter": jitter, "value": value,
         "symbol": number.symbol(metric.rules.number(metric, value), cohort, g, jitter)}
        for cohort in range(number.stride(g))
        for jitter in jitters
        for value in VALUES[name]
    ]  # fmt: skip


def _collected(file: Any, secret: bytes, name: str) -> list[dict[str, Any]]:
    device = MetricEncoder(file.metrics[name], secret, FixedRandomness())
    rows = []
    for numbers in RECORDED[name]:
        collected = Collected(device, None)
        collected.begin(DAY0)
        for number in numbers:
            collected.take(number)
        symbol = collected.bits().bit_length() - 1
        rows.append({"secret": secret.hex(), "metric": name, "cohort": device.cohort,
                     "numbers": numbers, "symbol": symbol})  # fmt: skip
    return rows


STEPS: list[list[Any]] = [
    ["open", 0], ["crashes", 0, 2.0], ["crashes", 0, 1.0], ["startup", 1, 800.0], ["load", 1, 55.5],
    ["visits", 1, 1.0], ["look", 3], ["crashes", 3, 5.0], ["crashes", 2, 9.0], ["look", 4],
    ["startup", 9, 70.0], ["look", 25],
]  # fmt: skip


def _life(file: Any, secret: bytes) -> dict[str, Any]:
    """Days are counted from DAY0; `look` is the clock alone. Reports show B, before any coin."""
    state = MemoryState(secret)
    recorder = Recorder(file.metrics, state)
    device = NumberRecorder(file.metrics, state, recorder)
    reports: list[list[Any]] = []
    inner = recorder.record_bits

    def noted(name: str, bits: int, day: int) -> Any:
        outcome = inner(name, bits, day)
        if outcome == "queued":
            reports.append([name, day, bits.bit_length() - 1])
        return outcome

    recorder.record_bits = noted  # type: ignore[method-assign, assignment]
    for name, day, *numbers in STEPS:
        now = (DAY0 + day) * 86_400.0
        if numbers:
            device.record(name, numbers[0], now)
        else:
            device.roll(now)
    steps = [[name, DAY0 + day, *numbers] for name, day, *numbers in STEPS]
    return {"secret": secret.hex(), "steps": steps, "reports": sorted(reports)}


if __name__ == "__main__":
    (HERE / "numbers.json").write_text(json.dumps(make(), indent=1) + "\n")
