"""The page of a plan for a privacy officer to read and sign: one printable file, no script."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from decoder.output.jinja import page_template
from decoder.tables.format import percent
from metric_design.list_forecast import POWERS, ListForecast
from metric_design.plan import Plan
from rappor_core.risk import believed, percent_up, risk_of
from rappor_core.text import counted

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 260, 70, 40
RIGHT = 50  # Half the width of the widest number below the plot


def render_plan(plan: Plan, findings: Sequence[str] = ()) -> str:
    """Render the plan as one HTML page to print and sign.

    Args:
        plan: The plan to show.
        findings: The findings about trackability and cohorts in the whole metrics file.
    """
    page = page_template("plan.html.j2", "metric_design", number=number, percent_up=percent_up)
    return page.render(_context(plan) | {"findings": findings})


def number(value: float) -> str:
    """Format a number with separators if it is whole or large, or else with three digits."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _context(plan: Plan) -> dict[str, Any]:
    forecast, metric = plan.forecast, plan.metric
    assert forecast is not None  # noqa: S101 (only lists have a page)
    risk = risk_of(metric)
    epsilons = [("The only report of a device lifetime", risk.life)]
    if forecast.pooled:
        epsilons = [
            ("One report", risk.report),
            (f"A year of reports of one value (one per {metric.period})", forecast.epsilon_year),
            (f"A device lifetime, all {metric.max_memoized_values} values", risk.life),
        ]
    return {
        "plan": plan,
        "forecast": forecast,
        "metric": metric,
        "params": metric.params,
        "powers": list(zip(POWERS, forecast.detectable, strict=True)),
        "epsilons": [
            (what, value, believed(value), believed(value, 0.5)) for what, value in epsilons
        ],
        "picture": _picture(forecast, plan.precision),
        "width": WIDTH,
        "height": HEIGHT,
    }


def _picture(forecast: ListForecast, share: float) -> dict[str, Any]:
    """Return SVG coordinates for the smallest share by number of devices, on logarithmic axes."""
    points = [(n, share) for n, share in forecast.curve() if share is not None and n >= 1]
    shares = [share for _, share in points] or [1.0]
    low = math.floor(math.log10(min(shares)))
    devices = forecast.setting.devices
    first, last = math.log10(devices) - 2, math.log10(devices) + 2

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - first) / (last - first)

    def y(value: float) -> float:
        return 12 + (HEIGHT - BOTTOM - 12) * -math.log10(value) / -min(low, -1)

    path = " ".join(f"{x(n):.1f},{y(share):.1f}" for n, share in points)
    ticks = [10.0**e for e in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1) if e >= 0]
    return {
        "path": path,
        "x_ticks": [(x(n), number(n)) for n in ticks],
        "y_ticks": [(y(10.0**e), percent(10.0**e)) for e in range(min(low, -1), 1)],
        "here": (x(devices), y(share)),
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "bottom": HEIGHT - BOTTOM,
    }


_LEFT = 1e-2  # Nats; the remaining budget is mentioned above this


def plan_lines(plan: Plan) -> list[str]:
    """Return a plan as lines, its answer first."""
    lines = [plan.answer, plan.because, plan.supposed]
    if plan.forecast is not None:
        lines += _forecast_lines(plan, plan.forecast)
    elif plan.merged:
        lines.append(plan.merged)
    lines += [*([plan.weak] if plan.weak else []), plan.risk]
    lines += [] if plan.forecast is None else plan.forecast.published
    if plan.left > _LEFT:
        lines.append(f"budget left for later metrics: {plan.left:.3g} of {plan.budget:.3g}")
    return lines


def _forecast_lines(plan: Plan, forecast: ListForecast) -> Iterator[str]:
    """Yield lines on which of a list's values will be found, and how often."""
    params, metric = plan.metric.params, plan.metric
    pairs = zip(POWERS, forecast.detectable, strict=True)
    yield (
        "smallest share found: "
        + ", ".join(f"{_share(share)} at {percent(power)}" for power, share in pairs)
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
        yield f"decoded together: {shares}{f'; {plan.merged}' if plan.merged else ''}"
    if forecast.rough:
        yield forecast.rough
    yield (
        f"epsilon: {params.epsilon_one:.3g} per report, {forecast.epsilon_year:.3g} per year of "
        f"one value, {metric.lifetime_epsilon:.3g} per lifetime"
    )


def _unseen(forecast: ListForecast) -> str:
    if not forecast.unseen_values:
        return "none (each is more often detected than missed)"
    values = counted(forecast.unseen_values, "value")
    return f"{values} that {percent(forecast.unseen_share)} of devices have"


def _share(share: float | None) -> str:
    return "none" if share is None else percent(share)
