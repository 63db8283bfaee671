"""Audit of linked metrics, of which the collector sees that two reports are of one device.

Each device draws a value of each metric by a coin of its own. What is claimed: both reports
together cost the sum of both; the reports of one metric tell nothing of the other's value; their
noise is independent; both travel under one cohort, which depends on neither value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, exact, test
from privacy_audit.black_box.lives import Linked, LinkedLife, Value
from privacy_audit.black_box.noise import cohort_checks, noise_checks
from privacy_audit.black_box.noise_sums import MOST_BITS, noise_sums, residuals
from privacy_audit.black_box.observations import Floats, Integers, Observations, features, observe
from privacy_audit.black_box.power import correlated, one_of
from privacy_audit.black_box.scenario import Scenario, memoised, reports_text, start_days
from privacy_audit.black_box.scenarios import disjoint, values_of
from privacy_audit.black_box.sdk_client import SdkClient
from privacy_audit.black_box.trials import Trials
from privacy_audit.errors import client_errors
from rappor_core.metrics.association import Association
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.metric import Metric

BOX: Final = "linked"
PERIODS = 7
DEVICES_A_TASK = 500


class Watched(NamedTuple):
    """An association under audit, and how devices live with it.

    scenarios: of each side, whose two values a device draws from.  days: on which both record.
    """

    scenarios: tuple[Scenario, Scenario]
    days: tuple[int, ...]


class Lived(NamedTuple):
    """The observed devices of one task. worlds: (2, n), of each side. sides: what was seen of
    each.

    apart: devices in which a linked report had two cohorts, or whose reports were not linked.
    """

    worlds: Integers
    sides: tuple[Observations, Observations]
    apart: int


def watched(association: Association) -> Watched:
    """Choose two values of each metric, and periods in which both are recorded."""
    first, second = association.metrics
    periods = min(PERIODS, *(metric.max_reports or PERIODS for metric in association.metrics))
    sides = [
        memoised(metric, "device", disjoint(metric, values_of(metric)), periods)
        for metric in (first, second)
    ]
    days = [start_days(metric, periods) for metric in (first, second)]
    return Watched((sides[0], sides[1]), tuple(min(days)))


def live(metrics: str, name: str, number: int) -> Lived:
    """Let devices record both metrics of an association. metrics: compiled. Raises
    AuditedClientError."""
    file = read_compiled(metrics)
    association = next(one for one in file.associations if one.name == name)
    plan = watched(association)
    worlds = np.frombuffer(os.urandom(2 * number), dtype=np.uint8).astype(np.int64) & 1
    worlds = worlds.reshape(2, number)
    lives = [LinkedLife(os.urandom(32), _steps(plan, worlds[:, row])) for row in range(number)]
    with client_errors():
        seen = SdkClient(file).record_linked(association, lives)
        sides = [
            observe(
                file, scenario, worlds[side], [[pair[side] for pair in one] for one in seen],
                [scenario.values] * number,
            )
            for side, scenario in enumerate(plan.scenarios)
        ]  # fmt: skip
    return Lived(worlds, (sides[0], sides[1]), sum(_apart(association, one) for one in seen))


def _steps(plan: Watched, worlds: Integers) -> tuple[tuple[int, tuple[Value, Value]], ...]:
    first, second = (s.values[int(w)] for s, w in zip(plan.scenarios, worlds, strict=True))
    return tuple((day, (first, second)) for day in plan.days)


def _apart(association: Association, reports: list[Linked]) -> bool:
    """Whether two reports that travel together are not of one cohort."""
    if any(metric.params.num_cohorts == 1 for metric in association.metrics):
        return False
    return any(first.cohort != second.cohort for first, second in reports)


def tasks(devices: int) -> list[int]:
    """Split a number of devices into tasks; return their sizes."""
    whole, rest = divmod(devices, DEVICES_A_TASK)
    return [DEVICES_A_TASK] * whole + [rest] * (rest > 0)


def joined(parts: list[Lived]) -> Lived:
    """Join the devices of all tasks."""
    sides = [_all([part.sides[side] for part in parts]) for side in (0, 1)]
    worlds = np.concatenate([part.worlds for part in parts], axis=1)
    return Lived(worlds, (sides[0], sides[1]), sum(part.apart for part in parts))


def _all(parts: list[Observations]) -> Observations:
    """What was seen of one metric, of the devices of all tasks."""
    return Observations(
        reports=np.concatenate([part.reports for part in parts]),
        packed=np.concatenate([part.packed for part in parts]),
        number=np.concatenate([part.number for part in parts]),
        masks=np.concatenate([part.masks for part in parts], axis=1),
        packed_masks=np.concatenate([part.packed_masks for part in parts], axis=1),
        cohorts=np.concatenate([part.cohorts for part in parts]),
        world=np.concatenate([part.world for part in parts]),
        moved=sum(part.moved for part in parts),
        late=np.concatenate([part.late for part in parts]),
    )


def attacked(association: Association, lived: Lived) -> Iterator[tuple[Scenario, Trials]]:
    """Yield the attacks on linked reports: on both values from all reports, and on each value
    from the other metric's reports."""
    plan = watched(association)
    periods = len(plan.days)
    tables = [
        features(metric.params, seen)
        for metric, seen in zip(association.metrics, lived.sides, strict=True)
    ]
    same = lived.worlds[0] == lived.worlds[1]
    both = np.concatenate([tables[0] + tables[1], *(table[:, 2:] for table in tables)], axis=1)
    claim = sum(metric.params.epsilon_n(periods) for metric in association.metrics)
    yield (
        _scenario(association, f"both values, {reports_text(periods)} of each", plan, claim),
        Trials(both[same], lived.worlds[0][same], 0, None),
    )
    for own, other in ((0, 1), (1, 0)):
        of = association.metrics[own].name, association.metrics[other].name
        yield (
            _scenario(association, f"the value of {of[0]} from reports of {of[1]}", plan, 0.0),
            Trials(tables[other], lived.worlds[own], 0, None),
        )


def _scenario(association: Association, name: str, plan: Watched, claim: float) -> Scenario:
    base = plan.scenarios[0]
    return Scenario(
        name, association.name, BOX, base.worlds, len(plan.days), base.values, claim,
        expected=len(plan.days),
    )  # fmt: skip


def linked_checks(association: Association, lived: Lived) -> Iterator[Check]:
    """Number, cohort and noise of linked reports."""
    name, number = association.name, lived.worlds.shape[1]
    expected = len(watched(association).days)
    wrong = sum(max(int((seen.number != expected).sum()), seen.moved) for seen in lived.sides)
    yield exact(
        name, f"{expected} linked reports of a device, from one cohort", BOX,
        f"not so of {wrong:,} of the two times {number:,} series" if wrong else "",
        one_of(2 * number, "series of reports"),
    )  # fmt: skip
    yield exact(
        name, "both reports of a day are of one cohort", BOX,
        f"not so for {lived.apart:,} of {number:,} devices" if lived.apart else "",
        one_of(number, "devices"),
    )  # fmt: skip
    if wrong:
        return
    for metric, seen in zip(association.metrics, lived.sides, strict=True):
        yield from _noise(f"{name}: {metric.name}", metric, seen)
        yield from _later(f"{name}: {metric.name}", metric, seen)
    cohorts = max((seen.cohorts for seen in lived.sides), key=lambda found: int(found.max()))
    worlds = lived.worlds[0] * 2 + lived.worlds[1]
    counts = [
        np.bincount(cohorts[worlds == w], minlength=association.num_cohorts) for w in range(4)
    ]
    yield from cohort_checks(name, np.stack(counts).astype(float), BOX)
    yield _independent(association, lived)


def _noise(name: str, metric: Metric, seen: Observations) -> Iterator[Check]:
    """The last report of each device against the declared chances."""
    last = replace(seen, reports=seen.reports[:, -1:])
    for check in noise_checks(name, metric.params, noise_sums(metric.params, last), BOX):
        if "cohort" not in check.what:
            yield check


def _later(name: str, metric: Metric, seen: Observations) -> Iterator[Check]:
    """A device's reports share its permanent response."""
    if seen.reports.shape[1] > 1:
        yield from noise_checks(name, metric.params, noise_sums(metric.params, seen), BOX)


def _independent(association: Association, lived: Lived) -> Check:
    """Sums of residuals of each bit of one metric and each of the other: the worst pair."""
    sums: list[NDArray[np.float64]] = []
    for metric, seen in zip(association.metrics, lived.sides, strict=True):
        held = np.where(seen.world[:, None] == 0, seen.masks[0], seen.masks[1])
        total = np.zeros(held.shape)
        for report in range(seen.reports.shape[1]):
            total += residuals(metric.params, seen.reports[:, report], held, permanent=False)[0]
        sums.append(total[:, :MOST_BITS])
    products = sums[0].T @ sums[1]
    spread: Floats = np.sqrt((sums[0] ** 2).T @ (sums[1] ** 2))
    z = products / np.maximum(spread, 1e-9)
    worst = np.unravel_index(int(np.abs(z).argmax()), z.shape)
    found = float(z[worst])
    return test(
        association.name, "the noise of the two metrics is independent", BOX,
        bounds.normal_p_value(found) * z.size,
        f"bits {worst[0]} and {worst[1]} correlate most, with z = {found:.2f} "
        f"among {z.size:,} pairs", correlated(lived.worlds.shape[1], z.size),
    )  # fmt: skip
