"""The whole audit of a client against its declared metrics: `rappor audit`.

Plan, run the trials of every scenario, test, and judge all at one level: the rate of false alarms
of a whole audit is at most `alpha`, split evenly over its attacks and tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from client_sdk.session import DO_NOT_TRACK, do_not_track
from privacy_audit.black_box import (
    answers,
    apps,
    budgets,
    calendars,
    derivations,
    freshness,
)
from privacy_audit.black_box.attacks import attack
from privacy_audit.black_box.checks import Check
from privacy_audit.black_box.scenario import Scenario
from privacy_audit.black_box.scenarios import left_out, scenarios, why_not
from privacy_audit.black_box.trials import ClientSource
from privacy_audit.errors import AuditedClientError, AuditError
from privacy_audit.stages import (
    Lived,
    Progress,
    Task,
    answers_of,
    apps_of,
    budgets_of,
    calendars_of,
    checks_of,
    derivation_checks,
    freshness_of,
    in_parts,
    run_trials,
    workers,
)
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

TRIALS = 1_000_000  # of all metrics
MOST_TRIALS = 1_000_000  # of one metric
SHARES = {1: 1.0, 7: 0.05, 30: 0.08}  # of the trials, by reports of a life in the encoder
DEVICE_SHARE = 0.0125  # of the trials, with the ledger
FEWEST_TRIALS = 2_000
FEWEST_DEVICES = 400  # with a ledger, whose lives are long
ENOUGH_DEVICES = 1_500  # that bare reports of half of them exceed a claim of 4 nats
FEW_SHARE = 0.375  # of few trials, with the ledger, up to ENOUGH_DEVICES
MOST_DEVICES = 6_000
FEWEST_ANSWERING, MOST_ANSWERING = 150, 5_000
BOXES = (
    "encoder", "device", answers.BOX, calendars.BOX, budgets.BOX, freshness.BOX, derivations.BOX,
    apps.BOX,
)  # fmt: skip


@dataclass(frozen=True)
class AuditOptions:
    """The size of an audit: how many devices, which parts, at which rate of false alarms.

    trials: of a metric's single reports; the other numbers follow from it.
    alpha: the rate of false alarms of a whole audit.  training: share of trials on which attacks
    are chosen.  processes: workers; 0: everything in this process.
    boxes: parts of the audit, of `BOXES`.
    apps: devices of each group in the part `app`; 0 for none.
    """

    trials: int = TRIALS
    alpha: float = 0.01
    training: float = 0.5
    processes: int = 2
    boxes: tuple[str, ...] = BOXES
    apps: int = apps.DEVICES

    @property
    def devices(self) -> int:
        """Number of devices whose derivations are compared."""
        return max(FEWEST_TRIALS, min(20_000, self.trials // 60))

    @property
    def answering(self) -> int:
        """Number of devices that draw values and silences by lot, in the part `answers`."""
        return max(FEWEST_ANSWERING, min(MOST_ANSWERING, self.trials // 200))

    @property
    def fresh(self) -> int:
        """Number of reports of one device that are compared with each other."""
        return max(FEWEST_TRIALS, min(freshness.REPORTS, 2 * self.trials))

    def trials_of(self, scenario: Scenario) -> int:
        """Number of trials of a scenario."""
        if scenario.renewed:  # a claim of nothing at all
            return FEWEST_DEVICES
        if scenario.box == "device":
            few = min(ENOUGH_DEVICES, round(self.trials * FEW_SHARE))
            return max(FEWEST_DEVICES, few, min(MOST_DEVICES, round(self.trials * DEVICE_SHARE)))
        share = SHARES.get(scenario.watched, SHARES[7])
        if scenario.by_cohort:
            share = SHARES[7]
        return max(FEWEST_TRIALS, round(self.trials * share))


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
        """Claims that this run could not have shown to be broken, whatever it saw; they do not
        count as holding."""
        return tuple(c for c in self.checks if c.verdict(self.level) == "not tested")

    @property
    def verdict(self) -> str:
        """The outcome of the audit in a sentence."""
        held = len(self.checks) - len(self.broken) - len(self.untested)
        untold = f", {len(self.untested)} not tested" if self.untested else ""
        if self.broken:
            return f"{len(self.broken)} of {len(self.checks)} claims are broken{untold}"
        return f"{held} claims tested, none broken{untold}"


NOT_OF_APPS = (
    "a queue that overflowed, delays and the time of sending, more than one period, other hosts, "
    "logs, the randomness of secrets"
)


def audit(
    file: MetricsFile,
    options: AuditOptions,
    *,
    names: tuple[str, ...] = (),
    command: str | None = None,
    app: str | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit this project's SDK, or the client behind `command`, and an app that has it.

    names: declared metrics to audit; none: all.  app: a program with the client in it; None: this
    SDK's, if `command` is None, too.  progress: called with (stage, done, total).
    Raises AuditError where nothing can be audited or the program fails, and MetricsFileError for an
    unknown name.
    """
    chosen = [m for m in file.declared if m.base_name in names] if names else list(file.declared)
    for name in names:
        file.parts(name)
    source = ClientSource(compiled_text(file), command)
    tell = progress or (lambda *_: None)
    notes = list(_notes(chosen, command, app))
    boxes, upkeep = options.boxes, command is None
    chosen = [metric for metric in chosen if not why_not(metric, upkeep=upkeep)]
    if not chosen:
        raise AuditError("no metric can be audited with this client: " + "; ".join(notes))
    runs = [(m, s) for m in chosen for s in scenarios(m, upkeep=upkeep) if s.box in boxes]
    pending: list[Check] = []
    found: list[Lived] = []
    with workers(options.processes) as pool:
        every = [(s, options.trials_of(s)) for _, s in runs]
        trials = run_trials(pool, source, every, tell)
        for stage in (answers.BOX, calendars.BOX, freshness.BOX, budgets.BOX):
            if stage in boxes:
                pending += in_parts(pool, stage, _tasks(stage, source, chosen, options), tell)
        if derivations.BOX in boxes:
            with workers(1) as another:
                assert another is not None  # noqa: S101 (one worker)
                for done, metric in enumerate(chosen, 1):
                    pending += derivation_checks(
                        pool, another, file, metric, source, options.devices
                    )
                    tell(derivations.BOX, done, len(chosen))
    if apps.BOX in boxes and options.apps and not _app_left_out(command, app):
        tell(apps.BOX, 0, 1)
        arguments = chosen, app, options.processes, options.apps
        pending += in_parts(None, apps.BOX, [("", apps.BOX, apps_of, arguments)], tell)
    for (metric, scenario), one in zip(runs, trials, strict=True):
        pending += checks_of(metric, scenario, one)
        if not isinstance(one, AuditedClientError):
            found.append((metric.base_name, scenario, one))
    return _judged(command or "client_sdk", chosen, options, found, pending, notes)


def _tasks(
    stage: str, source: ClientSource, chosen: list[Metric], options: AuditOptions
) -> list[Task]:
    """What a stage asks, of each metric that it fits; budgets of all together."""
    upkeep = source.command is None
    if stage == budgets.BOX:
        names = tuple(metric.base_name for metric in chosen)
        return [("", stage, budgets_of, (source, names, upkeep))]
    if stage == freshness.BOX:
        return [
            (m.base_name, stage, freshness_of, (source, m, options.fresh))
            for m in chosen if not freshness.left_out(m)
        ]  # fmt: skip
    if stage == calendars.BOX:
        return [
            (m.base_name, stage, calendars_of, (source, m, upkeep))
            for m in chosen if not calendars.left_out(m, upkeep=upkeep)
        ]  # fmt: skip
    return [
        (m.base_name, stage, answers_of, (source, m, options.answering, upkeep))
        for m in chosen if not answers.left_out(m, upkeep=upkeep)
    ]  # fmt: skip


def _judged(
    client: str,
    metrics: list[Metric],
    options: AuditOptions,
    found: list[Lived],
    pending: list[Check],
    notes: list[str],
) -> AuditResult:
    """Attack every scenario at the common level."""
    number = len(found) + sum(check.method == "test" for check in pending)
    level = options.alpha / max(number, 1)
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
                claim=scenario.claim,
                attack=result,
            )
        )
    return AuditResult(
        client, tuple(metrics), options, level, tuple(checks + pending), tuple(notes)
    )


def _notes(metrics: list[Metric], command: str | None, app: str | None) -> Iterator[str]:
    """What is not audited, and why: nothing is left out in silence."""
    for metric in metrics:
        reason = why_not(metric, upkeep=command is None)
        if reason:
            yield f"{metric.base_name}: not audited: {reason}"
            continue
        for text in left_out(metric, upkeep=command is None):
            yield f"{metric.base_name}: {text}"
        yield from _parts_left_out(metric, upkeep=command is None)
    if command is not None:
        yield (
            "the budget of all metrics together, a person's level and hours of the day not tested: "
            "the protocol has no versions, levels or hours"
        )

    if why := _app_left_out(command, app):
        yield f"requests and files not tested: {why}"
    else:
        yield from (f"{m.base_name}: requests not tested" for m in metrics if not apps.fits(m))
        yield f"of requests and files not tested: {NOT_OF_APPS}"


def _app_left_out(command: str | None, app: str | None) -> str:
    """The reason why no app is run; "" if one is."""
    if command is not None and app is None:
        return "give the app's program by --app"
    return f"nothing is sent: {DO_NOT_TRACK} is set" if do_not_track() else ""


def _parts_left_out(metric: Metric, *, upkeep: bool) -> Iterator[str]:
    """Which parts of an audit do not fit a metric."""
    name = metric.base_name
    for what, reason in (
        ("the law of answers", answers.left_out(metric, upkeep=upkeep)),
        ("responses through calendars", calendars.left_out(metric, upkeep=upkeep)),
        ("equal reports", freshness.left_out(metric)),
    ):
        if reason:
            yield f"{name}: {what} not tested: {reason}"
