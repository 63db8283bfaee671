"""`rappor plan`: choose parameters of a metric, and predict what they show and cost."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import numpy as np
import typer

from decoder.errors import PlanError
from metric_design.metric_table import Labels
from metric_design.plan import Plan, Trust, make_plan
from metric_design.plan_html import Sampled, render_plan
from metric_design.population import ExpectedShares, given_population, read_shares, zipf_population
from metric_design.request import KindChoice, PlanRequest
from privacy_audit.trackability import trackability_text
from rappor_cli import options as shared
from rappor_cli.numbers import number
from rappor_cli.plan_tables import (
    PLAN_FILE,
    PlanOutput,
    finding_lines,
    plan_file,
    plan_tables,
    refuse_given,
    table_of,
)
from rappor_cli.plan_text import print_plan
from rappor_cli.progress import stage_bars
from rappor_cli.whole_check import whole_check
from rappor_core.metrics.metrics_file import MetricsFile, load_metrics
from simulations.experiments.plan_preview import Preview, preview

LISTED: tuple[str, ...] = get_args(KindChoice)  # kinds whose values are looked for in a list
AUTO = LISTED[0]
SHAPES = "low", "high", "ask", "box", "level", "error"  # options of other kinds
OF_LISTS = ("epsilon_report", "epsilon_year", "power", "alpha", "correction", "complete", "shares",
            "delta", "forged", "seed")  # fmt: skip
IN_TABLES = ("share", "top", "candidates", "periods", "max_bytes", "values", "zipf", "mode",
             "period", "kind")  # fmt: skip
USUAL_VALUES = 3  # of a device's life
USUAL_ZIPF = 1.0


class ModeName(StrEnum):
    """How often devices report (`--mode`)."""

    AUTO = "auto"
    MEMO = "memo"
    ONCE = "once"


class PlannedCorrectionName(StrEnum):
    """Names of the corrections whose results are predicted (`--correction`)."""

    FDR = "fdr"
    BH = "bh"
    BONFERRONI = "bonferroni"


class PeriodName(StrEnum):
    """Names of reporting periods (`--period`)."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def _of(what: str) -> Any:
    return typer.Option(parser=number, metavar="NUMBER", help=what)


Number = float | None


NameOption = Annotated[
    str, typer.Argument(help="Name of the metric, or a FILE.toml with several questions.")
]
ShareOption = Annotated[Number, _of("Smallest share to see, as 0.01 or 1%.")]
ErrorOption = Annotated[
    Number, _of("Of kinds number and location: how far off the mean, the curve or the map may be.")
]
DevicesOption = Annotated[
    Number,
    typer.Option(
        "--devices", "--population", parser=number, metavar="NUMBER", help="Devices that report."
    ),
]
TopOption = Annotated[
    Number, _of("In place of --share: see so many of the most frequent values expected.")
]
CandidatesOption = Annotated[Number, _of("Values that are looked for; 1,000 unless said.")]
PeriodsOption = Annotated[Number, _of("Periods that are decoded together; 1 unless said.")]
MaxBytesOption = Annotated[
    Number,
    typer.Option(
        "--bytes", parser=number, metavar="NUMBER", help="Of a report, at most; 16 unless said."
    ),
]
EpsilonReportOption = Annotated[Number, _of("Of one report, at most.")]
EpsilonYearOption = Annotated[Number, _of("Of a year of reports of one value, at most.")]
EpsilonLifeOption = Annotated[
    Number,
    typer.Option(
        "--epsilon-life",
        "--epsilon",
        parser=number,
        metavar="NUMBER",
        help="Of all that a device ever sends, at most.",
    ),
]
PowerOption = Annotated[float, _of("Probability with which the share is found.")]
AlphaOption = Annotated[float, _of("Level of the correction of the decoding.")]
LowOption = Annotated[Number, _of("Lowest edge of kind number.")]
HighOption = Annotated[Number, _of("Highest edge of kind number.")]
AskOption = Annotated[
    str | None, typer.Option(help="Of kind number: mean, or edges for a curve (unless said).")
]
BoxOption = Annotated[
    str | None, typer.Option(metavar="S,W,N,E", help="Degrees, of kinds location and flow.")
]
LevelOption = Annotated[
    list[int] | None, typer.Option(help="Of the grid (quadkey), coarse to fine; may be repeated.")
]
ValuesOption = Annotated[
    int | None, typer.Option(help="Values that a device may hold for life; 3 unless said.")
]
CorrectionOption = Annotated[
    PlannedCorrectionName, typer.Option(help="Of the decoding: what is promised about the list.")
]
ModeOption = Annotated[
    ModeName,
    typer.Option(help="once: one report for life; memo: one each period."),
]
PeriodOption = Annotated[
    PeriodName | None, typer.Option(help="One report in each; day unless said.")
]
KindOption = Annotated[
    str,
    typer.Option(
        help="auto (string or category), boolean, number, location, flow, discover, or one of "
        "your own."
    ),
]
CompleteOption = Annotated[bool, typer.Option("--complete", help="The candidates are all values.")]
ZipfOption = Annotated[
    float | None, typer.Option(help="Exponent of the population expected; 1 unless said.")
]
SharesOption = Annotated[
    Path | None,
    typer.Option(help="Shares expected: results.csv or .json of last month, or a list."),
]
MetricsOption = Annotated[
    Path | None, typer.Option(help="metrics.toml that the device has already.")
]
BudgetOption = Annotated[Number, _of("Of a device, all metrics; that of --metrics unless said.")]
DeltaOption = Annotated[float, _of("Of the claim about published counts.")]
ForgedOption = Annotated[float, _of("Share of reports that may be forged.")]
DescriptionOption = Annotated[str, typer.Option(help="For metrics.toml.")]
OwnerOption = Annotated[str, typer.Option(help="For metrics.toml.")]
ExpiresOption = Annotated[
    str | None, typer.Option(help="For metrics.toml; a year from now unless said.")
]
SampleOption = Annotated[
    bool, typer.Option("--preview/--no-preview", help="Decode an invented window.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for plan.html, plan.json and metrics.toml."),
]


def plan(
    context: typer.Context,
    name: NameOption = "planned",
    share: ShareOption = None,
    top: TopOption = None,
    error: ErrorOption = None,
    devices: DevicesOption = None,
    candidates: CandidatesOption = None,
    periods: PeriodsOption = None,
    max_bytes: MaxBytesOption = None,
    epsilon_report: EpsilonReportOption = None,
    epsilon_year: EpsilonYearOption = None,
    epsilon_life: EpsilonLifeOption = None,
    power: PowerOption = 0.8,
    alpha: AlphaOption = 0.05,
    correction: CorrectionOption = PlannedCorrectionName.FDR,
    mode: ModeOption = ModeName.AUTO,
    values: ValuesOption = None,
    period: PeriodOption = None,
    kind: KindOption = AUTO,
    low: LowOption = None,
    high: HighOption = None,
    ask: AskOption = None,
    box: BoxOption = None,
    level: LevelOption = None,
    complete: CompleteOption = False,
    zipf: ZipfOption = None,
    shares: SharesOption = None,
    metrics: MetricsOption = None,
    budget: BudgetOption = None,
    delta: DeltaOption = 1e-6,
    forged: ForgedOption = 0.1,
    description: DescriptionOption = "Planned metric",
    owner: OwnerOption = "nobody yet",
    expires: ExpiresOption = None,
    sample: SampleOption = True,
    relay: shared.BehindRelay = False,
    seed: shared.Seed = None,
    output: OutputOption = None,
    as_json: shared.Json = False,
) -> None:
    """Solve for the number that is missing, and say what will be seen and what it costs.

    Give two of: what to see (--share, --top or --error), devices, an epsilon. The third is solved
    for; with all three, one of candidates, periods and bytes. On a terminal, without options, it
    asks.
    """
    labels = Labels(name, description, owner, _day(expires))
    existing = None if metrics is None else load_metrics(metrics)
    out = PlanOutput(output, metrics, relay=relay, as_json=as_json)
    if name.endswith(PLAN_FILE):
        refuse_given(context, (*SHAPES, *OF_LISTS, *IN_TABLES), "a plan file: its tables say it")
        plan_file(labels, (devices, epsilon_life, budget), existing, out)
        return
    if kind not in LISTED:
        refuse_given(context, OF_LISTS, f"kind {kind!r}")
        shape = {"low": low, "high": high, "ask": ask, "box": box, "level": level, "error": error}
        lists = {"share": share, "top": top, "candidates": candidates, "bytes": max_bytes,
                 "values": values, "zipf": zipf, "periods": periods}  # fmt: skip
        table = table_of(kind, period, mode.value, shape | lists)
        plan_tables(labels, table, (devices, epsilon_life, budget), existing, out)
        return
    refuse_given(context, SHAPES, f"kind {kind!r}; say --kind")
    if _nothing_given(share, top, devices, epsilon_report, epsilon_year, epsilon_life):
        share, devices, epsilon_life, candidates, periods = _ask().values()
    request = PlanRequest(
        share=share, top=top, devices=devices, candidates=candidates, periods=periods,
        bytes=max_bytes, epsilon_report=epsilon_report, epsilon_year=epsilon_year,
        epsilon_life=epsilon_life, power=power, alpha=alpha, correction=correction.value,
        mode=mode.value, values=_values(values, kind), period=(period or PeriodName.DAY).value,
        kind=cast(KindChoice, kind), complete=complete,
    )  # fmt: skip
    draw = np.random.default_rng(seed) if sample else None
    _plan_listed(request, labels, _population(zipf, shares), (existing, budget),
                 Trust(delta, forged), out, draw)  # fmt: skip


def _plan_listed(
    request: PlanRequest,
    labels: Labels,
    population: ExpectedShares,
    device: tuple[MetricsFile | None, Number],
    trust: Trust,
    out: PlanOutput,
    draw: np.random.Generator | None,
) -> None:
    """Plan a metric whose values are looked for in a list.

    device: the metrics that it has already, and its budget.  draw: of the preview; None: none.
    """
    out.claim("plan.html", "plan.json", "metrics.toml")
    existing, budget = device
    shown = None
    with stage_bars() as show:
        made = make_plan(request, population, labels, trust, existing, budget, show, whole_check)
        show("linking", 0, 1)
        findings = _findings(made, existing, relay=out.relay)
        show("linking", 1, 1)
        if draw is not None:
            held = population(made.design.setting.candidates)
            shown = preview(made, held, draw, show)
    if out.folder is not None:
        _write(made, shown, findings, out)
    if out.as_json:
        print(json.dumps(_document(made, shown, findings), allow_nan=False))
    else:
        print_plan(made, shown, findings, out.folder)


def _population(zipf: float | None, shares: Path | None) -> ExpectedShares:
    if shares is None:
        return zipf_population(USUAL_ZIPF if zipf is None else zipf)
    if zipf is not None:
        raise PlanError(
            f"zipf = {zipf:g} and shares = {shares}: each names the population expected; give one"
        )
    return given_population(read_shares(shares), f"the shares of {shares.name}")


def _values(given: int | None, kind: str) -> int:
    if PlanRequest(kind=cast(KindChoice, kind)).single_bit and given not in (None, 2):
        raise PlanError(
            f"values = {given}: a boolean has 2 values, and both are paid; leave it out"
        )
    return USUAL_VALUES if given is None else given


def _nothing_given(*numbers: Number) -> bool:
    return all(value is None for value in numbers) and sys.stdin.isatty()


def _ask() -> dict[str, Number]:
    """The questions, in the order in which people can answer them; blank: not known."""
    questions = {
        "share": "Smallest share to see (as 1%; blank: solve for it)",
        "devices": "Devices that report (as 1M; blank: solve for it)",
        "epsilon_life": "Epsilon of a device's life (as 6; blank: solve for it)",
        "candidates": "Values on your list (blank: 1,000)",
        "periods": "Periods decoded together (blank: 1)",
    }
    answers: dict[str, Number] = {}
    for name, question in questions.items():
        text = typer.prompt(question, default="", show_default=False)
        answers[name] = number(text) if text.strip() else None
    for name, usual in (("candidates", 1_000), ("periods", 1)):
        answers[name] = answers[name] or usual
    return answers


def _day(text: str | None) -> date:
    if text is None:
        return datetime.now(UTC).date() + timedelta(days=365)
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise PlanError(f"expires = {text!r} is not a day such as 2027-06-30") from None
    if day < datetime.now(UTC).date():
        raise PlanError(f"expires = {text!r} is over; name a day to come")
    return day


def _findings(made: Plan, existing: MetricsFile | None, *, relay: bool) -> list[str]:
    """What `rappor metrics check` says of the file with the new metric in it, and re-linking."""
    known = {} if existing is None else dict(existing.metrics)
    if made.metric.name in known:
        raise PlanError(f"metric {made.metric.name!r} is in the file already; choose another name")
    budget = made.declared_budget if existing is None else existing.budget
    whole = MetricsFile(known | {made.metric.name: made.metric}, budget)
    people = int(made.design.setting.devices)
    told = finding_lines(whole, people, relay=relay)
    params = made.metric.params
    if params.num_bits < 2:  # two patterns tell nobody apart
        return told
    return [*told, trackability_text(made.metric, people // params.num_cohorts)]


def _write(made: Plan, shown: Preview | None, findings: list[str], out: PlanOutput) -> None:
    """Write the files of a plan."""
    sampled = None if shown is None else Sampled(shown.rows, shown.found, shown.false, shown.missed)
    out.write("plan.html", render_plan(made, sampled, findings))
    document = json.dumps(_document(made, shown, findings), indent=1, allow_nan=False)
    out.write("plan.json", document + "\n")
    out.write("metrics.toml", out.with_known(made.file_text, made.table))


def _document(made: Plan, shown: Preview | None, findings: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = made.to_dict() | {"findings": findings, "preview": None}
    if shown is not None:
        keys = ("value", "true_share", "share", "low", "high")
        told["preview"] = {
            "rows": [dict(zip(keys, row, strict=True)) for row in shown.rows],
            "found": shown.found,
            "false": shown.false,
        }
    return told
