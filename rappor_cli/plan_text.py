"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator

from decoder.tables.format import percent
from metric_design.list_forecast import POWERS, ListForecast
from metric_design.plan import Plan
from rappor_core.text import counted

_LEFT = 1e-2  # nats, above which the rest of a budget is worth a line


def plan_lines(made: Plan) -> list[str]:
    """Return a plan as lines, its answer first."""
    lines = [made.answer, made.because, made.supposed]
    if made.forecast is not None:
        lines += _forecast_lines(made, made.forecast)
    elif made.merged:
        lines.append(made.merged)
    lines += [*([made.weak] if made.weak else []), made.risk]
    lines += [] if made.forecast is None else made.forecast.published
    if made.left > _LEFT:
        lines.append(f"budget left for later metrics: {made.left:.3g} of {made.budget:.3g}")
    return lines


def _forecast_lines(made: Plan, forecast: ListForecast) -> Iterator[str]:
    """What of a list will be found, and how often."""
    params, metric = made.metric.params, made.metric
    found = zip(POWERS, forecast.detectable, strict=True)
    yield (
        "smallest share found: "
        + ", ".join(f"{_share(share)} at {percent(power)}" for power, share in found)
        + f"; its 95 % interval is {percent(forecast.half_width)} either way"
    )
    yield (
        f"expected: {forecast.expected:.1f} of {forecast.listed:,} values found; not seen: "
        f"{_unseen(forecast)}"
    )
    if forecast.pooled:
        shares = ", ".join(
            f"{_share(share)} in {counted(number, metric.period)}"
            for number, share in forecast.pooled
        )
        yield f"together: {shares}{f'; {made.merged}' if made.merged else ''}"
    if forecast.rough:
        yield forecast.rough
    yield (
        f"epsilon: {params.epsilon_one:.3g} a report, {forecast.epsilon_year:.3g} a year of one "
        f"value, {metric.lifetime_epsilon:.3g} a life"
    )


def _unseen(forecast: ListForecast) -> str:
    """What has less than an even chance."""
    if not forecast.unseen_values:
        return "none of them is missed more often than not"
    values = counted(forecast.unseen_values, "value")
    return f"{values} that {percent(forecast.unseen_share)} of devices hold"


def _share(share: float | None) -> str:
    return "none" if share is None else percent(share)
