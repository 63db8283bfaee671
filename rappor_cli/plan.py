"""`rappor plan`: choose a metric's parameters, and predict its results and cost."""

import json
import sys
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from decoder.errors import PlanError
from decoder.files import claim_folder, probe_folder
from metric_design.kind_design import DESIGNS, Question, kind_design
from metric_design.plan import check_question, make_plan
from metric_design.plan_page import plan_lines, render_plan
from metric_design.population import ExpectedShares, given_population, read_shares
from privacy_audit.findings import trackability_text
from rappor_cli import options as shared
from rappor_cli.numbers import number
from rappor_cli.progress import stage_bars
from rappor_cli.text import plain
from rappor_cli.whole_check import whole_check
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.whole_files import write_whole


class ModeName(StrEnum):
    """The reporting modes of a device (`--mode`)."""

    AUTO = "auto"
    MEMO = "memo"
    ONCE = "once"


class PeriodName(StrEnum):
    """The names of reporting periods (`--period`)."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


Number = float | None
DEFAULT_KIND = "string"


def _number(*names: str, text: str) -> Any:
    return typer.Option(*names, parser=number, metavar="NUMBER", help=text)


Kind = Annotated[
    str,
    typer.Option(help="string, category, boolean, number, location, flow, discover."),
]
Devices = Annotated[Number, _number("--devices", "--population", text="Devices that report.")]
Mode = Annotated[ModeName, typer.Option(help="once: one report per device; memo: one per period.")]
Period = Annotated[PeriodName | None, typer.Option(help="Reporting period; default: day.")]
Values = Annotated[int | None, typer.Option(help="Lifetime values per device; default: 3.")]
Shares = Annotated[
    Path | None,
    typer.Option(help="Expected shares: last month's results.csv or .json, or a list."),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A fixed key of metrics.toml, for kinds without a list of values; may repeat.",
    ),
]
Known = Annotated[Path | None, typer.Option(help="metrics.toml with the device's current metrics.")]


def plan(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the metric.")] = "planned",
    kind: Kind = DEFAULT_KIND,
    share: Annotated[Number, _number(text="Smallest share to detect, as 0.01 or 1%.")] = None,
    error: Annotated[Number, _number(text="Largest error of the mean, curve or map.")] = None,
    devices: Devices = None,
    epsilon: Annotated[Number, _number(text="Lifetime maximum for a device, in nats.")] = None,
    candidates: Annotated[Number, _number(text="Values on your list; default: 1,000.")] = None,
    periods: Annotated[Number, _number(text="Periods decoded together; default: 1.")] = None,
    mode: Mode = ModeName.AUTO,
    period: Period = None,
    values: Values = None,
    shares: Shares = None,
    keys: Keys = None,
    metrics: Known = None,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Solve for the missing number, and predict the results and their cost.

    Give two of these three: what to detect (--share or --error), devices, an epsilon. The command
    solves for the third; if all three are given, it solves for candidates or periods. On a
    terminal, without options, it prompts for them.
    """
    existing = None if metrics is None else load_metrics(metrics)
    table = _table(kind, period, keys or ())
    listed = "expected" in _options(kind)
    if listed:
        _refuse_given(context, ("error", "keys"), f"kind {kind!r}; use --kind")
        if all(value is None for value in (share, devices, epsilon)) and sys.stdin.isatty():
            share, devices, epsilon, candidates, periods = _ask()
    else:
        _refuse_given(context, ("candidates", "shares"), f"kind {kind!r}")
        if "values" not in _options(kind):  # in that case, `mode` is a key of the metric
            _refuse_given(context, ("values",), f"kind {kind!r}")
            table |= {} if mode is ModeName.AUTO else {"mode": mode.value}
    question = Question(
        name=name, given=table, devices=devices, epsilon=epsilon, candidates=candidates,
        periods=periods, values=values, expected=_expected(shares),
        mode=mode.value if mode is not ModeName.AUTO and "mode" not in table else None,
    )  # fmt: skip
    question = check_question(question, {"share": share, "error": error})
    files = [*(["plan.html"] if listed else []), "plan.json", "metrics.toml"]
    if output is not None:
        claim_folder(output, files, "plan.json", "answer")
        probe_folder(output)
    with stage_bars() as show:
        result = make_plan(question, existing, whole_check, show)
        findings = _findings(result.file_text, existing, result.budget, result.question.people)
        if listed and result.metric.params.num_bits > 1:  # a single bit identifies no device
            crowd = result.question.people // result.metric.params.num_cohorts
            findings.append(trackability_text(result.metric, crowd))
    document = result.to_dict() | {"findings": findings}
    if output is not None:
        before = metrics and metrics.read_text("utf-8").rstrip()
        texts = {
            "plan.json": json.dumps(document, indent=1, allow_nan=False) + "\n",
            "metrics.toml": f"{before}\n\n{result.table}" if before else result.file_text,
        }
        if listed:
            texts["plan.html"] = render_plan(result, findings)
        for file in files:
            write_whole(output / file, texts[file])
    if as_json:
        print(json.dumps(document, allow_nan=False))
        return
    for line in (*plan_lines(result), *findings, "", *result.file_text.splitlines()):
        print(plain(line))
    if output is not None:
        print(plain(f"written: {output}/{', '.join(files)}"))


def _options(kind: str) -> tuple[str, ...]:
    return kind_design(kind).options if kind in DESIGNS else ()


def _refuse_given(context: typer.Context, names: Iterable[str], what: str) -> None:
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in names and source is not None and source.name == "COMMANDLINE":
            raise PlanError(f"{parameter.opts[0]} = {context.params[name]} has no use for {what}")


def _table(kind: str, period: PeriodName | None, keys: Iterable[str]) -> dict[str, Any]:
    """Return the keys of the metric's table that are given. Raises PlanError for a bad --set."""
    table: dict[str, Any] = {
        "kind": kind,
        "description": "Planned metric",
        "owner": "nobody yet",
        "expires": datetime.now(UTC).date() + timedelta(days=365),
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
    return table


def _expected(shares: Path | None) -> ExpectedShares | None:
    if shares is None:
        return None
    return given_population(read_shares(shares), f"the shares of {shares.name}")


def _ask() -> list[Number]:
    """Prompt for share, devices, epsilon, candidates, periods; blank for unknown or default."""
    questions = (
        ("Smallest share to detect (as 1%; blank: solve for it)", None),
        ("Devices that report (as 1M; blank: solve for it)", None),
        ("Lifetime epsilon of a device (as 6; blank: solve for it)", None),
        ("Values on your list (blank: 1,000)", 1_000.0),
        ("Periods decoded together (blank: 1)", 1.0),
    )
    answers: list[Number] = []
    for question, default in questions:
        text = typer.prompt(question, default="", show_default=False)
        answers.append(number(text) if text.strip() else default)
    return answers


def _findings(
    text: str, existing: MetricsFile | None, budget: Number, population: int
) -> list[str]:
    """Return the warnings and errors from the complete check as lines.

    Args:
        text: A `metrics.toml` with only the planned metric.
        existing: The metrics that the device already has.
        budget: The budget for the planned and existing metrics together.
        population: The number of devices that report.
    """
    before = {} if existing is None else dict(existing.metrics)
    whole = MetricsFile(before | dict(parse_metrics(text).metrics), budget)
    problems = [item for item in whole_check(whole, population) if item.level != "note"]
    return [f"{item.level}: {item.metric or 'the whole file'}: {item.message}" for item in problems]
