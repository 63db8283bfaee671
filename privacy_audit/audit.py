"""The whole audit of a client against its declared metrics: `rappor audit`.

Plan, run the trials of every scenario, test, and judge all at one level: the rate of false alarms
of a whole audit is at most `alpha`, split evenly over its attacks and tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from client_sdk.session import DO_NOT_TRACK, do_not_track
from privacy_audit.black_box import derivations, installed
from privacy_audit.black_box.attacks import attack
from privacy_audit.black_box.checks import Check, exact
from privacy_audit.black_box.crowd import installed_checks
from privacy_audit.black_box.errors import AuditError
from privacy_audit.black_box.exact_checks import exact_checks
from privacy_audit.black_box.noise import noise_checks
from privacy_audit.black_box.scenarios import Scenario, scenarios
from privacy_audit.black_box.trials import Source, Trials, chunks, joined, run_chunk
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.loading import MetricsFile
from rappor_core.metrics.metric import Metric

TRIALS = 1_000_000
SHARES = {1: 1.0, 7: 0.1, 30: 0.2}  # of the trials, by reports of a life in the encoder
DEVICE_SHARE = 0.02  # of the trials, with the ledger
FEWEST_TRIALS = 2_000
FEWEST_DEVICES = 600  # with a ledger, whose lives are long
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class AuditOptions:
    """How much is tried.

    trials: of a metric's single reports; the other numbers follow from it.
    alpha: the rate of false alarms of a whole audit.  training: share of trials on which attacks
    are chosen.  processes: workers; 0: everything in this process.
    installations: whole clients with files and HTTP, 0 for none; None: by the trials.
    """

    trials: int = TRIALS
    alpha: float = 0.01
    training: float = 0.25
    processes: int = 2
    installations: int | None = None

    @property
    def devices(self) -> int:
        """How many devices' derivations are compared."""
        return max(FEWEST_TRIALS, min(20_000, self.trials // 20))

    @property
    def crowd(self) -> int:
        """How many installations there are."""
        found = self.trials // 5_000 if self.installations is None else self.installations
        return found if self.installations is not None else max(24, min(200, found))

    def trials_of(self, scenario: Scenario) -> int:
        """How often a scenario is lived."""
        if scenario.box == "device":
            return max(FEWEST_DEVICES, round(self.trials * DEVICE_SHARE))
        share = SHARES[scenario.watched]
        if scenario.by_cohort:
            share = SHARES[7]
        return max(FEWEST_TRIALS, round(self.trials * share))


@dataclass(frozen=True)
class AuditResult:
    """client: what was audited.  level: of each attack and test.  notes: what was left out."""

    client: str
    metrics: tuple[Metric, ...]
    options: AuditOptions
    level: float
    checks: tuple[Check, ...]
    notes: tuple[str, ...]

    @property
    def broken(self) -> tuple[Check, ...]:
        """The claims that were rejected."""
        return tuple(check for check in self.checks if check.broken(self.level))


def audit(
    file: MetricsFile,
    options: AuditOptions,
    *,
    names: tuple[str, ...] = (),
    command: str | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit this project's SDK, or the client behind `command`.

    names: declared metrics to audit; none: all.  progress: told (stage, done, total) now and then.
    Raises AuditError where nothing can be audited or the program fails, and MetricsFileError for an
    unknown name.
    """
    chosen = [m for m in file.declared if m.base_name in names] if names else list(file.declared)
    for name in names:
        file.parts(name)
    source = Source(compiled_text(file), command)
    tell = progress or (lambda *_: None)
    notes = list(_notes(chosen, command))
    runs = [(m, s) for m in chosen for s in scenarios(m, upkeep=command is None)]
    if not runs:
        raise AuditError("no metric of the file can be audited with this client")
    with _workers(options.processes) as pool:
        trials = _run_trials(pool, source, [s for _, s in runs], options, tell)
        pending = [check for m in chosen for check in _other_checks(pool, file, m, source, options)]
    if command is None:
        pending += exact_checks(chosen)
    found: list[tuple[str, Scenario, Trials]] = [
        (m.base_name, s, t) for (m, s), t in zip(runs, trials, strict=True)
    ]
    if command is None and options.crowd and not do_not_track():
        for metric in chosen:
            if metric.location is None:
                lived, more = _installed(metric, options, tell)
                found += [(metric.base_name, s, t) for s, t in lived]
                pending += more
    for (metric, scenario), one in zip(runs, trials, strict=True):
        pending += _checks_of(metric, scenario, one)
    return _judged(command or "client_sdk", chosen, options, found, pending, notes)


def _judged(
    client: str,
    metrics: list[Metric],
    options: AuditOptions,
    found: list[tuple[str, Scenario, Trials]],
    pending: list[Check],
    notes: list[str],
) -> AuditResult:
    """Attack every scenario at the common level."""
    number = len(found) + sum(check.method == "test" for check in pending)
    level = options.alpha / number
    checks = []
    for name, scenario, trials in found:
        result = attack(trials.features, trials.world, scenario.claim, level, options.training)
        checks.append(
            Check(
                name,
                scenario.name,
                scenario.box,
                "attack",
                result.p_value,
                f"{result.right:,} of {result.guesses:,} guesses were right",
                scenario.claim,
                result,
            )
        )
    return AuditResult(
        client, tuple(metrics), options, level, tuple(checks + pending), tuple(notes)
    )


def _run_trials(
    pool: Executor | None,
    source: Source,
    every: list[Scenario],
    options: AuditOptions,
    progress: Progress,
) -> list[Trials]:
    """All chunks of all scenarios, the longest scenarios first."""
    tasks = [(i, n) for i, s in enumerate(every) for n in chunks(s, options.trials_of(s))]
    parts: list[list[Trials]] = [[] for _ in every]
    if pool is None:
        for done, (i, number) in enumerate(tasks, 1):
            parts[i].append(run_chunk(source, every[i], number))
            progress("trials", done, len(tasks))
    else:
        futures: dict[Future[Trials], int] = {
            pool.submit(run_chunk, source, every[i], number): i for i, number in tasks
        }
        for done, future in enumerate(as_completed(futures), 1):
            parts[futures[future]].append(future.result())
            progress("trials", done, len(tasks))
    return [joined(part) for part in parts]


def _checks_of(metric: Metric, scenario: Scenario, trials: Trials) -> Iterator[Check]:
    """The number of reports, and the noise of scenarios that serve for it."""
    number = len(trials.world)
    yield exact(
        metric.base_name,
        f"{scenario.name}: {scenario.expected} reports in a life, from one cohort", scenario.box,
        f"not so in {trials.wrong:,} of {number:,} lives" if trials.wrong else "",
    )  # fmt: skip
    if trials.noise is not None:
        yield from noise_checks(metric.base_name, metric.params, trials.noise, scenario.box)


def _other_checks(
    pool: Executor | None,
    file: MetricsFile,
    metric: Metric,
    source: Source,
    options: AuditOptions,
) -> Iterator[Check]:
    """What is derived from secrets, each question in whatever process is free."""
    if metric.location is not None and source.command is not None:
        return
    both, twin, other = derivations.sources(source, file.parts(metric.base_name))
    first, second = derivations.questions(metric, options.devices)
    asked = {
        "first": (both, metric.name, first),
        "value": (both, metric.name, second),
        "name": (both, twin, first),
        "version": (other, metric.name, first),
    }
    if pool is None:
        told = {key: derivations.derive(*question) for key, question in asked.items()}
        again = derivations.derive(both, metric.name, first)
        day = derivations.a_day(metric)
        reports = derivations.second_round(both, metric.name, day, first)
    else:
        futures = {key: pool.submit(derivations.derive, *q) for key, q in asked.items()}
        day = derivations.a_day(metric)
        late = pool.submit(derivations.second_round, both, metric.name, day, first)
        told = {key: future.result() for key, future in futures.items()}
        reports = late.result()
        with _workers(1) as fresh:  # a process that has never derived anything
            assert fresh is not None  # noqa: S101 (one worker)
            again = fresh.submit(derivations.derive, both, metric.name, first).result()
    one = told.pop("first")
    yield from derivations.derivation_checks(metric, one, {**told, "again": again})
    yield derivations.second_round_check(metric, one, reports)


def _installed(
    metric: Metric, options: AuditOptions, progress: Progress
) -> tuple[list[tuple[Scenario, Trials]], list[Check]]:
    """A crowd of installations, each task of each day in a process of its own."""

    days = len(installed.plan(metric, 1).steps)
    gone = iter(range(1, days + 1))

    def run(tasks: list[installed.Day]) -> list[installed.Sent]:
        progress(f"installations: {metric.base_name}", next(gone), days)
        with _workers(min(options.processes, len(tasks))) as pool:
            todo = map if pool is None else pool.map
            return list(todo(installed.run_day, tasks))

    return installed_checks(metric, options.crowd, max(1, options.processes), run)


def _notes(metrics: list[Metric], command: str | None) -> Iterator[str]:
    for metric in metrics:
        if metric.location is not None and command is not None:
            yield f"{metric.base_name}: not audited: the protocol of --command has no places"
        if metric.no_data is not None and command is not None:
            yield f"{metric.base_name}: no_data was not audited: the protocol has no upkeep"
    if command is not None:
        yield "files, queue, sending and exact enumeration are in the audit of this SDK alone"
    elif do_not_track():
        yield f"whole installations were left out: {DO_NOT_TRACK} is set"


@contextmanager
def _workers(number: int) -> Iterator[Executor | None]:
    """Worker processes that inherit nothing; None for 0."""
    if not number:
        yield None
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        yield pool
