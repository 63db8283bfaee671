"""`report.html`: one page, self-contained, that can be shown to a customer."""

from __future__ import annotations

import math
from typing import Any

from decoder.output.jinja import page_template
from decoder.output.number_text import days, factor
from decoder.output.svg import forest
from decoder.results.tables import Decoding, Detected
from decoder.results.warnings import odd_cohorts
from decoder.typing import Floats
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.validation import WEB

SHOWN = 60  # rows of the picture and of the table; the files have all


def render_report(decoding: Decoding) -> str:
    """Render report.html."""
    return page_template("report.html.j2").render(_context(decoding))


def _context(decoding: Decoding) -> dict[str, Any]:
    detected = decoding.detected
    shown = detected[:SHOWN]
    cohort_z = decoding.diagnostics.cohort_z.tolist()
    return {
        "decoding": decoding,
        "summary": decoding.summary,
        "diagnostics": decoding.diagnostics,
        "detected": detected,
        "shown": shown,
        "forest": forest(shown),
        "notes": sorted({row.note for row in shown if row.note}),
        "weakest": min((row for row in detected if row.forged >= 0), key=_forged, default=None),
        "known": decoding.options.true_shares is not None,
        "covered": _covered(decoding),
        "false_found": sum(1 for row in detected if row.true_share == 0.0),
        "window": _window(decoding),
        "guarantee": guarantee(decoding.summary.epsilon_one, decoding.summary.epsilon_infinity),
        "promise": promise(decoding.options.correction, decoding.options.alpha),
        "p_heading": p_heading(decoding.options.correction),
        "method_text": method_text(
            decoding.diagnostics.method, decoding.options.correction, decoding.options.alpha
        )
        + weights_text(decoding.candidates.weight),
        "notes_text": decoding.notes,
        "cost": cost(decoding),
        "description": decoding.definition.get("description"),
        "level": f"{100 * decoding.options.level:g} %",
        "checked": not all(map(math.isnan, cohort_z)),
        "odd_cohorts": [
            (int(cohort), round(cohort_z[cohort], 1))
            for cohort in odd_cohorts(decoding.diagnostics.cohort_z)
        ],
    }


def _forged(row: Detected) -> float:
    return row.forged


def _covered(decoding: Decoding) -> int:
    return sum(
        1
        for row in decoding.detected
        if row.true_share is not None and row.low <= row.true_share <= row.high
    )


def _window(decoding: Decoding) -> str | None:
    known = decoding.first_day is not None and decoding.last_day is not None
    return days(decoding.first_day, decoding.last_day) if known else None


def guarantee(one: float, life: float) -> str:
    """A sentence with the epsilons that each device was promised.

    one, life: epsilon of a report, and of all that is ever sent of a value, in nats.
    """
    by_report = (
        f"one report changes the odds of any guess about a device's value at most "
        f"{factor(one)} times (epsilon = {one:.2f})"
    )
    if math.isinf(life):
        return (
            f"{by_report[0].upper()}{by_report[1:]}. There is no permanent response: the bound for "
            "a device's life is this one times its number of reports."
        )
    return (
        f"Each device randomised its own data before sending. To whoever sees everything that a "
        f"device ever sends about one value, the odds of any guess about that value change at most "
        f"{factor(life)} times (epsilon = {life:.2f}), for life; {by_report}."
    )


def cost(decoding: Decoding) -> str | None:
    """A sentence on what the metric's caps allow a device to spend in its life; None where not
    declared."""
    if not decoding.definition:
        return None
    metric = Metric.from_dict(decoding.definition)
    text = (
        f"A device memoises at most {metric.max_memoized_values:,} values of this metric, and "
        f"spends for life at most epsilon = {metric.lifetime_epsilon:.2f} on it."
    )
    if WEB not in metric.platforms:
        return text
    return (
        f"{text} A browser may delete its storage, and spends it again in each life of the "
        f"storage: epsilon = {metric.lifetime_epsilon_on(WEB):.2f} over {metric.lives:,} of them."
    )


def promise(correction: str, alpha: float) -> str:
    """A sentence with the correction's guarantee about the values found."""
    level = f"{100 * alpha:g} %"
    return {
        "bonferroni": f"the chance that any of them is wrong is at most {level} (Bonferroni)",
        "holm": f"the chance that any of them is wrong is at most {level} (Holm)",
        "bh": f"on average at most {level} of them are wrong (Benjamini-Hochberg)",
        "fdr": f"on average at most {level} of them are wrong (Benjamini-Hochberg-Storey)",
        "fdr-eb": f"on average at most {level} of them are wrong, by the fitted prior (local fdr)",
        "none": f"each of them had a chance of {level} to be listed by mistake: nothing corrects "
        "for the number of candidates",
    }[correction]


def method_text(method: str, correction: str, alpha: float) -> str:
    """A sentence that names the estimator and the rule."""
    name = "one bit a value" if method == "direct" else method
    return f"{name}, {correction} at {100 * alpha:g} %"


def weights_text(weights: Floats | None) -> str:
    """A sentence that weights divided the level unevenly, with their range; "" without weights."""
    if weights is None:
        return ""
    return (
        f", p-values divided by weights of {weights.min():.2g} to {weights.max():.2g}, declared "
        "before the counts were seen"
    )


def p_heading(correction: str) -> str:
    """Heading of the column of corrected p-values, by correction."""
    headings = {"fdr-eb": "Mean local fdr", "none": "p-value"}
    return headings.get(correction, "Corrected p")
