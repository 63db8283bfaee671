"""Maps of change: each window of a slot against an earlier one, as map.js draws them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from decoder.comparison.differences import Differences, RelativeChanges, relative_changes
from decoder.density.maps import Density
from decoder.output.density_text import window_text
from decoder.output.map_data import counted
from decoder.output.map_picture import first_shown, map_picture
from decoder.output.palette import change_positions
from rappor_core.grid.box import RESERVED

MOST_ROWS = 10  # of the table that stands before the script runs
MOST_NUMBERS = 1_000_000  # cells times pairs of windows: some 20 MB; of more, the first as base
_DIGITS = 4  # of relative changes: hundredths of a per cent

Pair = tuple[Density, Density, Differences]


def map_changes(maps: Sequence[Density]) -> dict[str, Any] | None:
    """What map.js draws in place of the maps, beside `density_html.map_data` of the same maps.

    A map for each slot and pair of windows, an earlier one as the base; None where no slot has two
    windows. Where those are too many, each window against the first.
    """
    pairs = list(_pairs(maps))
    if not pairs:
        return None
    if len(pairs) * maps[0].num_cells > MOST_NUMBERS:
        pairs = [pair for pair in pairs if pair[2] is pair[1].since_first]
    relative = [_relative(*pair) for pair in pairs]
    top = _largest(found.difference[: one.num_cells] for _, one, found in pairs)
    most = min(_largest(one.change[~np.isnan(one.change)] for one in relative), 1.0)
    bases = list(dict.fromkeys(window_text(old) for old, _, _ in pairs))
    first = [new for old, new, _ in pairs if window_text(old) == bases[0]]
    return {
        "difference": True,
        "reference": bases[0],
        "bases": bases,
        "first": window_text(first[-1]),
        "top": top,
        "top_relative": most,
        "maps": [_map(*pair, part, top, most) for pair, part in zip(pairs, relative, strict=True)],
    }


def _pairs(maps: Sequence[Density]) -> Iterable[Pair]:
    """Base, later window and change, by bases and then windows in their order."""
    slots: dict[str, list[Density]] = defaultdict(list)
    for one in maps:
        slots[one.slot_text].append(one)
    most = max(len(windows) for windows in slots.values())
    for base in range(most):
        for number in range(base + 1, most):
            for windows in slots.values():
                if number < len(windows) and base < len(windows[number].since):
                    yield windows[base], windows[number], windows[number].since[base]


def _largest(parts: Iterable[Any]) -> float:
    return max((float(np.abs(part).max()) for part in parts if len(part)), default=0.0) or 1e-9


def _relative(old: Density, new: Density, found: Differences) -> RelativeChanges:
    """The changes of cells as parts of their shares in the base, both among the same answers."""
    size = new.num_cells
    inside = old.in_box if new.fitted else 1.0
    base = old.estimate[:size] / inside, old.std_error[:size] / inside
    change = found.difference[:size], found.std_error[:size]
    return relative_changes(change, base, new.options.level)


def _map(
    old: Density,
    new: Density,
    found: Differences,
    relative: RelativeChanges,
    top: float,
    most: float,
) -> dict[str, Any]:
    """What is drawn of a change between two windows; `no_data` only where it is declared."""
    size = new.num_cells
    change, detected = found.difference[:size], found.detected[:size]
    part = np.nan_to_num(relative.change)
    ends = np.stack([relative.change, relative.low, relative.high], axis=1).round(_DIGITS)
    return {
        "slot": new.slot_text,
        "window": window_text(new),
        "base": window_text(old),
        "reports": new.num_reports,
        "before": old.num_reports,
        "detectable_share": 0.0,
        **dict(zip(RESERVED, found.difference[size:].tolist(), strict=False)),
        "unlisted": 0.0,
        "share": counted(change),
        "low": counted(found.low[:size]),
        "high": counted(found.high[:size]),
        "estimate": counted(change),
        "shade": np.rint(255 * change_positions(change, detected, top)).astype(int).tolist(),
        "relative": {int(i): ends[i].tolist() for i in np.flatnonzero(~np.isnan(relative.change))},
        "relative_shade": np.rint(255 * change_positions(part, detected, most))
        .astype(int)
        .tolist(),
        "detected": np.flatnonzero(detected).tolist(),
        "source": "",
        "changed": {},
    }


def changes_view(data: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of the template before the script runs: the largest changes of the last map.

    data: map.json, with what `map_changes` made in place of its maps.
    """
    shown = [each for each in data["maps"] if each.get("base") in (None, data["reference"])]
    data = {**data, "maps": shown}
    one = first_shown(data)
    detected, unit, relative = set(one["detected"]), data["unit"], one.get("relative", {})
    order = sorted(
        range(len(one["share"])), key=lambda i: (i not in detected, -abs(one["share"][i]))
    )
    rows = [
        {
            "name": data["names"][i],
            "called": data["called"].get(str(i), ""),
            "detected": i in detected,
            "change": one["share"][i] * unit,
            "low": one["low"][i] * unit,
            "high": one["high"][i] * unit,
            "relative": relative.get(str(i)),
        }
        for i in order[:MOST_ROWS]
    ]
    counts = [{"slot": each["slot"], "window": each["window"], "changed": len(each["detected"])}
              for each in shown]  # fmt: skip
    return {
        "shown": {"slot": one["slot"], "window": one["window"], "rows": rows},
        "counts": counts,
        "num_cells": len(data["cells"]),
        "reference": data["reference"],
        "bases": data.get("bases", []),  # of an older result: none but the first
        "picture": map_picture(data),
        "texts": data["texts"],
    }
