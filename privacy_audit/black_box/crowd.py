"""A crowd of whole installations of one metric: its trials, and what its requests show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from privacy_audit.black_box import derivations, installed
from privacy_audit.black_box.checks import Check, exact, test
from privacy_audit.black_box.installed_day import Day, Sent
from privacy_audit.black_box.lives import Seen
from privacy_audit.black_box.noise import cohort_checks, noise_checks
from privacy_audit.black_box.noise_sums import (
    noise_sums,
    permanent_table,
    product_test,
    residuals,
)
from privacy_audit.black_box.observations import features, observe
from privacy_audit.black_box.scenario import Scenario
from privacy_audit.black_box.trials import Trials
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.loading import MetricsFile
from rappor_core.metrics.metric import Metric

Run = Callable[[list[Day]], list[Sent]]


def installed_checks(
    metric: Metric, devices: int, workers: int, run: Run
) -> tuple[list[tuple[Scenario, Trials]], list[Check]]:
    """Let a crowd live, attack it and look at its requests.

    workers: tasks of a day.  run: does them, each in a process of its own.
    """
    metric = metric.replace(cohort_with=None)  # whose other metric is not in the crowd's file
    both, twin, _ = derivations.twins([metric])
    both = both.replace(metrics={**both.metrics, metric.name: metric})
    chosen = installed.plan(metric, devices)
    text = compiled_text(both)
    seen, others, sent = installed.run_installed(text, metric.name, twin, chosen, workers, run)
    checks = list(installed.request_checks(metric.base_name, seen, sent))
    checks += together_checks(both, metric, chosen, seen, others)
    lived = []
    for scenario, row, part in installed.attacked(metric, chosen):
        trials, more = _trials_of_installed(both, scenario, chosen.worlds[row], seen, part)
        lived.append((scenario, trials))
        checks += more
    return lived, checks


def together_checks(
    file: MetricsFile,
    metric: Metric,
    chosen: installed.Plan,
    seen: list[list[Seen]],
    others: list[list[Seen]],
) -> Iterator[Check]:
    """Two metrics that take one value on one day: their noise is drawn apart.

    others: of the twin, on the first day.
    """
    rows = [i for i, (own, twin) in enumerate(zip(seen, others, strict=True)) if own and twin]
    if not rows or metric.rules.collected:  # whose cuts may have moved
        return
    values = chosen.steps[0][1]
    tables = []
    for reports in (seen, others):
        firsts = [reports[i][0] for i in rows]
        raw = [int.from_bytes(one.bits, "little") for one in firsts]
        held = [
            file.metrics[one.metric].value_bits(values[chosen.worlds[0, i]], one.cohort)
            for i, one in zip(rows, firsts, strict=True)
        ]
        k = metric.params.num_bits
        shown, own = permanent_table(raw, k), permanent_table(held, k)
        tables.append(residuals(metric.params, shown, own, permanent=False))
    z, p_value = product_test(metric.params, tables[0], tables[1], permanent=False)
    yield test(
        metric.base_name, "the noise of two metrics is independent", "installed", p_value,
        f"reports of {len(rows):,} devices correlate with those of a second metric, z = {z:.2f}",
    )  # fmt: skip


def _trials_of_installed(
    file: MetricsFile, scenario: Scenario, world: np.ndarray, seen: list[list[Seen]], part: slice
) -> tuple[Trials, list[Check]]:
    """The watched part of each installation's reports, and the tests of its noise."""
    metric = file.parts(scenario.metric)[0]
    pairs = [scenario.values] * len(seen)
    observed = observe(file, scenario, world, [reports[part] for reports in seen], pairs)
    wrong = sum(len(reports) != scenario.expected for reports in seen)
    trials = Trials(features(metric.params, observed), world, wrong, None)
    found = [
        exact(
            metric.base_name,
            f"{scenario.name}: {scenario.expected} reports in a life",
            "installed",
            f"not so in {wrong:,} of {len(seen):,} lives" if wrong else "",
        )
    ]
    if part.start == 0 and not wrong:
        found += noise_checks(
            metric.base_name, metric.params, noise_sums(metric.params, observed), "installed"
        )
        counts = [
            np.bincount(observed.cohorts[world == w], minlength=metric.params.num_cohorts)
            for w in (0, 1)
        ]
        found += cohort_checks(metric.base_name, np.stack(counts).astype(float), "installed")
    return trials, found
