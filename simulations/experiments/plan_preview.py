"""A fake window of a planned metric, decoded by the real decoder: what a result would look like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder import Candidates, DecodeOptions, Decoding, decode
from decoder.progress import Progress, silent
from metric_design.plan import Plan
from simulations.populations.draws import draw_aggregate

MOST_CANDIDATES = 20_000  # of a preview: more take long, and look the same
SHOWN = 12


@dataclass(frozen=True, slots=True)
class Preview:
    """The result of the decoded preview. rows: value, true share, estimate, low, high, largest
    estimate first.

    missed: the largest value that was not found, and its true share; None if all were.
    """

    rows: tuple[tuple[str, float, float, float, float], ...]
    found: int
    false: int
    missed: tuple[str, float] | None
    decoding: Decoding


def preview(
    plan: Plan,
    shares: NDArray[np.float64],
    rng: np.random.Generator,
    progress: Progress = silent,
) -> Preview:
    """Draw one window of the planned metric and decode it.

    Args:
        plan: whose metric, devices, periods and candidates are taken.
        shares: expected, largest first, (n,).
        rng: of the draw.
        progress: called with (stage, done, total) of the decoding.
    """
    setting, params = plan.design.setting, plan.metric.params
    number = min(setting.candidates, MOST_CANDIDATES)
    if params.scheme.own_bits:
        number = max(number, 2)
    values = _names(plan, number)
    held = np.zeros(number)
    held[: min(number, len(shares))] = shares[:number]
    held[-1] += max(0.0, 1 - held.sum())  # what is left is held by the last, "other"
    aggregate, holders = draw_aggregate(
        values, held / held.sum(), int(setting.devices), params, rng, plan.metric.name,
        reports_each=setting.reports_each,
    )  # fmt: skip
    options = DecodeOptions(
        correction=setting.correction, alpha=setting.alpha, repeats=float(setting.reports_each)
    )
    decoding = decode(aggregate, Candidates.from_strings(values), options, progress=progress)
    return _preview(decoding, dict(zip(values, (holders / holders.sum()).tolist(), strict=True)))


def _names(plan: Plan, number: int) -> list[str]:
    if plan.metric.categories:
        return list(plan.metric.categories)
    listed = plan.metric.params.scheme.value_names
    return list(listed) or [*(f"value-{i}" for i in range(1, number)), "other"]


def _preview(decoding: Decoding, truth: dict[str, float]) -> Preview:
    found = decoding.detected
    rows = [(r.value, truth.get(r.value, 0.0), r.share, r.low, r.high) for r in found[:SHOWN]]
    names = {part for row in found for part in row.value.split(" | ")}
    missed = max(
        ((v, s) for v, s in truth.items() if v not in names), key=lambda e: e[1], default=None
    )
    false = sum(1 for row in found if truth.get(row.value.split(" | ")[0], 0.0) == 0)
    return Preview(
        tuple(rows), len(found), false, missed if missed and missed[1] else None, decoding
    )
