"""The stages of an audit: trials, derivations, installations, in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from privacy_audit.black_box import (
    answers,
    apps,
    budgets,
    calendars,
    derivations,
    flow_turns,
    freshness,
    number_period,
    place_turns,
)
from privacy_audit.black_box.checks import Check, exact
from privacy_audit.black_box.noise import noise_checks
from privacy_audit.black_box.power import one_of
from privacy_audit.black_box.scenario import Scenario
from privacy_audit.black_box.trials import ClientSource, Trials, chunks, joined, run_chunk
from privacy_audit.errors import AuditedClientError, AuditError
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

ANSWERS = "the client answers without an error"
Progress = Callable[[str, int, int], None]
Lived = tuple[str, Scenario, Trials]
Task = tuple[str, str, Callable[..., list[Check]], tuple[object, ...]]


def run_trials(
    pool: Executor | None,
    source: ClientSource,
    every: list[tuple[Scenario, int]],
    progress: Progress,
) -> list[Trials | AuditedClientError]:
    """Run all chunks of all scenarios. every: called with the number of trials.

    A scenario in which the client raises an exception has that one as its result.
    """
    tasks = [(i, n) for i, (s, trials) in enumerate(every) for n in chunks(s, trials)]
    parts: list[list[Trials]] = [[] for _ in every]
    failed: dict[int, AuditedClientError] = {}
    for done, (i, part) in enumerate(_results(pool, source, every, tasks), 1):
        if isinstance(part, AuditedClientError):
            failed[i] = part
        else:
            parts[i].append(part)
        progress("trials", done, len(tasks))
    return [failed.get(i) or joined(part) for i, part in enumerate(parts)]


def _results(
    pool: Executor | None,
    source: ClientSource,
    every: list[tuple[Scenario, int]],
    tasks: list[tuple[int, int]],
) -> Iterator[tuple[int, Trials | AuditedClientError]]:
    """The scenario's number and the trials of each chunk, in the order in which they end."""
    if pool is None:
        failed = set()
        for i, number in tasks:
            try:
                if i not in failed:
                    yield i, run_chunk(source, every[i][0], number)
            except AuditedClientError as error:
                failed.add(i)
                yield i, error
        return
    futures: dict[Future[Trials], int] = {
        pool.submit(run_chunk, source, every[i][0], number): i for i, number in tasks
    }
    for future in as_completed(futures):
        try:
            yield futures[future], future.result()
        except AuditedClientError as error:
            yield futures[future], error


def checks_of(
    metric: Metric, scenario: Scenario, trials: Trials | AuditedClientError
) -> Iterator[Check]:
    """Yield the checks of a scenario that count its reports and test their noise."""
    if isinstance(trials, AuditedClientError):
        what = f"{scenario.name}: {ANSWERS}"
        yield exact(metric.base_name, what, scenario.box, str(trials))
        return
    number = len(trials.world)
    yield exact(
        metric.base_name,
        f"{scenario.name}: {scenario.expected} reports in a life, from one cohort", scenario.box,
        f"not so in {trials.wrong:,} of {number:,} lives" if trials.wrong else "",
        one_of(number, "lives"),
    )  # fmt: skip
    if trials.noise is not None:
        yield from noise_checks(metric.base_name, metric.params, trials.noise, scenario.box)


def derivation_checks(
    pool: Executor | None,
    another: Executor,
    file: MetricsFile,
    metric: Metric,
    source: ClientSource,
    devices: int,
) -> list[Check]:
    """Check what is derived from secrets; questions go to any process of the pool, the first one
    also to another process.

    another: a process outside the pool, in which the first question is asked again.
    """
    try:
        found = list(_derivation_checks(pool, another, file, metric, source, devices))
        if source.command is None:
            found += number_period.kept_over_periods(source, metric)
            found += place_turns.turn_checks(source, metric)
            found += flow_turns.flow_checks(source, metric)
        return found
    except AuditedClientError as error:
        return [exact(metric.base_name, ANSWERS, derivations.BOX, str(error))]


def _derivation_checks(
    pool: Executor | None,
    another: Executor,
    file: MetricsFile,
    metric: Metric,
    source: ClientSource,
    devices: int,
) -> Iterator[Check]:
    both, twin, other = derivations.sources(source, file.parts(metric.base_name))
    first, second = derivations.questions(metric, devices)
    asked = {
        "first": (both, metric.name, first),
        "value": (both, metric.name, second),
        "name": (both, twin, first),
        "version": (other, metric.name, first),
    }
    day = derivations.a_day(metric)
    later = another.submit(derivations.derive, both, metric.name, first)
    if pool is None:
        told = {key: derivations.derive(*question) for key, question in asked.items()}
        reports = derivations.second_round(both, metric.name, day, first)
    else:
        futures = {key: pool.submit(derivations.derive, *q) for key, q in asked.items()}
        late = pool.submit(derivations.second_round, both, metric.name, day, first)
        told = {key: future.result() for key, future in futures.items()}
        reports = late.result()
    again = later.result()
    one = told.pop("first")
    yield from derivations.derivation_checks(metric, one, {**told, "again": again})
    yield derivations.second_round_check(metric, one, reports)


def in_parts(
    pool: Executor | None, stage: str, tasks: list[Task], progress: Progress
) -> list[Check]:
    """Run tasks that each answer with checks; an exception in the client becomes a broken claim.

    tasks: the metric, the part of the audit, what is called, and its arguments.
    """
    found: list[Check] = []
    done = iter(range(1, len(tasks) + 1))
    if pool is None:
        for metric, box, function, arguments in tasks:
            try:
                found += function(*arguments)
            except AuditedClientError as error:
                found.append(exact(metric, ANSWERS, box, str(error)))
            progress(stage, next(done), len(tasks))
        return found
    futures = {pool.submit(task[2], *task[3]): task for task in tasks}
    for future in as_completed(futures):
        metric, box, *_ = futures[future]
        try:
            found += future.result()
        except AuditedClientError as error:
            found.append(exact(metric, ANSWERS, box, str(error)))
        progress(stage, next(done), len(tasks))
    return found


def answers_of(source: ClientSource, metric: Metric, devices: int, upkeep: bool) -> list[Check]:
    """The law of the answers of one metric."""
    some = [
        answers.live(source, metric.base_name, devices, clear=clear, upkeep=upkeep)
        for clear in (True, False)
    ]
    return list(answers.answer_checks(metric, some[0], some[1]))


def calendars_of(source: ClientSource, metric: Metric, upkeep: bool) -> list[Check]:
    """Check the permanent responses of one metric through calendars."""
    return list(calendars.calendar_checks(source, metric.base_name, upkeep=upkeep))


def budgets_of(source: ClientSource, names: tuple[str, ...], upkeep: bool) -> list[Check]:
    """Check the budgets over all metrics together."""
    return list(budgets.budget_checks(source, names, upkeep=upkeep))


def freshness_of(source: ClientSource, metric: Metric, reports: int) -> list[Check]:
    """Check how many reports of one metric are equal."""
    return list(freshness.freshness_checks(source, metric, reports))


def apps_of(chosen: list[Metric], app: str | None, processes: int, devices: int) -> list[Check]:
    """Check an app by its requests and files, with the chosen metrics."""
    return list(apps.app_checks(chosen, app, processes, devices))


@contextmanager
def workers(number: int) -> Iterator[Executor | None]:
    """Make worker processes that inherit nothing; None for 0. Raises AuditError where one is
    killed."""
    if not number:
        yield None
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    try:
        with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
            yield pool
    except BrokenProcessPool as error:
        raise AuditError(f"a worker process ended too early: {error}") from error
