"""The whole audit of a client against its declared metrics: `rappor audit`.

Plan, run the trials of every scenario, test, and judge all at one level: the rate of false alarms
of a whole audit is at most `alpha`, split evenly over its attacks and tests.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from client_sdk.session import DO_NOT_TRACK, do_not_track
from privacy_audit.black_box import answers, apps, derivations, freshness
from privacy_audit.black_box.attacks import Trials, attack, chunks, joined, run_chunk
from privacy_audit.black_box.checks import Check, counted, exact
from privacy_audit.black_box.noise import noise_checks
from privacy_audit.black_box.program_client import OWN_PROGRAM, ClientSource
from privacy_audit.black_box.scenarios import (
    Scenario,
    left_out,
    reports_at_once,
    scenarios,
    why_not,
)
from privacy_audit.errors import AuditedClientError, AuditError
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

TRIALS = 1_000_000  # of all metrics
MAX_TRIALS = 1_000_000  # of one metric
SHARES = {1: 1.0, 7: 0.05, 30: 0.08}  # of the trials, by reports of a life in the encoder
DEVICE_SHARE = 0.0125  # of the trials, with the ledger
MIN_TRIALS = 2_000
MIN_DEVICES = 400  # with a ledger, whose lives are long
ENOUGH_DEVICES = 1_500  # that bare reports of half of them exceed a claim of 4 nats
FEW_SHARE = 0.375  # of few trials, with the ledger, up to ENOUGH_DEVICES
MAX_DEVICES = 6_000
TRAINING = 0.5  # of the trials, on which attacks are chosen
MIN_ANSWERING, MAX_ANSWERING = 300, 5_000
PARTS = (
    "encoder", "device", answers.PART, freshness.PART, derivations.PART, apps.PART,
)  # fmt: skip
ANSWERS = "the client answers without an error"
NOT_TESTED = (
    "the budget of all metrics together, a person's level, silent periods, versions of the app and "
    "hours of the day are not tested: the protocol has none of them"
)
NOT_TESTED_OF_APPS = (
    "of requests and files not tested: a queue that overflowed, delays and the time of sending, "
    "more than one period, other hosts, logs, the randomness of secrets"
)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class AuditOptions:
    """The size of an audit: how many devices, which parts, at which rate of false alarms.

    trials: of a metric's single reports; the other numbers follow from it.
    alpha: the rate of false alarms of a whole audit.  processes: programs that run at the same
    time.
    parts: of the audit, of `PARTS`.  apps: devices of each group in the part `app`; 0 for none.
    """

    trials: int = TRIALS
    alpha: float = 0.01
    processes: int = 2
    parts: tuple[str, ...] = PARTS
    apps: int = apps.DEVICES

    def trials_of(self, scenario: Scenario) -> int:
        """Return the number of trials of a scenario."""
        if scenario.part == "device":
            few = min(ENOUGH_DEVICES, round(self.trials * FEW_SHARE))
            return max(MIN_DEVICES, few, min(MAX_DEVICES, round(self.trials * DEVICE_SHARE)))
        share = SHARES.get(scenario.watched, SHARES[7])
        return max(MIN_TRIALS, round(self.trials * share))


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit. client: what was audited. level: of each attack and test. notes:
    what was left out."""

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

    @property
    def untested(self) -> tuple[Check, ...]:
        """Claims that this run could not have shown to be broken; they do not count as holding."""
        return tuple(c for c in self.checks if c.verdict(self.level) == "not tested")

    @property
    def verdict(self) -> str:
        """The outcome of the audit in a sentence."""
        held = len(self.checks) - len(self.broken) - len(self.untested)
        untested = f", {len(self.untested)} not tested" if self.untested else ""
        if self.broken:
            return f"{len(self.broken)} of {len(self.checks)} claims are broken{untested}"
        return f"{held} claims tested, none broken{untested}"


def audit(
    file: MetricsFile,
    options: AuditOptions,
    *,
    names: tuple[str, ...] = (),
    command: str | None = None,
    app: str | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit a client, and an app that has it.

    Args:
        file: Declares the metrics.
        options: The size of the audit.
        names: Declared metrics to audit; none: all.
        command: The client's program; None: this SDK's.
        app: A program with the client in it; None: this SDK's, if `command` is None, too.
        progress: Called with (stage, done, total).

    Raises:
        AuditError: If nothing can be audited or a program does not start or answer.
        MetricsFileError: If a name is not declared.
    """
    for name in names:
        file.parts(name)
    declared = [m for m in file.declared if not names or m.base_name in names]
    chosen = [metric for metric in declared if not why_not(metric)]
    notes = list(_notes(declared, command, app))
    if not chosen:
        raise AuditError("no metric can be audited: " + "; ".join(notes))
    source = ClientSource(compiled_text(file), command or OWN_PROGRAM)
    show = progress or (lambda *_: None)
    pool = ThreadPoolExecutor(max(options.processes, 1))  # each thread waits for a program
    try:
        lived, checks = _attacked(pool, source, chosen, options, show)
        checks += _checked(pool, source, chosen, options, show)
    finally:
        pool.shutdown(cancel_futures=True)  # an error drops what has not begun
    if apps.PART in options.parts and options.apps and not _no_app(command, app):
        show(apps.PART, 0, 1)
        asked = chosen, app or OWN_PROGRAM, options.processes, options.apps
        checks += _without_errors("", apps.PART, apps.app_checks, *asked)
        show(apps.PART, 1, 1)
    number = len(lived) + sum(check.method == "test" for check in checks)
    level = options.alpha / max(number, 1)
    attacks = []
    for metric, scenario, trials in lived:
        result = attack(trials.features, trials.world, scenario.claim, level, TRAINING)
        attacks.append(
            Check(
                metric.base_name, scenario.name, scenario.part, "attack", result.p_value,
                f"{result.right:,} of {result.guesses:,} guesses were right",
                claim=scenario.claim, attack=result,
            )
        )  # fmt: skip
    client, found = command or "client_sdk", (*attacks, *checks)
    return AuditResult(client, tuple(chosen), options, level, found, tuple(notes))


def _attacked(
    pool: ThreadPoolExecutor,
    source: ClientSource,
    chosen: list[Metric],
    options: AuditOptions,
    show: Progress,
) -> tuple[list[tuple[Metric, Scenario, Trials]], list[Check]]:
    """Run the trials of every scenario; return them, and the checks of counts and noise."""
    runs = [(m, s) for m in chosen for s in scenarios(m) if s.part in options.parts]
    futures = [
        [pool.submit(run_chunk, source, s, n) for n in chunks(s, options.trials_of(s))]
        for _, s in runs
    ]
    _wait([one for some in futures for one in some], "trials", show)
    lived: list[tuple[Metric, Scenario, Trials]] = []
    checks: list[Check] = []
    for (metric, scenario), some in zip(runs, futures, strict=True):
        try:
            trials = joined([future.result() for future in some])
        except AuditedClientError as error:
            what = f"{scenario.name}: {ANSWERS}"
            checks.append(exact(metric.base_name, what, scenario.part, str(error)))
            continue
        lived.append((metric, scenario, trials))
        number, name, part = len(trials.world), metric.base_name, scenario.part
        what = f"{scenario.name}: {scenario.expected} reports in a life, from one cohort"
        found = f"not so in {trials.wrong:,} of {number:,} lives"
        checks.append(counted(name, what, part, trials.wrong, found, number, "lives"))
        if trials.noise is not None:
            checks += noise_checks(name, metric.params, trials.noise, part)
    return lived, checks


def _checked(
    pool: ThreadPoolExecutor,
    source: ClientSource,
    chosen: list[Metric],
    options: AuditOptions,
    show: Progress,
) -> list[Check]:
    """Run the parts that ask a client about each metric."""

    trials = options.trials
    devices = max(MIN_TRIALS, min(20_000, trials // 60))
    answering = max(MIN_ANSWERING, min(MAX_ANSWERING, trials // 200))
    reports = max(MIN_TRIALS, min(freshness.REPORTS, 2 * trials))
    asked: list[tuple[Metric, str, Callable[..., Iterator[Check]], int]] = []
    for metric in chosen:
        asked.append((metric, derivations.PART, derivations.derivation_checks, devices))
        if reports_at_once(metric):
            asked.append((metric, answers.PART, answers.answer_checks, answering))
        if not freshness.left_out(metric):
            asked.append((metric, freshness.PART, freshness.freshness_checks, reports))
    futures = [
        pool.submit(_without_errors, metric.base_name, part, checks, source, metric, number)
        for metric, part, checks, number in asked
        if part in options.parts
    ]
    _wait(futures, "checks", show)
    return [check for future in futures for check in future.result()]


def _without_errors(
    name: str, part: str, asked: Callable[..., Iterator[Check]], *args: Any
) -> list[Check]:
    """Run checks; an error of the client is a broken claim."""
    checks = []
    try:
        for check in asked(*args):
            checks.append(check)
    except AuditedClientError as error:
        checks.append(exact(name, ANSWERS, part, str(error)))
    return checks


def _wait(
    futures: list[Future[Trials]] | list[Future[list[Check]]], stage: str, show: Progress
) -> None:
    """Wait for all; raise at once what ends the audit."""
    for done, future in enumerate(as_completed(futures), 1):
        error = future.exception()
        if error is not None and not isinstance(error, AuditedClientError):
            raise error
        show(stage, done, len(futures))


def _notes(metrics: list[Metric], command: str | None, app: str | None) -> Iterator[str]:
    """Yield what is not audited, and why: nothing is left out in silence."""
    for metric in metrics:
        name = metric.base_name
        if reason := why_not(metric):
            yield f"{name}: not audited: {reason}"
            continue
        for text in left_out(metric):
            yield f"{name}: {text}"
        if reason := freshness.left_out(metric):
            yield f"{name}: equal reports not tested: {reason}"
    yield NOT_TESTED
    reason = _no_app(command, app)
    yield f"requests and files not tested: {reason}" if reason else NOT_TESTED_OF_APPS


def _no_app(command: str | None, app: str | None) -> str:
    """Say why no app is run; "" if one is."""
    if command is not None and app is None:
        return "give the app's program by --app"
    return f"nothing is sent: {DO_NOT_TRACK} is set" if do_not_track() else ""
