"""Standard errors of the calibration's table against formulas, and what is not defined."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from rappor_cli.experiment_runs import manifest_of, markdown_lines
from simulations.experiments.calibration import CalibrationRun, RuleScore, RunScore, draw
from simulations.experiments.calibration_table import (
    HEADINGS,
    MeanOfRuns,
    _figure,
    cells_of,
    mean_over_runs,
    summarize,
)
from simulations.outcome import ExperimentOutcome


def test_differences_between_distributions_are_no_error():
    rng = np.random.default_rng(4)
    names = ["uniform"] * 40 + ["exp"] * 40
    noise = rng.normal(size=80)
    mean = mean_over_runs(list(np.repeat([0.0, 100.0], 40) + noise), names)
    assert mean.value == pytest.approx(50 + noise.mean())
    assert mean.error == pytest.approx(1 / np.sqrt(80), rel=0.2)


def test_one_run_of_a_distribution_has_no_error():
    assert math.isnan(mean_over_runs([1.0, 2.0, 3.0], ["uniform", "exp", "exp"]).error)


def _score(run, *, covered):
    rule = RuleScore(0.5, 0.0, False, 10, covered)
    rules = dict.fromkeys(("bonferroni", "bh", "fdr", "fdr-eb"), rule)
    cell = CalibrationRun("small", "typical", "uniform", run)
    return RunScore(cell, rules, 0.95, 1.0, 0.5, 0.6)


def test_pooled_figures_and_their_errors():
    """The error of a ratio against the spread over 300 repetitions."""
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(300):
        scores = [_score(run, covered=int(rng.binomial(10, 0.9))) for run in range(20)]
        rows += summarize(scores)
    covered = [row.coverage_detected["bh"] for row in rows]
    spread = np.std([mean.value for mean in covered])
    assert np.mean([mean.error for mean in covered]) == pytest.approx(spread, rel=0.25)
    assert np.mean([mean.value for mean in covered]) == pytest.approx(0.9, abs=0.005)


def test_coverage_is_pooled_of_rightly_found_values():
    """Lists of 10, 2 and no found values; 1 covered of 2 is as much of a list as 9 of 10."""
    counts = RuleScore(1, 0, False, 10, 9, 8, 8), RuleScore(1, 0, False, 2, 1, 1, 0)
    nothing = RuleScore(1, 0, False, 0, 0)
    scores = []
    for run, rule in enumerate((*counts, nothing)):
        score = _score(run, covered=1)
        scores.append(replace(score, rules=dict.fromkeys(score.rules, rule)))
    row = summarize(scores)[0]
    assert row.coverage_detected["fdr"].value == pytest.approx(10 / 12)
    assert row.coverage_right["fdr"].value == pytest.approx(8 / 9)
    assert row.coverage_by_list["fdr"].value == pytest.approx((0.9 + 0.5 + 1) / 3)
    nothing_right = summarize(scores[2:])[0]
    assert math.isnan(nothing_right.coverage_right["fdr"].value)


def test_markdown_and_json_of_a_run():
    rule = RuleScore(math.nan, 0.0, False, 0, 0)
    scores = [_score(run, covered=0) for run in (1, 2)]
    run = CalibrationRun("few rows", "nothing true", "exp", 1)
    rows = summarize(
        [
            replace(
                one, cell=run, rules=dict.fromkeys(one.rules, rule), oracle=math.nan, bound=math.nan
            )
            for one in scores
        ]
    )
    head, rule, line = markdown_lines(HEADINGS, map(cells_of, rows))
    assert head.count("|") == rule.count("|") == line.count("|") == len(HEADINGS) + 1
    assert line.startswith("| few rows nothing true (2) | - | - / - |")
    manifest = manifest_of("calibration", ExperimentOutcome(list(map(asdict, rows)), (), ()), {}, 1)
    told = json.loads(json.dumps(manifest, allow_nan=False))["rows"]
    assert told[0]["recall"]["bh"] == {"value": None, "error": None}
    assert told[0]["runs"] == 2


@pytest.mark.parametrize(
    ("mean", "shown"),
    [
        (MeanOfRuns(0.1234, 0.0123), ".12 ± .01"),
        (MeanOfRuns(0.12345, 0.0021), ".123 ± .002"),
        (MeanOfRuns(1.00034, 0.00011), "1.0003 ± .0001"),
        (MeanOfRuns(0.0, 0.0), ".000"),
        (MeanOfRuns(0.25, math.nan), ".250"),
        (MeanOfRuns(math.nan, math.nan), "-"),
    ],
)
def test_figures_have_the_digits_that_their_error_allows(mean, shown):
    assert _figure(mean) == shown


def test_null_lists_and_gapless_lists_are_drawn():
    nothing = draw(CalibrationRun("few rows", "nothing true", "exp", 1))
    assert len(nothing.true_shares) == 150
    assert not nothing.true_shares.any()
    full = draw(CalibrationRun("paper", "200", "exp", 1))
    assert full.true_shares.sum() == pytest.approx(1)
    assert full.observed.positions.shape == (200, 16, 2)
    tenth = draw(CalibrationRun("small", "loose", "exp", 1))
    assert (tenth.true_shares > 0).sum() == 90
    assert len(tenth.true_shares) == 110
