"""Whole installations under audit: `Client`, SQLite, queue, batches, HTTP on the loopback address.

Each day of all devices runs in a process of its own (`installed_day`): nothing but the state
directory goes from one day to the next. The devices make their own secrets.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special

from client_sdk.randomisation.key_derivation import SECRET_BYTES
from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, exact, test
from privacy_audit.black_box.installed_day import Day, Sent
from privacy_audit.black_box.lives import Seen, Step, Value
from privacy_audit.black_box.observations import Integers
from privacy_audit.black_box.scenario import Scenario, start_days
from privacy_audit.black_box.scenarios import disjoint, fillers, free, past_cap, values_of
from rappor_core.metrics.metric import Metric

BOX = "installed"
MEMOISED = 4  # reports of one value
PAST_CAP = 3  # reports of values for which there is no place
MOST_FILLERS = 3


@dataclass(frozen=True)
class Plan:
    """One crowd of installations.

    worlds: (2, n), one for the value, one for the value past the cap.
    steps: a day and, by pair of worlds, what is recorded.  past_cap: whether the cap is reached.
    """

    worlds: Integers
    steps: tuple[tuple[int, tuple[Value, Value], int], ...]
    past_cap: bool
    closing: int = 0  # days at the end that only close the period before


def left_out_of_installed(metric: Metric) -> str:
    """Why no installations of a metric are tried; "" where they are."""
    if metric.kind != "number":
        return ""
    if metric.details.mode == "once":
        return "installations were not audited: a device reports once in many periods"
    if metric.details.of_period == "count":
        return "installations were not audited: they record once a period"
    return ""


def plan(metric: Metric, devices: int) -> Plan:
    """Days: one of two values four times; then, where the cap is near, values past it."""
    others = free(metric, values_of(metric))
    a, b = disjoint(metric, others if len(others) > 1 else values_of(metric))
    many = min(MEMOISED, metric.max_reports or MEMOISED)
    pool = [v for v in others if v not in (a, b)]
    filling = fillers(metric, tuple(pool), 1)
    past = past_cap(metric, tuple(pool), [a, b, *(filling or [])])
    is_full = filling is not None and len(filling) <= MOST_FILLERS and many == MEMOISED
    is_full = is_full and len(past) > 1
    kept = list(filling or []) if is_full else []
    closing = int(metric.rules.collected)
    days = start_days(metric, many + closing + (len(kept) + PAST_CAP if is_full else 0))
    recorded = [((a, b), 0)] * (many + closing) + [((value, value), 0) for value in kept]
    if is_full:
        recorded += [((past[0], past[1]), 1)] * PAST_CAP
    worlds = np.frombuffer(os.urandom(2 * devices), dtype=np.uint8).astype(np.int64) & 1
    steps = tuple((d, pair, which) for d, (pair, which) in zip(days, recorded, strict=True))
    return Plan(worlds.reshape(2, devices), steps, is_full, closing)


def days_of(
    metrics: str, metric: str, twin: str, chosen: Plan, root: Path, workers: int
) -> Iterator[list[Day]]:
    """The tasks of each day, one for each worker; every task of a day before the next day."""
    devices = chosen.worlds.shape[1]
    parts = [range(start, devices, workers) for start in range(min(workers, devices))]
    for number, (day, pair, which) in enumerate(chosen.steps):
        yield [
            Day(
                metrics, metric, day,
                tuple(str(root / str(device)) for device in part),
                tuple(pair[chosen.worlds[which, device]] for device in part),
                twin if number == 0 else "",
            )
            for part in parts
        ]  # fmt: skip


def run_installed(
    metrics: str,
    metric: str,
    twin: str,
    chosen: Plan,
    workers: int,
    run: Callable[[list[Day]], list[Sent]],
) -> tuple[list[list[Seen]], list[list[Seen]], list[Sent]]:
    """All days. run: does the tasks of a day, each in a process of its own.

    Returns the reports of each device, in order, those of the twin, and what each task saw.
    """
    devices = chosen.worlds.shape[1]
    seen: list[list[Seen]] = [[] for _ in range(devices)]
    others: list[list[Seen]] = [[] for _ in range(devices)]
    everything: list[Sent] = []
    with tempfile.TemporaryDirectory(prefix="rappor-audit-") as root:
        for tasks in days_of(metrics, metric, twin, chosen, Path(root), workers):
            done = run(tasks)
            for start, sent in enumerate(done):
                for device, reports, other in zip(
                    range(start, devices, len(tasks)), sent.reports, sent.other, strict=True
                ):
                    seen[device] += reports
                    others[device] += other
            everything += done
    return seen, others, everything


def attacked(metric: Metric, chosen: Plan) -> list[tuple[Scenario, int, slice]]:
    """Scenarios over parts of the reports: with the row of worlds that they guess, and the part."""
    days: tuple[Step, ...] = tuple((day, pair[0]) for day, pair, _ in chosen.steps)
    (a, b), third = chosen.steps[0][1], metric.fallback
    expected = len(days) - chosen.closing
    many = sum(pair == (a, b) for _, pair, _ in chosen.steps) - chosen.closing
    first = Scenario(
        f"installed: disjoint values, {many} reports", metric.name, "installed",
        (days[:many], days[:many]), many, (a, b, a if third is None else third),
        metric.params.epsilon_n(many), expected=expected,
    )  # fmt: skip
    found = [(first, 0, slice(0, many))]
    if chosen.past_cap and third is not None:
        u, v = chosen.steps[-1][1]
        last = Scenario(
            f"installed: values past the cap, {PAST_CAP} reports", metric.name, "installed",
            (days[-PAST_CAP:], days[-PAST_CAP:]), PAST_CAP, (u, v, third), 0.0,
            expected=expected,
        )  # fmt: skip
        found.append((last, 1, slice(len(days) - PAST_CAP, None)))
    return found


def secret_check(metric: str, secrets: list[bytes]) -> Check:
    """Bytes of one secret, and those at one place of all secrets, are of many kinds.

    A bound, for any number of installations: n random bytes are of d kinds or fewer with
    probability C(256, d) (d / 256)^n at most.
    """
    short = sum(len(secret) < SECRET_BYTES for secret in secrets)
    if short:
        told = f"{short:,} of {len(secrets):,} have fewer than {SECRET_BYTES} bytes"
        return exact(metric, "secrets are random", BOX, told)
    table = np.array([list(secret[:SECRET_BYTES]) for secret in secrets], dtype=np.uint8)
    fewest, bounds_of = [], []
    for rows in (table, table.T):
        kinds = min(len(set(row.tolist())) for row in rows)
        log = special.gammaln(257) - special.gammaln(kinds + 1) - special.gammaln(257 - kinds)
        log += rows.shape[1] * math.log(kinds / 256) + math.log(len(rows))
        bounds_of.append(math.exp(min(log, 0.0)))
        fewest.append(kinds)
    return test(
        metric, "secrets are random", BOX, 2 * min(bounds_of),
        f"{fewest[0]} kinds of bytes or more in each of {len(secrets):,} secrets, {fewest[1]} or "
        "more at each place",
    )  # fmt: skip


def request_checks(metric: str, seen: list[list[Seen]], sent: list[Sent]) -> Iterator[Check]:
    """What stands around reports must not tell devices apart, or their batches together."""
    ids = [batch_id for one in sent for batch_id in one.batch_ids]
    repeated = len(ids) - len(set(ids))
    yield exact(
        metric, "every batch has an id of its own", BOX,
        f"{repeated:,} of {len(ids):,} ids came again" if repeated else "",
    )  # fmt: skip
    bits = np.unpackbits(np.frombuffer(bytes.fromhex("".join(ids)), dtype=np.uint8)).reshape(
        -1, 128
    )
    each = bounds.two_sided(bits.sum(axis=0), np.full(128, len(bits)), 0.5)
    yield test(
        metric, "batch ids are random", BOX, float(each.min()) * 128,
        f"bit {int(each.argmin())} is 1 in {int(bits[:, each.argmin()].sum()):,} of {len(bits):,}",
    )  # fmt: skip
    mixed = sum(one.mixed for one in sent)
    yield exact(
        metric, "a batch holds one metric", BOX,
        f"{mixed:,} batches held several: their cohorts are a fingerprint" if mixed else "",
    )  # fmt: skip
    headers: Counter[str] = sum((one.headers for one in sent), Counter())
    yield exact(
        metric, "requests of all devices have the same headers", BOX,
        f"{len(headers)} kinds of headers" if len(headers) > 1 else "",
    )  # fmt: skip
    strays = sum(one.strays for one in sent)
    yield exact(
        metric, "bodies hold reports and zeros alone", BOX,
        f"{strays:,} of {len(ids):,} bodies held something else" if strays else "",
    )  # fmt: skip
    secrets = [secret for one in sent for secret in one.secrets]
    if secrets:
        yield secret_check(metric, secrets)
    moved = sum(len({report.cohort for report in reports}) > 1 for reports in seen)
    yield exact(
        metric, "a device keeps its cohort over restarts", BOX,
        f"{moved:,} of {len(seen):,} devices changed it" if moved else "",
    )  # fmt: skip
