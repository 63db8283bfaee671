"""`rappor plan` of kinds without a list of values, and of several metrics in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import typer

from decoder.errors import PlanError
from decoder.files import claim_folder, probe_folder
from metric_design.metric_plan import MetricPlan, weak_sentence
from metric_design.metric_table import Labels
from metric_design.plan_file import Asked, FilePlan, asked_of, plan_questions, read_questions
from privacy_audit.relay_linkage import linkage_findings
from rappor_cli.progress import stage_bars
from rappor_cli.text import plain
from rappor_cli.whole_check import whole_check
from rappor_core.errors import file_problem
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.sequence_risk import risk_text
from rappor_core.whole_files import write_whole

PLAN_FILE = ".toml"
_AUTO = "auto"  # of a mode


@dataclass(frozen=True)
class PlanOutput:
    """Where a plan goes. folder: of its files.  known: a metrics.toml that there is already."""

    folder: Path | None
    known: Path | None
    relay: bool
    as_json: bool

    def claim(self, *names: str) -> None:
        """Take the folder for files of these names. Raises OSError, or DecodeError."""
        if self.folder is not None:
            claim_folder(self.folder, names, "plan.json", "answer")
            probe_folder(self.folder)

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder."""
        if self.folder is not None:
            write_whole(self.folder / name, text)

    def with_known(self, text: str, tables: str) -> str:
        """A whole file, or the one that is known with the tables behind."""
        if self.known is None:
            return text
        return f"{self.known.read_text('utf-8').rstrip()}\n\n{tables}"


def refuse_given(context: typer.Context, names: Iterable[str], what: str) -> None:
    """Refuse options that were given and that nothing would be done with. Raises PlanError.

    names: of the command's parameters.  what: has no use for them.
    """
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name in names and source is not None and source.name == "COMMANDLINE":
            raise PlanError(f"{parameter.opts[0]} = {context.params[name]} has no use for {what}")


def table_of(
    kind: str, period: StrEnum | None, mode: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The table of a metric that is asked for by options. options: those given, or None."""
    given = {key: value for key, value in options.items() if value is not None}
    low, high = given.pop("low", None), given.pop("high", None)
    if (low is None) != (high is None):
        raise PlanError("--low and --high: give both ends of the range")
    if low is not None and not low < high:
        raise PlanError(f"--low = {low:g} is not below --high = {high:g}")
    table: dict[str, Any] = {"kind": kind}
    if low is not None:
        table["edges"] = {"scale": "linear", "from": low, "to": high}
    if "box" in given:
        table["box"] = _degrees(given.pop("box"))
    if "level" in given:
        table["levels"] = given.pop("level")
    if period is not None:
        table["period"] = period.value
    if mode != _AUTO:
        table["mode"] = mode
    return table | given


def _degrees(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise PlanError(f"--box = {text!r} is not south,west,north,east in degrees") from None


def plan_tables(
    labels: Labels,
    table: Mapping[str, Any],
    numbers: tuple[float | None, float | None, float | None],
    existing: MetricsFile | None,
    out: PlanOutput,
) -> None:
    """Plan the metric of a table.

    numbers: devices; epsilon for life of all that is planned; budget of a device.
    """
    asked = [asked_of(labels.name, _common(labels) | dict(table), numbers[0])]
    _plan_asked(asked, numbers, existing, out)


def plan_file(
    labels: Labels,
    numbers: tuple[float | None, float | None, float | None],
    existing: MetricsFile | None,
    out: PlanOutput,
) -> None:
    """Plan the metrics of the file that `labels.name` is. numbers: as of `plan_tables`."""
    devices, epsilon, budget = numbers
    asked, declared = read_questions(_text(Path(labels.name)), _common(labels), devices)
    budget = declared if budget is None else budget
    _plan_asked(asked, (devices, epsilon, budget), existing, out)


def _common(labels: Labels) -> dict[str, Any]:
    """Keys of a table that has none of its own."""
    return {"description": labels.description, "owner": labels.owner, "expires": labels.expires}


def _plan_asked(
    asked: list[Asked],
    numbers: tuple[float | None, float | None, float | None],
    existing: MetricsFile | None,
    out: PlanOutput,
) -> None:
    _, epsilon, budget = numbers
    out.claim("plan.json", "metrics.toml")
    if budget is None and existing is not None:
        budget = existing.budget
    if epsilon is not None:
        spent = 0.0 if existing is None else existing.lifetime_epsilon
        budget = epsilon + spent if budget is None else min(budget, epsilon + spent)
    with stage_bars() as show:
        made = plan_questions(asked, budget, existing, whole_check, show)
        show("linking", 0, 1)
        findings = _findings(made, existing, relay=out.relay)
        show("linking", 1, 1)
    document = made.to_dict() | {"findings": findings}
    out.write("plan.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    out.write("metrics.toml", out.with_known(made.text, made.tables))
    if out.as_json:
        print(json.dumps(document, allow_nan=False))
    else:
        _print(made, findings, out.folder)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: {file_problem(error)}") from None


def _findings(made: FilePlan, existing: MetricsFile | None, *, relay: bool) -> list[str]:
    """What `rappor metrics check` warns of in the file with the planned metrics in it."""
    planned = parse_metrics(made.tables).metrics
    known = {} if existing is None else dict(existing.metrics)
    whole = MetricsFile(known | dict(planned), made.budget)
    devices = max(plan.devices for plan in made.plans)
    return finding_lines(whole, devices, relay=relay)


def finding_lines(file: MetricsFile, population: int, *, relay: bool) -> list[str]:
    """Warnings and errors of the whole check as lines. relay: also whom a relay hides."""
    found = [one for one in whole_check(file, population) if one.level != "note"]
    if relay:
        found += linkage_findings(file, population, np.random.default_rng(0))
    return [f"{one.level}: {one.metric or 'the whole file'}: {one.message}" for one in found]


def _print(made: FilePlan, findings: list[str], folder: Path | None) -> None:
    """Print the answer first, the tables last."""
    print(made.answer)
    for plan in made.plans:
        if len(made.plans) > 1:
            print()
        for line in _lines(plan, alone=len(made.plans) == 1):
            print(plain(line))
    if made.left > 1e-2:
        print(f"budget left for later metrics: {made.left:.3g} of {made.budget:.3g}")
    for finding in findings:
        print(plain(finding))
    print()
    for line in made.text.splitlines():
        print(plain(line))
    if folder is not None:
        print(plain(f"written: {folder}/plan.json, metrics.toml"))


def _lines(plan: MetricPlan, *, alone: bool) -> Iterable[str]:
    """What is said of one metric; its answer, unless it was said."""
    said = [] if alone else [f"{plan.name}: {plan.answer}"]
    more = plan.because, plan.supposed, plan.merged, weak_sentence(plan.epsilon)
    return [*said, *(line for line in more if line), risk_text(plan.metric)]
