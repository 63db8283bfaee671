"""The complete audit of a client against its declared metrics: `rappor audit`.

It plans and runs the trials for every scenario and tests all of them at one significance level. The
false alarm rate of a complete audit is at most `alpha`, split evenly among its attacks and tests.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from client_sdk.session import DO_NOT_TRACK, do_not_track
from privacy_audit.black_box import answers, apps, derivations, freshness
from privacy_audit.black_box.attacks import Trials, attack, chunks, joined, run_chunk
from privacy_audit.black_box.checks import Check, counted, exact
from privacy_audit.black_box.noise import noise_checks
from privacy_audit.black_box.observations import LIKELIHOOD
from privacy_audit.black_box.program_client import OWN_PROGRAM, ClientSource, end_programs
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

TRIALS = 1_000_000  # for all metrics together
MAX_TRIALS = 1_000_000  # for one metric
SHARES = {1: 1.0, 7: 0.05, 30: 0.08}  # fraction of trials, by reports per device (encoder)
DEVICE_SHARE = 0.0125  # the fraction of trials with the ledger
MIN_TRIALS = 2_000
MIN_DEVICES = 400  # the minimum with a ledger, for long-lived devices
ENOUGH_DEVICES = 1_500  # if half of them send bare reports, a claim of 4 nats is exceeded
FEW_SHARE = 0.375  # the fraction with the ledger if there are few trials, up to ENOUGH_DEVICES
MAX_DEVICES = 6_000
TRAINING = 0.5  # the fraction of trials on which attacks are chosen
MIN_ANSWERING, MAX_ANSWERING = 300, 5_000
PARTS = "encoder", "device", answers.PART, freshness.PART, derivations.PART, apps.PART
ANSWERS = "the client answers without an error"
NOT_TESTED = (
    "the budget of all metrics together, a person's level, silent periods, versions of the app and "
    "hours of the day are not tested: the protocol has none of them"
)
NOT_TESTED_OF_APPS = (
    "of requests and files not tested: a queue that overflowed, delays and the time of sending, "
    "more than one period, other hosts, logs, the randomness of secrets"
)

# Weights: the number of encoder reports that take the same time as one report with the ledger, one
# device in `derivations`, one device in `answers`, or two devices with an app.
LEDGER_WEIGHT, DERIVED_WEIGHT, ANSWERED_WEIGHT, APP_WEIGHT = 5, 8, 100, 30_000
Progress = Callable[[str, float, float], None]
Run = Callable[[], Trials | list[Check]]


@dataclass(frozen=True)
class AuditOptions:
    """The size of an audit: the number of devices, the parts, and the false alarm rate."""

    trials: int = TRIALS  # single reports per metric, which determine the other numbers
    alpha: float = 0.01  # the false alarm rate of a complete audit
    processes: int = 2  # the number of concurrent programs
    parts: tuple[str, ...] = PARTS
    apps: int = apps.DEVICES  # devices per group in the part `app`; 0 to skip it

    def trials_of(self, scenario: Scenario) -> int:
        """Return the number of trials of a scenario."""
        if scenario.part == "device":
            few = min(ENOUGH_DEVICES, round(self.trials * FEW_SHARE))
            return max(MIN_DEVICES, few, min(MAX_DEVICES, round(self.trials * DEVICE_SHARE)))
        share = SHARES.get(scenario.watched, SHARES[7])
        return max(MIN_TRIALS, round(self.trials * share))


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit."""

    client: str  # the program that was audited
    metrics: tuple[Metric, ...]
    options: AuditOptions
    level: float  # the significance level of each attack and test
    checks: tuple[Check, ...]
    notes: tuple[str, ...]  # what was not audited
    stopped: bool = False  # whether it was interrupted and ran only partly

    @property
    def broken(self) -> tuple[Check, ...]:
        """Return the checks whose claims were rejected."""
        return tuple(check for check in self.checks if check.broken(self.level))

    @property
    def untested(self) -> tuple[Check, ...]:
        """Return the checks that could not disprove their claims, which do not count as held."""
        return tuple(c for c in self.checks if c.verdict(self.level) == "not tested")

    @property
    def verdict(self) -> str:
        """Return the outcome of the audit in a sentence."""
        num_held = len(self.checks) - len(self.broken) - len(self.untested)
        more = f", {len(self.untested)} not tested" if self.untested else ""
        more += "; stopped before its end" if self.stopped else ""
        if self.broken:
            return f"{len(self.broken)} of {len(self.checks)} claims are broken{more}"
        return f"{num_held} claims tested, none broken{more}"


@dataclass
class _Work:
    """A scenario, or a part of the audit of one metric, split into pieces that run in any order.

    `pieces` are those that have not finished, with weights. `trials` and `checks` are the results
    so far.
    """

    name: str
    metric: str
    part: str
    pieces: list[tuple[float, Run]]
    subject: tuple[Metric, Scenario] | None = None
    trials: list[Trials] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def add(self, piece: tuple[float, Run], run: Run) -> None:
        """Run a piece and add its result; an error of the client becomes a broken check."""
        try:
            result = run()
        except AuditedClientError as error:
            what = f"{self.subject[1].name}: {ANSWERS}" if self.subject else ANSWERS
            result = [exact(self.metric, what, self.part, str(error))]
        if isinstance(result, list):
            self.checks += result
        else:
            self.trials.append(result)
        self.pieces.remove(piece)

    @cached_property
    def judged(self) -> tuple[Trials | None, list[Check]]:
        """Return the trials and checks so far; no trials if the client failed in a scenario."""
        if self.subject is None or self.checks or not self.trials:
            return None, self.checks[: 1 if self.subject else None]
        (metric, scenario), trials, name = self.subject, joined(self.trials), self.metric
        number, wrong = len(trials.world), trials.wrong
        what = f"{scenario.name}: {scenario.expected} reports in a life, from one cohort"
        found = f"not so in {wrong:,} of {number:,} lives"
        checks = [counted(name, what, self.part, wrong, found, number, "lives")]
        if trials.noise is not None:
            checks += noise_checks(name, metric.params, trials.noise, self.part)
        return trials, checks

    def figures(self) -> str:
        """Return the guesses and p-values so far, as text; the verdict follows at the end."""
        (trials, checks), text = self.judged, ""
        if self.subject and trials:
            score = trials.features[:, LIKELIHOOD]
            right = ((score > 0) == (trials.world == 0))[score != 0]
            rate = f"{right.sum() / max(len(right), 1):.1%} of guesses right"
            allowed = 1 / (1 + math.exp(-self.subject[1].claim))
            text = f"{len(score):,} devices, {rate}, {allowed:.1%} allowed; "
        broken = "".join(f"; broken: {check.what}" for check in checks if not check.p_value)
        least = min((check.p_value for check in checks), default=1.0)
        return f"{self.name}: {text}smallest p of {len(checks)} tests {least:.2g}{broken}"


def audit(
    file: MetricsFile,
    options: AuditOptions,
    *,
    names: tuple[str, ...] = (),
    command: str | None = None,
    app: str | None = None,
    progress: Progress = lambda *_: None,
) -> AuditResult:
    """Audit a client, and an app that contains it. Ctrl-C ends the audit with partial results.

    Args:
        file: The file that declares the metrics.
        options: The size of the audit.
        names: The declared metrics to audit; empty for all.
        command: The client's program; None for this SDK.
        app: A program that contains the client. If it and `command` are None, this SDK is used.
        progress: A function that is called with (figures, done, total): the figures of a finished
            scenario or part, or "", and amounts in weights.

    Raises:
        AuditError: Nothing can be audited, or a program does not start or answer.
        MetricsFileError: A name is not declared.
        KeyboardInterrupt: Nothing has run yet.
    """
    for name in names:
        file.parts(name)
    declared = [m for m in file.declared if not names or m.base_name in names]
    chosen = [metric for metric in declared if not why_not(metric)]
    notes = list(_notes(declared, command, app))
    if not chosen:
        raise AuditError("no metric can be audited: " + "; ".join(notes))
    source = ClientSource(compiled_text(file), OWN_PROGRAM if command is None else command)
    works = [work for work in _works(source, chosen, options) if work.part in options.parts]
    if apps.PART in options.parts and options.apps and not _no_app(command, app):
        arguments = chosen, app or OWN_PROGRAM, options.processes, options.apps
        piece = options.apps * APP_WEIGHT, partial(_listed, apps.app_checks, *arguments)
        works.append(_Work(apps.PART, "", apps.PART, [piece]))
    try:
        _run(works, options.processes, progress)
    except KeyboardInterrupt:
        if not any(work.trials or work.checks for work in works):
            raise
    rest = [work.name for work in works if work.pieces]
    if rest:
        notes.append(f"stopped by Ctrl-C; not run, or not with all devices: {'; '.join(rest)}")
    judged = [(work, *work.judged) for work in works]
    checks = [check for _, _, some in judged for check in some]
    lived = [(work, *work.subject, trials) for work, trials, _ in judged if work.subject and trials]
    level = options.alpha / max(len(lived) + sum(c.method == "test" for c in checks), 1)
    attacks = []
    for work, _, scenario, trials in lived:
        result = attack(trials.features, trials.world, scenario.claim, level, TRAINING)
        attacks.append(
            Check(
                work.metric, scenario.name, scenario.part, "attack", result.p_value,
                f"{result.right:,} of {result.guesses:,} guesses were right",
                claim=scenario.claim, attack=result,
            )
        )  # fmt: skip
    client, findings = command or "client_sdk", (*attacks, *checks)
    return AuditResult(client, tuple(chosen), options, level, findings, tuple(notes), bool(rest))


def _works(source: ClientSource, chosen: list[Metric], options: AuditOptions) -> Iterator[_Work]:
    """Yield the scenarios of each metric, then the parts that query a client about each metric."""
    for metric in chosen:
        for one in scenarios(metric):
            weight, name = len(one.worlds[0]), metric.base_name
            weight *= LEDGER_WEIGHT if one.part == "device" else 1
            pieces: list[tuple[float, Run]] = [
                (weight * number, partial(run_chunk, source, one, number))
                for number in chunks(one, options.trials_of(one))
            ]
            yield _Work(f"{name}: {one.name}", name, one.part, pieces, (metric, one))
    devices = max(MIN_TRIALS, min(20_000, options.trials // 60))
    answering = max(MIN_ANSWERING, min(MAX_ANSWERING, options.trials // 200))
    reports = max(MIN_TRIALS, min(freshness.REPORTS, 2 * options.trials))
    for metric in chosen:
        asked = list[tuple[str, Callable[..., Iterator[Check]], int, int]]()
        asked.append((derivations.PART, derivations.derivation_checks, devices, DERIVED_WEIGHT))
        if reports_at_once(metric):
            asked.append((answers.PART, answers.answer_checks, answering, ANSWERED_WEIGHT))
        if not freshness.left_out(metric):
            asked.append((freshness.PART, freshness.freshness_checks, reports, 1))
        for part, checks, number, weight in asked:
            pieces = [(number * weight, partial(_listed, checks, source, metric, number))]
            yield _Work(f"{metric.base_name}: {part}", metric.base_name, part, pieces)


def _run(works: list[_Work], processes: int, progress: Progress) -> None:
    """Run all work items; items that need an app run last."""
    total, done = sum(weight for work in works for weight, _ in work.pieces), 0.0
    pool = ThreadPoolExecutor(max(processes, 1))  # each thread waits for a program
    try:
        for is_app in False, True:
            futures = {
                pool.submit(piece[1]): (work, piece)
                for work in works if (work.part == apps.PART) is is_app for piece in work.pieces
            }  # fmt: skip
            for future in as_completed(futures):
                work, piece = futures[future]
                work.add(piece, future.result)
                done += piece[0]
                progress("" if work.pieces else work.figures(), done, total)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # pieces that have not begun are dropped
        end_programs()
        pool.shutdown()


def _listed(checks: Callable[..., Iterator[Check]], *args: Any) -> list[Check]:
    return list(checks(*args))


def _notes(metrics: list[Metric], command: str | None, app: str | None) -> Iterator[str]:
    """Yield a note on each part of the audit that is skipped, with the reason."""
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
    if command is not None and app is None:
        return "give the app's program by --app"
    return f"nothing is sent: {DO_NOT_TRACK} is set" if do_not_track() else ""
