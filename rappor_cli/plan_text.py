"""The plan of a listed metric as text."""

from __future__ import annotations

from decoder.tables.format import percent
from metric_design.plan import POWERS, Plan
from rappor_core.text import counted


def plan_lines(made: Plan) -> list[str]:
    """Return a plan as lines, its answer first."""
    params = made.metric.params
    lines = [
        made.answer,
        made.because,
        made.supposed,
        *([_solved(made)] if _given(made) else []),
        "smallest share found: "
        + ", ".join(
            f"{_share(s)} at {percent(p)}" for p, s in zip(POWERS, made.detectable, strict=True)
        )
        + f"; its 95 % interval is {percent(made.half_width)} either way",
        f"expected: {made.expected:.1f} of {made.listed:,} values found; not seen: {_unseen(made)}",
        *_periods(made),
        *([made.rough] if made.rough else []),
        f"epsilon: {params.epsilon_one:.3g} a report, {made.epsilon_year:.3g} a year of one value, "
        f"{made.metric.lifetime_epsilon:.3g} a life",
        made.in_words,
        *([made.weak] if made.weak else []),
        *made.published,
    ]
    if made.left is not None:
        lines.append(f"budget left for later metrics: {made.left:.3g} of {made.budget:.3g}")
    return lines


def _unseen(made: Plan) -> str:
    """What has less than an even chance."""
    if not made.unseen_values:
        return "none of them is missed more often than not"
    hold = f"that {percent(made.unseen_share)} of devices hold"
    return f"{made.unseen_values:,} value{'s' if made.unseen_values > 1 else ''} {hold}"


def _given(made: Plan) -> bool:
    """Whether the share that was given is more than is needed."""
    share, seen = made.request.share, made.design.share
    return made.solved == "share" and None not in (share, seen) and share > seen * 1.001  # type: ignore[operator]


def _solved(made: Plan) -> str:
    return (
        f"every number was given, nothing is solved for: share = {made.request.share:,.6g} is seen"
    )


def _periods(made: Plan) -> list[str]:
    """What one period shows, and what several of them together."""
    period = made.request.period
    if not made.pooled:
        return []
    merged = ""
    if made.merged > 1:
        merged = (
            f"; {made.merged} {period}s are served as one, since {made.request.devices:,.0f} "
            f"devices send fewer than min_reports = {made.metric.min_reports:,}"
        )
    told = ", ".join(
        f"{_share(share)} in {counted(number, period)}" for number, share in made.pooled
    )
    return [f"together: {told}{merged}"]


def _share(share: float | None) -> str:
    return "none" if share is None else percent(share)
