"""Maps of change from a density result: each window of a slot against the slot's first window."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from pyarrow import parquet

from decoder.output.palette import change_positions
from decoder.typing import Floats
from decoder_service.shell.errors import RequestError
from rappor_core.reserved import RESERVED

MOST_ROWS = 10  # of the table that stands before the script runs
_COLUMNS = ["since_first", "since_first_low", "since_first_high", "changed_since_first"]


def changes_data(drawn: bytes, table: bytes) -> dict[str, Any]:
    """The data that map.js draws: a map for each slot and window but the first of a slot.

    Args:
        drawn: map.json.
        table: density.parquet, in the same order.

    Raises:
        RequestError: no slot has two windows.
    """
    data = json.loads(drawn)
    size = len(data["names"])
    reserved = sum(name in data["maps"][0] for name in RESERVED)
    rows = parquet.read_table(io.BytesIO(table), columns=_COLUMNS)
    columns = np.stack([rows[name].to_numpy().astype(np.float64) for name in _COLUMNS])
    parts = columns.reshape(len(_COLUMNS), -1, size + reserved).transpose(1, 0, 2)
    first = {one["slot"]: one for one in reversed(data["maps"])}
    pairs = [
        (first[one["slot"]], one, part)
        for one, part in zip(data["maps"], parts, strict=True)
        if not np.isnan(part[0]).all()
    ]
    if not pairs:
        raise RequestError("its maps are of one window each: nothing is compared with another")
    top = max(float(np.abs(part[0, :size]).max()) for _, _, part in pairs) or 1e-9
    kept = ("cells", "names", "points", "called", "level", "unit", "scale", "around", "base")
    return {name: data[name] for name in kept} | {
        "difference": True,
        "reference": pairs[-1][0]["window"],
        "first": pairs[-1][1]["window"],
        "top": top,
        "maps": [_map(old, new, part, top, data["unit"], size) for old, new, part in pairs],
        "texts": data["texts"],
    }


def _map(
    old: dict[str, Any], new: dict[str, Any], part: Floats, top: float, unit: float, size: int
) -> dict[str, Any]:
    """What is drawn of a change of maps of `size` cells."""

    def counted(row: Floats) -> list[int]:
        numbers: list[int] = np.rint(row[:size] / unit).astype(np.int64).tolist()
        return numbers

    change, low, high, detected = part
    shade = change_positions(change[:size], detected[:size] > 0, top)
    return {
        "slot": new["slot"],
        "window": new["window"],
        "reports": new["reports"],
        "before": old["reports"],
        "floor": 0.0,
        **dict(zip(RESERVED, change[size:].tolist(), strict=False)),
        "unlisted": 0.0,
        "share": counted(change),
        "low": counted(low),
        "high": counted(high),
        "estimate": counted(change),
        "shade": np.rint(255 * shade).astype(int).tolist(),
        "visible": np.flatnonzero(detected[:size] > 0).tolist(),
        "source": "",
        "changed": {},
    }


def changes_view(data: dict[str, Any]) -> dict[str, Any]:
    """The variables of the template before the script runs: the largest changes of the last map."""
    one = next(each for each in data["maps"][::-1] if each["window"] == data["first"])
    detected, unit = set(one["visible"]), data["unit"]
    order = sorted(
        range(len(one["share"])), key=lambda i: (i not in detected, -abs(one["share"][i]))
    )
    rows = [_row(data, one, i, i in detected, unit) for i in order[:MOST_ROWS]]
    counts = [{"slot": each["slot"], "window": each["window"], "changed": len(each["visible"])}
              for each in data["maps"]]  # fmt: skip
    return {
        "shown": {"slot": one["slot"], "window": one["window"], "rows": rows},
        "counts": counts,
        "num_cells": len(data["cells"]),
        "reference": data["reference"],
        "texts": data["texts"],
    }


def _row(
    data: dict[str, Any], one: dict[str, Any], i: int, detected: bool, unit: float
) -> dict[str, Any]:
    called = data["called"]
    return {
        "name": data["names"][i],
        "called": called.get(str(i), called.get(i, "")),
        "visible": detected,
        "change": one["share"][i] * unit,
        "low": one["low"][i] * unit,
        "high": one["high"][i] * unit,
    }


def drawn_only(data: dict[str, Any]) -> bytes:
    """The data for map.js as JSON bytes."""
    shown = {name: value for name, value in data.items() if name not in ("texts", "reference")}
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
