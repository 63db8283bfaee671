"""The information loss for each k, and the choice of a k."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from disclosure_control.errors import TableError
from disclosure_control.k_anonymity.anonymise import anonymise
from disclosure_control.k_anonymity.columns import Columns


def loss_by_k(
    table: Mapping[str, Sequence[str]], columns: Columns, ks: Sequence[int]
) -> dict[int, float]:
    """The mean height loss, in [0, 1], of the greedy algorithm at each k."""
    return {k: anonymise(table, columns, k).height_loss for k in ks}


def choose_k(losses: Mapping[int, float], *, smallest: int, max_loss: float) -> int:
    """The smallest k of `smallest` or more whose loss is at most `max_loss`.

    Raises TableError if there is none: accept a greater loss, a smaller k, or fewer columns.
    """
    admissible = [k for k, loss in losses.items() if k >= smallest and loss <= max_loss]
    if not admissible:
        raise TableError(f"no k of {smallest} or more loses {max_loss} or less: {dict(losses)}")
    return min(admissible)


def loss_picture(losses: Mapping[int, float]) -> str:
    """The loss against k as an SVG drawing: k on a logarithmic axis, loss from 0 to 1."""
    ks = sorted(losses)
    span = max(math.log(ks[-1] / ks[0]), 1e-9)
    at = {k: (60 + 500 * math.log(k / ks[0]) / span, 260 - 230 * losses[k]) for k in ks}
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in at.values())
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>k = {k}: {losses[k]:.3f}</title></circle>'
        f'<text x="{x:.1f}" y="280" text-anchor="middle">{k}</text>'
        for k, (x, y) in at.items()
    )
    levels = "".join(
        f'<path d="M60 {260 - 230 * y:.0f}H560" stroke="#ddd"/>'
        f'<text x="50" y="{264 - 230 * y:.0f}" text-anchor="end">{y:g}</text>'
        for y in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 310" font-family="sans-serif" '
        f'font-size="12">{levels}<polyline points="{points}" fill="none" stroke="#1f77b4"/>{marks}'
        '<text x="310" y="302" text-anchor="middle">k</text>'
        '<text x="14" y="145" transform="rotate(-90 14 145)" text-anchor="middle">mean loss</text>'
        "</svg>\n"
    )
