"""The table of the calibration: means over runs, each with its standard error."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulations.experiments.calibration import RULES, RuleScore, RunScore
from simulations.experiments.calibration_settings import SIZES

# The recall and false share of google/rappor's R decoder in these settings, measured once.
REFERENCE: Mapping[tuple[str, str], tuple[float, float]] = {
    ("small", "typical"): (0.50, 0.03),
    ("small", "sharp"): (0.48, 0.0),
    ("small", "loose"): (0.83, 0.05),
    ("small", "over_x2"): (0.39, 0.14),
    ("small", "over_x10"): (0.29, 0.21),
    ("medium", "typical"): (0.09, 0.06),
    ("medium", "sharp"): (0.10, 0.0),
    ("medium", "loose"): (0.21, 0.05),
    ("medium", "over_x2"): (0.04, 0.26),
    ("medium", "over_x10"): (0.02, 0.43),
}

FOUND = ("bh", "fdr", "fdr-eb")  # Rules for which the intervals of detected values are shown
HEADINGS = (
    "setting (runs)",
    "R",
    "oracle / bound",
    *(f"{rule}: recall / false" for rule in RULES),
    "family-wise error",
    "covered: all",
    *(f"found ({rule}): all / rightly / by list" for rule in FOUND),
    "five heaviest",
    "z² of wrong",
)


@dataclass(frozen=True)
class MeanOfRuns:
    """A mean over runs and its standard error; NaN if undefined or unknown."""

    value: float
    error: float


NOTHING = MeanOfRuns(float("nan"), float("nan"))


@dataclass(frozen=True)
class Row:
    """The summary of all runs with one size and configuration, by rule if a rule decides.

    Attributes:
        coverage_detected: The coverage of all detected values, pooled over the runs.
        coverage_right: The coverage of the detected values that devices hold, pooled over the runs.
        coverage_by_list: The mean over runs of the covered fraction of detected values, 1 if there
            are none: 1 - the false coverage rate of Benjamini and Yekutieli 2005.
        oracle: The recall with Bonferroni of an oracle that knows the support (`RunScore`).
        bound: The recall of an oracle that knows every other share.
        heaviest: The coverage of the heaviest listed values' intervals as `fdr` prints them.
        not_converged: The number of runs in which no fit converged.
        refused: The number of runs in which the method returned no answer.
    """

    size: str
    configuration: str
    runs: int
    recall: Mapping[str, MeanOfRuns]
    false_proportion: Mapping[str, MeanOfRuns]
    family_wise: Mapping[str, MeanOfRuns]
    coverage: MeanOfRuns
    coverage_detected: Mapping[str, MeanOfRuns]
    coverage_right: Mapping[str, MeanOfRuns]
    coverage_by_list: Mapping[str, MeanOfRuns]
    detected: Mapping[str, int]
    wrong_z_squared: MeanOfRuns
    oracle: MeanOfRuns
    bound: MeanOfRuns
    heaviest: MeanOfRuns = NOTHING
    not_converged: int = 0
    refused: int = 0


def summarize(scores: Sequence[RunScore]) -> list[Row]:
    """Summarize runs into one row for each size and configuration, in the order of the tables."""
    rows = []
    for size, parts in SIZES.items():
        for configuration in parts.configurations:
            key = (size, configuration)
            some = [s for s in scores if (s.cell.size, s.cell.configuration) == key]
            if some:
                rows.append(_row(size, configuration, some))
    return rows


def _row(size: str, configuration: str, some: Sequence[RunScore]) -> Row:
    names = [score.cell.distribution for score in some]

    def mean(values: Sequence[float]) -> MeanOfRuns:
        return mean_over_runs(values, names)

    def by_rule(field: str) -> dict[str, MeanOfRuns]:
        return {r: mean([float(getattr(s.rules[r], field)) for s in some]) for r in RULES}

    return Row(
        size,
        configuration,
        len(some),
        by_rule("recall"),
        by_rule("false_proportion"),
        by_rule("any_false"),
        mean([score.coverage for score in some]),
        {rule: _pooled(some, rule, "covered", "detected") for rule in RULES},
        {rule: _pooled(some, rule, "right_covered", "right") for rule in RULES},
        {rule: mean([_covered_part(s.rules[rule]) for s in some]) for rule in RULES},
        {rule: sum(score.rules[rule].detected for score in some) for rule in RULES},
        mean([score.wrong_z_squared for score in some]),
        mean([score.oracle for score in some]),
        mean([score.bound for score in some]),
        mean([score.heaviest for score in some]),
        sum(not score.converged for score in some),
        sum(score.refused for score in some),
    )


def mean_over_runs(values: Sequence[float], distributions: Sequence[str]) -> MeanOfRuns:
    """Return the mean over runs and its standard error over draws, with fixed distributions.

    The error is NaN if a distribution was run once. Runs without a result (no value is held, or
    the method returned no answer) are skipped."""
    x, names = np.asarray(values), np.asarray(distributions)
    defined = ~np.isnan(x)
    if not defined.any():
        return NOTHING
    x, names = x[defined], names[defined]
    variance = 0.0
    for name in np.unique(names):
        part = x[names == name]
        variance += len(part) * part.var(ddof=1) if len(part) > 1 else np.nan
    return MeanOfRuns(float(x.mean()), float(np.sqrt(variance)) / len(x))


def _covered_part(rule: RuleScore) -> float:
    return rule.covered / rule.detected if rule.detected else 1.0


def _pooled(some: Sequence[RunScore], rule: str, part: str, whole: str) -> MeanOfRuns:
    """Return the ratio of two counts summed over all runs, with its standard error."""
    parts, wholes = (
        np.array([getattr(score.rules[rule], name) for score in some], dtype=float)
        for name in (part, whole)
    )
    if not wholes.any():
        return NOTHING
    share = parts.sum() / wholes.sum()
    squares = ((parts - share * wholes) ** 2).sum()
    return MeanOfRuns(float(share), float(np.sqrt(squares) / wholes.sum()))


def cells_of(row: Row) -> list[str]:
    """Return the strings of one line of the table, in the order of `HEADINGS`."""
    reference = REFERENCE.get((row.size, row.configuration))
    return [
        _name(row),
        "-" if reference is None else " / ".join(map(_short, reference)),
        f"{_figure(row.oracle)} / {_figure(row.bound)}",
        *(f"{_figure(row.recall[r])} / {_figure(row.false_proportion[r])}" for r in RULES),
        _figure(row.family_wise["bonferroni"]),
        _figure(row.coverage),
        *(" / ".join(map(_figure, _of_found(row, rule))) for rule in FOUND),
        _figure(row.heaviest),
        _figure(row.wrong_z_squared),
    ]


def _of_found(row: Row, rule: str) -> tuple[MeanOfRuns, MeanOfRuns, MeanOfRuns]:
    return row.coverage_detected[rule], row.coverage_right[rule], row.coverage_by_list[rule]


def _name(row: Row) -> str:
    failures = (row.not_converged, "not converged"), (row.refused, "refused")
    notes = [str(row.runs), *(f"{count} {what}" for count, what in failures if count)]
    return f"{row.size} {row.configuration} ({', '.join(notes)})"


def _figure(mean: MeanOfRuns) -> str:
    """Format mean ± standard error, to the digits that the error justifies, or - if undefined."""
    if math.isnan(mean.value):
        return "-"
    if math.isnan(mean.error) or mean.error < 5e-5:
        return _short(mean.value, 3)
    digits = min(max(math.ceil(-math.log10(mean.error)), 2), 4)
    return f"{_short(mean.value, digits)} ± {_short(mean.error, digits)}"


def _short(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"
