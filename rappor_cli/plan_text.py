"""A plan on the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from decoder.results.warnings import percent
from metric_design.central_claim import claim_sentence
from metric_design.plan import POWERS, Plan
from rappor_cli.text import plain
from rappor_core.text import counted
from simulations.experiments.plan_preview import Preview


def print_plan(made: Plan, shown: Preview | None, findings: list[str], output: Path | None) -> None:
    """Print a plan. output: folder of its files, to name them."""
    console = Console()
    for line in _lines(made):
        console.print(plain(line), soft_wrap=True)
    if shown is not None:
        console.print(_preview_table(shown))
    for finding in findings:
        console.print(plain(finding), soft_wrap=True)
    console.print()
    for line in made.file_text.splitlines():
        console.print(plain(line), soft_wrap=True)
    if output is not None:
        console.print(plain(f"written: {output}/plan.html, plan.json, metrics.toml"))


def _lines(made: Plan) -> list[str]:
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
        *(sentence for sentence in (made.few_cohorts, made.rough) if sentence),
        f"epsilon: {params.epsilon_one:.3g} a report, {made.epsilon_year:.3g} a year of one value, "
        f"{made.metric.lifetime_epsilon:.3g} a life",
        made.in_words,
        *(sentence for sentence in (made.weak,) if sentence),
    ]
    lines += map(claim_sentence, made.claims)
    lines.append(f"against the collector itself: {made.risk.for_life}, without any condition")
    if made.no_claim:
        lines.append(f"no claim about published counts: {made.no_claim}")
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


def _preview_table(shown: Preview) -> Table:
    missed = f"; largest missed: {percent(shown.missed[1])}" if shown.missed else ""
    table = Table(title=f"Preview, invented: {shown.found} found, {shown.false} by mistake{missed}")
    for heading in ("value", "true", "estimate", "low", "high"):
        table.add_column(heading)
    for value, *numbers in shown.rows:
        table.add_row(plain(value), *map(percent, numbers))
    return table
