"""The findings of `rappor metrics check` about a metrics file; devices do not need this module."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from decoder.grid_cells import num_cells
from metric_design.cohorts import reports_to_serve
from metric_design.kind_design import Level, kind_design
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.errors import shown
from rappor_core.grid.box import Box
from rappor_core.grid.grid import MAX_CELLS, MAX_PAIRS
from rappor_core.metrics.keys import DEFAULT_MIN_REPORTS_PER_COHORT
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import WEB
from rappor_core.risk import (
    CROWD,
    believed,
    cohorts_affordable,
    groups_together,
    linked_by_groups,
    percent_up,
    public_groups,
    risk_of,
)
from rappor_core.text import counted

HALF_TURN, QUARTER_TURN = 180.0, 90.0  # Degrees
THINK, REFUSE = 0.2, 0.5  # Limits for the belief in an answer that was 1 % likely a priori
MAX_DAYS_TO_WAIT = 7  # `check` warns if a block's reports take longer than this and than a turn
SAFARI_DAYS = 7  # Days of use without a visit to a site after which Safari deletes its storage
LINKED = 0.05  # Fraction of devices that several metrics' cohorts link
CELLS_AN_EQUATION = 32  # Above this, a map from two symbols is hardly better than a flat map


@dataclass(frozen=True, slots=True)
class Finding:
    """A remark, warning or error of `rappor metrics check` about one metric."""

    level: Level
    metric: str
    message: str
    short: str = ""  # A one-line form; "" means the message up to its first colon or semicolon


def check_metrics(
    file: MetricsFile, *, today: date | None, population: int | None = None
) -> Iterator[Finding]:
    """Yield all findings about a metrics file, before it ships.

    Args:
        today: The date for expiry, and for the number of storage lifetimes until then; None skips
            both checks.
        population: The number of devices expected to report, for warnings about tracking.
    """
    if file.budget is None:
        yield Finding("warning", "", "no `budget` at the top: nothing bounds all metrics together")
    for metric in file.declared:
        if today is not None and metric.expires < today:
            yield Finding("error", metric.base_name, f"expired on {metric.expires}")
        if math.isinf(metric.params.epsilon_infinity) and metric.max_reports != 1:
            yield Finding(
                "warning",
                metric.base_name,
                f"no permanent response: {counted(metric.max_reports or 0, 'report')} may cost "
                f"epsilon {metric.lifetime_epsilon:.2f}; only the number of reports bounds it",
                "only the number of reports bounds what they reveal",
            )
        yield from _web(metric, today)
        yield from _idle_days(metric)
        yield from _domain(metric, population)
        yield from _rank(metric, population)
        yield from _identified(metric)
        if 0 < metric.keep_raw_days <= metric.accept_days:
            yield Finding(
                "warning",
                metric.base_name,
                f"raw reports are deleted after keep_raw_days = {metric.keep_raw_days} days, "
                f"before their day closes automatically (accept_days = {metric.accept_days}), "
                f"so they can never be exported; keep them for {metric.accept_days + 1} days or "
                "more, or for 0",
            )
        yield from _cohort_floor(metric, population)
        yield from _own_findings(metric, population)
        if population is not None:
            yield from _tracking(metric, population)
    if population is not None:
        yield from _together(file, population)


def verdict_on(metric: Metric, findings: Iterable[Finding]) -> tuple[str, list[str]]:
    """Summarize the findings about a metric.

    Args:
        metric: A declared metric.
        findings: The findings about all metrics of its file.

    Returns:
        "ship", "think" or "do not", and the reasons, errors first, without their remedies.
    """
    sure = believed(risk_of(metric).worst)
    mine = [finding for finding in findings if finding.metric == metric.base_name]
    errors, warnings = (
        [each.short or re.split("[:;] ", each.message)[0] for each in mine if each.level == level]
        for level in ("error", "warning")
    )
    bound = [f"a suspicion can rise to {percent_up(sure)}"] if sure > THINK else []
    if errors or sure > REFUSE:
        return "do not", [*errors, *bound, *warnings]
    return ("think" if bound or warnings else "ship"), [*bound, *warnings]


def _own_findings(metric: Metric, population: int | None) -> Iterator[Finding]:
    of_kind = kind_design(metric.kind).findings(metric, population)
    for level, message in (*_text_findings(metric), *of_kind):
        yield Finding(level, metric.base_name, message)


def _identified(metric: Metric) -> Iterator[Finding]:
    params = metric.params
    is_listed = bool(metric.rules.takes(metric))
    if params.scheme.hashed and params.num_cohorts == params.num_hashes == 1 and not is_listed:
        message = (
            "num_cohorts = 1 with num_hashes = 1: a string is one bit that others share, and its "
            "share cannot be distinguished from theirs; use num_hashes = 2 or more, or more cohorts"
        )
        yield Finding("error", metric.base_name, message)


def _text_findings(metric: Metric) -> Iterator[tuple[Level, str]]:
    """Report control characters in texts, and an empty fallback."""
    for key in ("description", "owner"):
        text = getattr(metric, key)
        if not all(character.isprintable() or character in "\n\t" for character in text):
            yield "error", f"{key} = {shown(text)} contains a control character: write plain text"
    if metric.fallback is not None and not metric.fallback.strip():
        message = (
            f"fallback = {shown(metric.fallback)} is blank: no list of candidates can contain "
            "it, so it cannot be decoded; use a word such as 'other'"
        )
        yield ("warning" if metric.fallback else "error"), message


def _web(metric: Metric, today: date | None) -> Iterator[Finding]:
    """Report the cost of browsers that delete their storage, and whether `lives` is sufficient."""
    if WEB not in metric.platforms:
        return
    lives = metric.lives or 1
    message = (
        f"in a browser up to epsilon {metric.lifetime_epsilon:.3f} per lifetime of its storage: "
        f"{metric.lifetime_epsilon_on(WEB):.3f} over the declared lives = {lives:,}; a browser "
        "cannot count its storage lifetimes, so the bound fails if there are more"
    )
    yield Finding("note", metric.base_name, message)
    if today is None:
        return
    most = max(0, (metric.expires - today).days) // SAFARI_DAYS + 1
    if lives < most:
        message = (
            f"lives = {lives:,} is too low: Safari deletes storage after {SAFARI_DAYS} days "
            f"without a visit, so {most:,} lifetimes are possible until {metric.expires}; "
            "declare that number, or an earlier expires"
        )
        yield Finding("warning", metric.base_name, message)


def equations(metric: Metric) -> int:
    """Return the number of a metric's free counts, which bounds the free cells of a map."""
    params = metric.params
    symbols = params.scheme.symbols
    return params.num_cohorts * (params.num_bits - 1 if symbols else params.num_bits)


def _rank(metric: Metric, population: int | None) -> Iterator[Finding]:
    """Warn of maps with too few free counts for their cells, for any number of devices."""
    if metric.location is None or metric.location.pairs or metric.params.scheme.own_bits:
        return
    grid, params, free = metric.location.grid, metric.params, equations(metric)
    cells = num_cells(grid, grid.finest)
    if cells <= free:
        return
    most = cohorts_affordable(CROWD * len(grid.levels), population or 0)
    each = free // params.num_cohorts
    kind = "symbols" if params.scheme.symbols else "bits"
    sizes = (
        f"{params.num_cohorts} cohorts of {params.num_bits} {kind} are {free:,} equations for "
        f"{cells:,} cells"
    )
    if population is not None and most > params.num_cohorts:
        message = (
            f"{sizes}: more devices do not make the map finer; {population:,} devices fill "
            f"{most} cohorts ({most * each:,} equations) with {CROWD:,} each: use num_cohorts = "
            f"{most}"
        )
        yield Finding("warning", metric.base_name, message)
    if cells > CELLS_AN_EQUATION * max(free, most * each):
        coarse = max(free, most * each) * CELLS_AN_EQUATION
        message = (
            f"{sizes}, {cells / free:.0f} for each: such a map is hardly better than a flat one; "
            f"use {coarse:,} cells or fewer (a coarser level), more cohorts or {kind}, or mode = "
            "'window' or 'once' with num_bits = 32"
        )
        yield Finding("warning", metric.base_name, message)


def _together(file: MetricsFile, population: int) -> Iterator[Finding]:
    """Warn if several metrics' public cohorts together single out devices."""
    revealing = [metric for metric in file.declared if public_groups(metric) > 1]
    groups = groups_together(revealing)
    linked = linked_by_groups(groups, population)
    if len(revealing) < 2 or linked <= LINKED:
        return
    turns = groups // math.prod(metric.params.num_cohorts for metric in revealing)
    each = cohorts_affordable(CROWD * turns, population, len(revealing))
    cohorts = "1 cohort" if each == 1 else f"{each} cohorts or fewer"
    message = (
        f"the cohorts, levels and turns of {len(revealing)} metrics form {groups:,} groups, "
        f"which alone link {linked:.1%} of {population:,} devices if an observer knows which "
        f"batches come from one device; use {cohorts} in each, ask each device for fewer "
        "metrics, or send through a relay, which hides that"
    )
    yield Finding("warning", "", message)


def _cohort_floor(metric: Metric, population: int | None) -> Iterator[Finding]:
    """Warn of cohorts with few reports, and of days that would wait too long for them."""
    floor = metric.cohort_floor
    if floor < DEFAULT_MIN_REPORTS_PER_COHORT:
        message = (
            f"a cohort in an aggregate may have only {counted(floor, 'report')}, protected by "
            "little but the noise of each; use min_reports_per_cohort = "
            f"{DEFAULT_MIN_REPORTS_PER_COHORT}"
        )
        yield Finding("warning", metric.base_name, message)
    if population is None:
        return
    turns = metric.rules.turns(metric) * PERIOD_DAYS[metric.period]
    a_day = population * metric.max_reports_per_period / turns
    needed = reports_to_serve(metric)
    ever = population * (metric.max_reports or math.inf)
    if needed > ever:
        message = (
            f"{population:,} devices send {ever:,.0f} reports in their lifetime, and a block "
            f"needs about {needed:,}: nothing is ever served; use more devices, "
            f"{_fewer_cohorts(metric)}, or reports in every period"
        )
        yield Finding("warning", metric.base_name, message)
    elif needed > max(MAX_DAYS_TO_WAIT, turns) * a_day:  # Waiting for a full turn is by design
        message = (
            f"about {counted(needed, 'report')} are needed until each of "
            f"{metric.params.num_cohorts} cohorts has min_reports_per_cohort = {floor}, and "
            f"{population:,} devices send at most {a_day:,.0f} a day: days are served "
            f"{needed / a_day:,.0f} at a time; use {_fewer_cohorts(metric)}"
        )
        yield Finding("warning", metric.base_name, message)


def _fewer_cohorts(metric: Metric) -> str:
    if metric.params.num_cohorts > metric.rules.cohort_step(metric):
        return "fewer cohorts"
    return metric.rules.fewer_cohorts(metric)


def _idle_days(metric: Metric) -> Iterator[Finding]:
    """Warn of slots that some periods lack, because a report is due in every period."""
    if metric.location is None or metric.period != "day":
        return
    for slot in metric.location.slots:
        if slot.days != "all":
            yield Finding(
                "warning",
                metric.base_name,
                f"slot '{slot}' has no hours on some days, but a report is due every day: it is "
                f"`{metric.no_data or metric.fallback}` on those days, at the same cost; use "
                "period = 'week'",
            )


def _domain(metric: Metric, population: int | None) -> Iterator[Finding]:
    """Report too many or too few cells, and a box that is probably a mistake."""
    if metric.location is None:
        return
    grid, pairs = metric.location.grid, metric.location.pairs
    cells = num_cells(grid, grid.finest)
    values, most = (cells**2, MAX_PAIRS) if pairs else (cells, MAX_CELLS)
    kind = "pairs of cells" if pairs else "cells"
    coarser = f"at level {grid.finest}; use a coarser level or a smaller box"
    if values > most:
        message = f"about {values:,} {kind}, but at most {most:,} can be mapped, {coarser}"
        yield Finding("error", metric.base_name, message)
    elif cells < 2:
        message = f"one cell at level {grid.finest}, so every place is the same; use a finer level"
        yield Finding("warning", metric.base_name, message)
    elif population is not None and values > population:
        message = f"about {values:,} {kind} for {population:,} devices, {coarser}"
        yield Finding("warning", metric.base_name, message)
    if not _towns(grid.box) and _towns(_exchanged(grid.box)):
        message = (
            f"box = {_ends(grid.box)} contains no town, but would with latitude and longitude "
            "swapped: the order is [south, west, north, east]"
        )
        yield Finding("warning", metric.base_name, message)
    if grid.box.west > grid.box.east and grid.box.width > HALF_TURN:
        message = (
            f"the box runs {grid.box.width:g} degrees to the east, over the antimeridian, from "
            f"west = {grid.box.west:g} to east = {grid.box.east:g}; are they swapped?"
        )
        yield Finding("warning", metric.base_name, message)


def _ends(box: Box) -> list[float]:
    return [box.south, box.west, box.north, box.east]


def _exchanged(box: Box) -> Box | None:
    if max(abs(box.west), abs(box.east)) > QUARTER_TURN or box.west >= box.east:
        return None
    return Box(box.west, box.south, box.east, box.north)


def _towns(box: Box | None) -> int:
    if box is None:
        return 0
    from decoder.output.basemap import View, num_towns  # The import takes half a second

    return num_towns(View(box.west, box.south, box.west + box.width, box.north))


def _tracking(metric: Metric, population: int) -> Iterator[Finding]:
    """Warn if a device's permanent response would single it out in its cohort.

    The instantaneous noise averages out over reports, so an observer who can link enough reports
    learns the permanent bits: k bits of entropy H(q1) each, compared with the size of a cohort."""
    levels = 1 if metric.location is None else len(metric.location.grid.levels)
    groups = metric.params.num_cohorts * levels
    crowd = population / groups
    if crowd < CROWD and groups > 1:
        yield Finding("warning", metric.base_name, _small_crowd(metric, levels, population))
    if metric.location is not None:
        return  # `rappor metrics check` itself runs the attack
    if metric.max_reports == 1:
        return  # One report per lifetime, so no second report can be linked
    lie = metric.params.mechanism.q1 / (1 << 16)
    entropy = -lie * math.log2(lie) - (1 - lie) * math.log2(1 - lie) if 0 < lie < 1 else 0.0
    pattern = metric.params.num_bits * entropy
    enough = math.log2(max(crowd, 2))
    if pattern > enough:
        yield Finding(
            "warning",
            metric.base_name,
            f"a permanent response of {metric.params.num_bits} bits has about {pattern:.0f} "
            f"bits that distinguish devices, and {enough:.0f} single out a device in a cohort "
            f"of {crowd:.0f}: long series of reports could be linked; use num_bits = "
            f"{max(1, int(enough / entropy))} or less, or {_fewer_cohorts(metric)}",
        )


def crowd_of(metric: Metric, population: int | None) -> int:
    """Return the number of devices with equal public attributes, or the recommended number.

    The recommended number is returned if the population is unknown."""
    if population is None:
        return CROWD
    levels = 1 if metric.location is None else len(metric.location.grid.levels)
    return max(1, population // (metric.params.num_cohorts * levels))


def _small_crowd(metric: Metric, levels: int, population: int) -> str:
    """Describe the cost of a small crowd, and the number of cohorts that a population allows."""
    cohorts, groups = metric.params.num_cohorts, metric.params.num_cohorts * levels
    linked = groups * (1 - (1 - 1 / groups) ** population) / population
    step = metric.rules.cohort_step(metric)
    most = cohorts_affordable(CROWD * levels, population) // step * step
    use = "1 cohort" if most == 1 else f"{most} cohorts or fewer"
    if most == 0:
        use = metric.rules.fewer_cohorts(metric)
    elif step > 1:
        use = f"{use}, a multiple of {step}" if most > step else f"{step} cohorts"
    if most and cohorts <= most:
        use = "fewer levels"
    elif levels > 1:
        use += ", or fewer levels"
    each = f" at each of {levels} levels" if levels > 1 else ""
    what = "the public cohort narrows"
    what = "the public cohort and level narrow" if levels > 1 else what
    return (
        f"about {population / groups:.0f} devices in each of {cohorts} cohorts{each}: {what} the "
        f"crowd, and alone link{'' if levels > 1 else 's'} {linked:.1%} of devices from one batch "
        f"to the next; use {use}"
    )
