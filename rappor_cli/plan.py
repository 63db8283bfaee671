"""`rappor plan`: choose parameters of a metric, and predict what they show and cost."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from decoder.errors import PlanError
from decoder.files import claim_folder, probe_folder
from metric_design.kinds import LISTED
from metric_design.metric_plan import MetricPlan, weak_sentence
from metric_design.metric_table import Labels
from metric_design.plan import Plan, make_plan
from metric_design.plan_html import render_plan
from metric_design.population import ExpectedShares, given_population, read_shares, zipf_population
from metric_design.request import PlanRequest
from metric_design.solve_plan import plan_metric, question_of
from privacy_audit.findings import trackability_text
from rappor_cli import options as shared
from rappor_cli.numbers import number
from rappor_cli.plan_text import plan_lines
from rappor_cli.progress import stage_bars
from rappor_cli.text import plain
from rappor_cli.whole_check import whole_check
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.sequence_risk import risk_text
from rappor_core.whole_files import write_whole

DEFAULT_VALUES = 3  # of a device's life
DEFAULT_ZIPF = 1.0


class ModeName(StrEnum):
    """How often devices report (`--mode`)."""

    AUTO = "auto"
    MEMO = "memo"
    ONCE = "once"


class PeriodName(StrEnum):
    """Names of reporting periods (`--period`)."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


Number = float | None


def _number(*names: str, text: str) -> Any:
    return typer.Option(*names, parser=number, metavar="NUMBER", help=text)


Kind = Annotated[
    str,
    typer.Option(help="string, category, boolean, number, location, flow or discover."),
]
Devices = Annotated[Number, _number("--devices", "--population", text="Devices that report.")]
Mode = Annotated[ModeName, typer.Option(help="once: one report for life; memo: one each period.")]
Period = Annotated[PeriodName | None, typer.Option(help="Of a report; day unless given.")]
Values = Annotated[
    int | None, typer.Option(help="Values that a device may hold for life; 3 unless given.")
]
Shares = Annotated[
    Path | None,
    typer.Option(help="Shares expected: results.csv or .json of last month, or a list."),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A decided key of metrics.toml, of kinds without a list of values; may repeat.",
    ),
]
Known = Annotated[Path | None, typer.Option(help="metrics.toml that the device has already.")]


@dataclass(frozen=True)
class _Output:
    """Where a plan is written. folder: of its files.  known: a metrics.toml that exists."""

    folder: Path | None
    known: Path | None
    as_json: bool

    def claim(self, *names: str) -> None:
        """Take the folder for files of these names. Raises OSError, or DecodeError."""
        if self.folder is not None:
            claim_folder(self.folder, names, "plan.json", "answer")
            probe_folder(self.folder)

    def show(
        self, document: Mapping[str, Any], lines: Iterable[str], page: str | None, table: str
    ) -> None:
        """Write the files, and print the plan.

        Args:
            document: the plan as plain values.
            lines: the plan as text, its answer first.
            page: HTML; None if the kind has no page.
            table: of `metrics.toml`.
        """
        names = "plan.json, metrics.toml" if page is None else "plan.html, plan.json, metrics.toml"
        text = str(document["metrics_toml"])
        if self.folder is not None:
            if page is not None:
                write_whole(self.folder / "plan.html", page)
            indented = json.dumps(document, indent=1, allow_nan=False)
            write_whole(self.folder / "plan.json", indented + "\n")
            known = self.known and self.known.read_text("utf-8").rstrip()
            write_whole(self.folder / "metrics.toml", f"{known}\n\n{table}" if known else text)
        if self.as_json:
            print(json.dumps(document, allow_nan=False))
            return
        for line in (*lines, "", *text.splitlines()):
            print(plain(line))
        if self.folder is not None:
            print(plain(f"written: {self.folder}/{names}"))


def plan(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the metric.")] = "planned",
    kind: Kind = LISTED[0],
    share: Annotated[Number, _number(text="Smallest share to see, as 0.01 or 1%.")] = None,
    error: Annotated[Number, _number(text="How far off the mean, curve or map may be.")] = None,
    devices: Devices = None,
    epsilon: Annotated[Number, _number(text="Of all that a device ever sends, at most.")] = None,
    candidates: Annotated[Number, _number(text="Values looked for; 1,000 unless given.")] = None,
    periods: Annotated[Number, _number(text="Periods decoded together; 1 unless given.")] = None,
    mode: Mode = ModeName.AUTO,
    period: Period = None,
    values: Values = None,
    shares: Shares = None,
    keys: Keys = None,
    metrics: Known = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Solve for the number that is missing, and say what will be seen and what it costs.

    Give two of: what to see (--share or --error), devices, an epsilon. The third is solved for;
    with all three, candidates or periods. On a terminal, without options, it asks.
    """
    labels = Labels(
        name, "Planned metric", "nobody yet", datetime.now(UTC).date() + timedelta(days=365)
    )
    existing = None if metrics is None else load_metrics(metrics)
    out = _Output(output, metrics, as_json)
    if kind not in LISTED:
        _refuse_given(context, ("candidates", "values", "shares"), f"kind {kind!r}")
        given = _table(labels, kind, period, mode, keys or ())
        target = {"error": error, "share": share}
        asked = question_of(kind, name, given, target, devices, periods)
        out.claim("plan.json", "metrics.toml")
        with stage_bars() as show:
            show("planning", 0, 1)
            budget = _budget(existing, epsilon)
            made = plan_metric(*asked, budget, existing, whole_check)
            show("planning", 1, 1)
        findings = _findings(made.file_text, existing, made.budget, made.devices)
        document = made.to_dict() | {"findings": findings}
        out.show(document, _metric_lines(made, findings), None, made.table)
        return
    _refuse_given(context, ("error", "keys"), f"kind {kind!r}; use --kind")
    if all(one is None for one in (share, devices, epsilon)) and sys.stdin.isatty():
        share, devices, epsilon, candidates, periods = _ask()
    request = PlanRequest(
        share=share, devices=devices, candidates=candidates, periods=periods, epsilon_life=epsilon,
        mode=mode.value, values=_values(values, kind), period=(period or PeriodName.DAY).value,
        kind=kind,
    )  # fmt: skip
    _plan_listed(request, labels, _population(shares), existing, out)


def _plan_listed(
    request: PlanRequest,
    labels: Labels,
    population: ExpectedShares,
    existing: MetricsFile | None,
    out: _Output,
) -> None:
    """Plan a metric whose values are looked for in a list."""
    out.claim("plan.html", "plan.json", "metrics.toml")
    with stage_bars() as show:
        made = make_plan(request, population, labels, existing, show, whole_check)
        show("linking", 0, 1)
        findings = _listed_findings(made, existing)
        show("linking", 1, 1)
    document = made.to_dict() | {"findings": findings}
    out.show(document, [*plan_lines(made), *findings], render_plan(made, findings), made.table)


def _refuse_given(context: typer.Context, names: Iterable[str], what: str) -> None:
    """Raise PlanError if a parameter was given that `what` has no use for."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in names and source is not None and source.name == "COMMANDLINE":
            raise PlanError(f"{parameter.opts[0]} = {context.params[name]} has no use for {what}")


def _table(
    labels: Labels, kind: str, period: PeriodName | None, mode: ModeName, keys: Iterable[str]
) -> dict[str, Any]:
    """Return the keys of `metrics.toml` that are decided. Raises PlanError for a bad --set."""
    table: dict[str, Any] = {
        "description": labels.description,
        "owner": labels.owner,
        "expires": labels.expires,
        "kind": kind,
    }
    for text in keys:
        try:
            table |= tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(
                f"--set {text!r} is not KEY=VALUE as in metrics.toml ({error}); such as "
                "--set 'levels=[11, 13]' or --set 'ask=\"mean\"'"
            ) from None
    if period is not None:
        table["period"] = period.value
    if mode is not ModeName.AUTO:
        table["mode"] = mode.value
    return table


def _budget(existing: MetricsFile | None, epsilon: Number) -> Number:
    """Return what all metrics of a device may cost, if `epsilon` is for the planned one."""
    budget = None if existing is None else existing.budget
    if epsilon is None:
        return budget
    spent = 0.0 if existing is None else existing.lifetime_epsilon
    return epsilon + spent if budget is None else min(budget, epsilon + spent)


def _population(shares: Path | None) -> ExpectedShares:
    if shares is None:
        return zipf_population(DEFAULT_ZIPF)
    return given_population(read_shares(shares), f"the shares of {shares.name}")


def _values(given: int | None, kind: str) -> int:
    if PlanRequest(kind=kind).single_bit and given not in (None, 2):
        raise PlanError(
            f"values = {given}: a boolean has 2 values, and both are paid; leave it out"
        )
    return DEFAULT_VALUES if given is None else given


def _ask() -> list[Number]:
    """Ask for share, devices, epsilon, candidates and periods; blank: not known, or the default."""
    questions = (
        ("Smallest share to see (as 1%; blank: solve for it)", None),
        ("Devices that report (as 1M; blank: solve for it)", None),
        ("Epsilon of a device's life (as 6; blank: solve for it)", None),
        ("Values on your list (blank: 1,000)", 1_000.0),
        ("Periods decoded together (blank: 1)", 1.0),
    )
    answers: list[Number] = []
    for question, default in questions:
        text = typer.prompt(question, default="", show_default=False)
        answers.append(number(text) if text.strip() else default)
    return answers


def _listed_findings(made: Plan, existing: MetricsFile | None) -> list[str]:
    """What the whole check says of the file with the new metric in it, and re-linking."""
    if existing is not None and made.metric.name in existing.metrics:
        raise PlanError(f"metric {made.metric.name!r} is in the file already; choose another name")
    budget = made.declared_budget if existing is None else existing.budget
    people, params = int(made.design.setting.devices), made.metric.params
    told = _findings(made.file_text, existing, budget, people)
    if params.num_bits < 2:  # two patterns tell nobody apart
        return told
    return [*told, trackability_text(made.metric, people // params.num_cohorts)]


def _findings(
    text: str, existing: MetricsFile | None, budget: Number, population: int
) -> list[str]:
    """Warnings and errors of the whole check as lines.

    Args:
        text: a `metrics.toml` with the planned metric alone.
        existing: metrics that the device has already.
        budget: of both together.
        population: devices that report.
    """
    known = {} if existing is None else dict(existing.metrics)
    whole = MetricsFile(known | dict(parse_metrics(text).metrics), budget)
    found = [one for one in whole_check(whole, population) if one.level != "note"]
    return [f"{one.level}: {one.metric or 'the whole file'}: {one.message}" for one in found]


def _metric_lines(made: MetricPlan, findings: Iterable[str]) -> list[str]:
    """The plan of a metric without a list of values, its answer first."""
    more = made.because, made.supposed, made.merged, weak_sentence(made.epsilon)
    lines = [made.answer, *(line for line in more if line), risk_text(made.metric)]
    if made.left > 1e-2:
        lines.append(f"budget left for later metrics: {made.left:.3g} of {made.budget:.3g}")
    return [*lines, *findings]
