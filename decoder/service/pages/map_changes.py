"""Maps of change: each window of a result against one window of the same or another result."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from pyarrow import parquet
from scipy.special import ndtr, ndtri

from decoder.inference.multiple_testing import decide_apart
from decoder.reports.palette import change_positions
from decoder.service.errors import RequestError
from decoder.typing import Flags, Floats
from rappor_core.reserved import RESERVED

ALPHA = 0.05
MOST_ROWS = 10  # of the table that stands before the script runs


@dataclass(frozen=True)
class OneMap:
    """A map of a result: the unbiased shares of its cells, reserved values last, (n + r,)."""

    slot: str
    window: str
    days: tuple[date | None, date | None]
    reports: int
    estimate: Floats
    std_error: Floats


@dataclass(frozen=True)
class ResultMaps:
    """The maps of a result. drawn: map.json, with outlines and names of the cells."""

    params_id: str
    drawn: dict[str, Any]
    maps: tuple[OneMap, ...]

    @property
    def windows(self) -> tuple[str, ...]:
        """Their names, oldest first."""
        return tuple(dict.fromkeys(one.window for one in self.maps))


@dataclass(frozen=True)
class Change:
    """After minus before, (n,) each. detected: after correction over the cells of the map."""

    difference: Floats
    low: Floats
    high: Floats
    detected: Flags


def read_maps(params_id: str, drawn: bytes, table: bytes) -> ResultMaps:
    """The maps of a result. drawn: map.json.  table: density.parquet, in the same order."""
    data = json.loads(drawn)
    names = ["first_day", "last_day", "estimate", "std_error", "reports"]
    rows = parquet.read_table(io.BytesIO(table), columns=names)
    size = len(data["cells"]) + (2 if data["maps"] and "no_data" in data["maps"][0] else 1)
    maps = []
    for number, one in enumerate(data["maps"]):
        part = rows.slice(number * size, size)
        days = (part["first_day"][0].as_py(), part["last_day"][0].as_py())
        maps.append(
            OneMap(
                slot=one["slot"],
                window=one["window"],
                days=days,
                reports=int(one["reports"]),
                estimate=part["estimate"].to_numpy(),
                std_error=part["std_error"].to_numpy(),
            )
        )
    return ResultMaps(params_id, data, tuple(maps))


def change(before: OneMap, after: OneMap, level: float, num_cells: int) -> Change:
    """The change of each cell and reserved value, of which the latter are the last.

    Cells are told from no change as one of all; reserved values each by itself.

    The errors are added as of different devices. A device that is in both and repeats its
    permanent answers makes a difference surer than that, never less sure.
    """
    difference = after.estimate - before.estimate
    error = np.hypot(before.std_error, after.std_error)
    p = 2 * np.asarray(ndtr(-np.abs(difference / error)))
    reserved = np.arange(len(p)) >= num_cells
    detected = decide_apart(reserved, p, np.zeros_like(p), "bh", ALPHA).detected
    half = -float(ndtri((1 - level) / 2)) * error
    return Change(difference, difference - half, difference + half, detected)


def changes_data(before: ResultMaps, after: ResultMaps, reference: str) -> dict[str, Any]:
    """What map.js draws: a map for each slot and window of `after` that can be compared.

    Args:
        before: the result that has the reference; the same one as `after` may be.
        after: the result whose windows are compared with it.
        reference: name of a window of `before`, "" for its first.

    Raises:
        RequestError: cells differ, or there is nothing to compare.
    """
    drawn = after.drawn
    if before.drawn["names"] != drawn["names"]:
        raise RequestError("the two maps have different cells; compare maps of one grid and level")
    if len({len(one.estimate) for one in (*before.maps, *after.maps)}) > 1:
        raise RequestError("one of the two maps tells `no_data` from `other`, and one does not")
    chosen = reference or before.windows[0]
    if chosen not in before.windows:
        raise RequestError(f"there is no window {chosen[:60]!a} in the earlier result")
    against = {one.slot: one for one in before.maps if one.window == chosen}
    same = before.params_id == after.params_id
    size = len(drawn["names"])
    pairs = [
        (against[one.slot], one, change(against[one.slot], one, drawn["level"], size))
        for one in after.maps
        if one.slot in against and not (same and _overlap(against[one.slot], one))
    ]
    if not pairs:
        raise RequestError(
            "no window is left to compare: those that share days are not independent; choose "
            "another window to compare with"
        )
    top = max(float(np.abs(found.difference[:size]).max()) for _, _, found in pairs) or 1e-9
    maps = [_map(old, new, found, top, drawn["unit"], size) for old, new, found in pairs]
    kept = ("cells", "names", "points", "called", "level", "unit", "scale", "around", "base")
    return {name: drawn[name] for name in kept} | {
        "difference": True,
        "reference": chosen,
        "first": maps[-1]["window"],
        "top": top,
        "maps": maps,
        "texts": drawn["texts"],
    }


def _overlap(one: OneMap, other: OneMap) -> bool:
    (first, last), (begin, end) = one.days, other.days
    if first is None or last is None or begin is None or end is None:
        return True
    return first <= end and begin <= last


def _map(
    old: OneMap, new: OneMap, found: Change, top: float, unit: float, size: int
) -> dict[str, Any]:
    """What is drawn of a change of maps of `size` cells."""

    def counted(part: Floats) -> list[int]:
        numbers: list[int] = np.rint(part[:size] / unit).astype(np.int64).tolist()
        return numbers

    told = found.detected[:size]
    shade = change_positions(found.difference[:size], told, top)
    return {
        "slot": new.slot,
        "window": new.window,
        "reports": new.reports,
        "before": old.reports,
        "floor": 0.0,
        **dict(zip(RESERVED, found.difference[size:].tolist(), strict=False)),
        "unlisted": 0.0,
        "share": counted(found.difference),
        "low": counted(found.low),
        "high": counted(found.high),
        "estimate": counted(found.difference),
        "shade": np.rint(255 * shade).astype(int).tolist(),
        "visible": np.flatnonzero(told).tolist(),
        "source": "",
        "changed": {},
    }


def changes_view(data: dict[str, Any]) -> dict[str, Any]:
    """What the template shows before the script runs: the largest changes of the last map."""
    one = next(each for each in data["maps"][::-1] if each["window"] == data["first"])
    told, unit = set(one["visible"]), data["unit"]
    order = sorted(range(len(one["share"])), key=lambda i: (i not in told, -abs(one["share"][i])))
    rows = [_row(data, one, i, i in told, unit) for i in order[:MOST_ROWS]]
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
    data: dict[str, Any], one: dict[str, Any], i: int, told: bool, unit: float
) -> dict[str, Any]:
    called = data["called"]
    return {
        "name": data["names"][i],
        "called": called.get(str(i), called.get(i, "")),
        "visible": told,
        "change": one["share"][i] * unit,
        "low": one["low"][i] * unit,
        "high": one["high"][i] * unit,
    }


def drawn_only(data: dict[str, Any]) -> bytes:
    """The data as map.js reads it."""
    shown = {name: value for name, value in data.items() if name not in ("texts", "reference")}
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
