"""`rappor metrics`: check, compile, publish, label, list, push, pause and retire metrics."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from collector.domain.operations import COMMAND_LINE
from decoder.sources.collector_client import ask_json
from metric_design.platforms import PASTE, load_for_devices
from metric_design.review import Finding, crowd_of, verdict_on
from metric_design.store_labels import app_metrics, privacy_manifest, store_answers
from metric_design.typed_accessors import python_text, typescript_text
from rappor_cli import options as shared
from rappor_cli.numbers import people
from rappor_cli.options import command_group
from rappor_cli.store import need_one, opened
from rappor_cli.text import print_columns
from rappor_cli.train_code import train
from rappor_cli.whole_check import whole_check
from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import COMPILED_ENDING, compiled_text, load_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP, WEB
from rappor_core.risk import PRIOR, belief_text, believed, percent_up, risk_of
from rappor_core.sequence_risk import risk_text
from rappor_core.text import counted
from rappor_core.whole_files import write_whole

app = command_group(
    "Check, compile, publish, label, list, push, pause and retire metrics.",
    "rappor metrics check metrics.toml --population 1000000",
)

app.command("train-code")(train)

WATCH_SECONDS = 1.0
TYPESCRIPT_ENDING = ".ts"
PYTHON_ENDING = ".py"
METRICS = (
    *("metric", "kind", "params_id", "state", "accepted", "days served"),
    *(f"{100 * PRIOR:g} % after one report", "for life", "until", "by whom"),
)


@app.command()
def check(
    file: shared.MetricsFile,
    population: Annotated[
        int | None,
        typer.Option(
            parser=people,
            metavar="NUMBER",
            help="Expected devices, to warn about tracking and to predict maps.",
        ),
    ] = None,
    periods: Annotated[
        int | None,
        typer.Option(min=1, max=10**6, help="Periods in a map; by default until a metric expires."),
    ] = None,
    places: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**6, help="Lifetime distinct cells per device; default: cap or 3."
        ),
    ] = None,
    relay: shared.BehindRelay = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print each finding in full, with its remedy.")
    ] = False,
    as_json: shared.Json = False,
) -> None:
    """Print a verdict for each metric in FILE: ship, think, do not. Only errors exit with 1."""
    if relay and population is None:
        raise typer.BadParameter("needs --population: a relay hides devices among each other")
    metrics, refused = load_for_devices(file)
    findings = whole_check(metrics, population, relay=relay, periods=periods, places=places)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        _print_verdicts(metrics.declared, findings)
        for line in _shared_sentences(metrics.declared, population, guess=explain):
            print(line)
        for finding in findings:
            if explain or not finding.metric or finding.level == "error":
                print(f"{finding.level}: {finding.metric or file}: {finding.message}")
        hint = "" if explain or not findings else " (--explain prints them)"
        print(
            f"{counted(len(metrics.declared), 'metric')}, {counted(len(findings), 'finding')}{hint}"
            f"; all metrics may cost a device up to epsilon {metrics.lifetime_epsilon:.3f} "
            f"in its lifetime{_by_platform(metrics)}"
        )
    _say_refused(refused, explain=explain)
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(1)


def _print_verdicts(metrics: Sequence[Metric], findings: Sequence[Finding]) -> None:
    """Print one line per metric: verdict, what a report and all reports reveal, first reason."""
    headings = ("metric", "verdict", f"{100 * PRIOR:g} % sure: after a report", "after all", "why")
    rows = []
    for metric in metrics:
        risk, (verdict, reasons) = risk_of(metric), verdict_on(metric, findings)
        figures = (percent_up(believed(nats)) for nats in (risk.report, risk.worst))
        more = f"; {len(reasons) - 1} more" if len(reasons) > 1 else ""
        rows.append((metric.base_name, verdict, *figures, "".join(reasons[:1]) + more))
    print_columns(headings, rows)


def _shared_sentences(
    metrics: Sequence[Metric], population: int | None, *, guess: bool
) -> Iterator[str]:
    """Yield lines on what metrics reveal: names, then the sentences that hold for all of them."""
    holders: dict[str, list[str]] = {}
    for metric in metrics:
        text = risk_text(metric, crowd_of(metric, population) if guess else None)
        for sentence in re.split(r"(?<=\.) (?=[A-Z])", text):
            holders.setdefault(sentence, []).append(metric.base_name)
    for names, sentences in groupby(holders, key=lambda sentence: ", ".join(holders[sentence])):
        yield f"{names}: {' '.join(sentences)}"


def _by_platform(metrics: MetricsFile) -> str:
    if all(metric.platforms == (APP,) for metric in metrics.declared):
        return ""
    app, web = metrics.lifetime_epsilon_on(APP), metrics.lifetime_epsilon_on(WEB)
    return f" (app {app:.3f}; web {web:.3f}, over all lives of a browser's storage)"


@app.command("compile")
def compile_(
    file: shared.MetricsFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Output file; its name ends in .json, .ts or .py."),
    ],
    typescript: Annotated[
        bool, typer.Option("--typescript", help="Typed accessors for the TypeScript client.")
    ] = False,
    python: Annotated[bool, typer.Option("--python", help="Typed Python accessors.")] = False,
) -> None:
    """Write FILE as JSON that a device reads without a TOML parser, or as typed accessors."""
    if typescript and python:
        raise typer.BadParameter("--typescript and --python are separate files; give one")
    written: dict[str, Callable[[MetricsFile], str]] = {
        COMPILED_ENDING: compiled_text,
        TYPESCRIPT_ENDING: typescript_text,
        PYTHON_ENDING: python_text,
    }
    ending = TYPESCRIPT_ENDING if typescript else PYTHON_ENDING if python else COMPILED_ENDING
    if output.suffix != ending:
        by_which = "device" if ending == COMPILED_ENDING else "compiler"
        raise typer.BadParameter(
            f"{output} does not end in {ending}, by which a {by_which} detects the form",
            param_hint="--output",
        )
    metrics, refused = load_for_devices(file)
    write_whole(output, written[ending](metrics))
    print(f"{output}: {counted(len(metrics.declared), 'metric')}")
    if ending != PYTHON_ENDING:
        _say_refused(refused)


def _say_refused(sentences: Sequence[str], *, explain: bool = False) -> None:
    for sentence in sentences:
        short, paste, _ = sentence.partition(PASTE)
        more = "; rappor metrics check --explain prints what to add" if paste else ""
        print(f"note: {sentence if explain else short + more}", file=sys.stderr)


@app.command()
def publish(
    file: shared.MetricsFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the site.")],
    contact: Annotated[str, typer.Option(help="A contact for questions; shown as given.")] = "",
) -> None:
    """Write a public page about FILE: what is collected, by whom, until when, and the epsilon."""
    from metric_design.dictionary import entries_of, write_site  # its templates load slowly

    entries = entries_of(load_metrics(file).declared, datetime.now(UTC).date())
    page = write_site(entries, output, contact)
    print(f"{page}: {counted(len(entries), 'metric')}")


@app.command()
def label(
    file: shared.MetricsFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the two files.")],
) -> None:
    """Write Apple's PrivacyInfo.xcprivacy and the answers that app stores ask for, from FILE."""
    metrics = app_metrics(load_metrics(file))
    if not metrics:
        raise typer.BadParameter(f"no metric of {file} runs in an app: `platforms` has only web")
    output.mkdir(parents=True, exist_ok=True)
    write_whole(output / "PrivacyInfo.xcprivacy", privacy_manifest(metrics).decode())
    write_whole(output / "stores.md", store_answers(metrics))
    print(f"{output}: PrivacyInfo.xcprivacy and stores.md; answer the questions at its end")


@app.command("list")
def list_(
    collector: shared.Collector = None,
    database: shared.Database = None,
    as_json: shared.Json = False,
    watching: Annotated[bool, typer.Option("--watch", help="Watch until Ctrl-C.")] = False,
) -> None:
    """List a collector's metrics: versions, totals, days served, epsilons, owners, end dates."""
    need_one(collector, database)
    if watching and as_json:
        raise typer.BadParameter("give one of --watch and --json")
    with nullcontext() if collector else opened(str(database)) as service:

        def read() -> list[dict[str, Any]]:
            if service is not None:
                return service.list_metrics()
            return list(ask_json(str(collector), "/v1/metrics", "metrics")["metrics"])

        if watching:
            watch(read)
        metrics = read()
    if as_json:
        print(json.dumps(metrics))
        return
    print_columns(METRICS, list(map(metric_row, metrics)))
    growing = [(metric["name"], day) for metric in metrics for day in metric.get("growing", ())]
    for name, day in growing:
        print(
            f"{name} grows: {day['reports']:,} reports of {day['day']}, usual are "
            f"{day['usual']:,}; a release, or forgeries"
        )


def watch(read: Callable[[], list[dict[str, Any]]]) -> None:
    """Print one line per version now, and again when reports arrive, until Ctrl-C."""
    shown: dict[tuple[str, str], str] = {}
    while True:
        for metric in read():
            version, line = (metric["name"], metric["params_id"]), arrivals(metric)
            if shown.get(version) != line:
                print(line, flush=True)
            shown[version] = line
        time.sleep(WATCH_SECONDS)


def arrivals(listed: Mapping[str, Any]) -> str:
    """Return a line about a version's reports, and when the next days can be decoded."""
    state = "" if listed["state"] == "current" else f" ({listed['params_id']}, {listed['state']})"
    text = f"{listed['name']}{state}: {counted(listed['accepted'], 'report')} accepted"
    coming = listed.get("next")  # collectors of earlier versions do not send it
    if "today" in listed:
        text += f", {listed['today']:,} today"
    if listed["served"]:
        text += f"; decodable through {listed['served']['last_day']}"
    if coming:
        text += f"; {'next' if listed['served'] else 'decodable'} on {coming['closes']}"
        if coming["missing_reports"]:
            text += f" at the earliest, missing: {counted(coming['missing_reports'], 'report')}"
        else:
            text += " unless a cohort has too few"
    return text


@app.command()
def push(
    file: shared.MetricsFile,
    weaken: Annotated[
        bool, typer.Option("--weaken", help="Allow changes that weaken privacy; audited.")
    ] = False,
    revive: Annotated[bool, typer.Option("--revive", help="Revive retired metrics.")] = False,
    collector: shared.Collector = None,
    database: shared.Database = None,
) -> None:
    """Declare the metrics in FILE, or new versions of them, on a collector."""
    need_one(collector, database)
    if file.suffix == COMPILED_ENDING:
        raise typer.BadParameter(f"{file} is compiled for devices; push the metrics.toml")
    metrics = load_metrics(file)
    if collector is not None:
        done = ask_json(
            collector,
            "/v1/metrics",
            *("added", "changed", "weakened", "still_retired"),
            method="POST",
            query={"weaken": "true" if weaken else None, "revive": "true" if revive else None},
            body=file.read_bytes(),
            content_type="application/toml",
        )
    else:
        with opened(str(database), may_be_new=True) as service:
            pushed = service.push_metrics(
                metrics.metrics.values(), COMMAND_LINE, weaken=weaken, revive=revive
            )
            done = asdict(pushed)
    print(f"added: {_names(done['added'])}; changed: {_names(done['changed'])}")
    for what in done["weakened"]:
        print(f"weakened: {what}")
    if done["still_retired"]:
        print(f"still retired: {_names(done['still_retired'])}; --revive collects them again")


@app.command()
def retire(
    metric: shared.Metric,
    params_id: Annotated[str | None, typer.Option(help="Only this version.")] = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
) -> None:
    """Stop accepting reports for METRIC permanently. Collected reports are still served."""
    need_one(collector, database)
    if collector is not None:
        path = f"/v1/metrics/{metric}/retire"
        query = {"params_id": params_id}
        retired = ask_json(collector, path, "retired", method="POST", query=query)["retired"]
    else:
        with opened(str(database)) as service:
            retired = service.retire_metric(metric, COMMAND_LINE, params_id)
    print(f"retired {metric}: {_names(retired)}")


@app.command()
def pause(
    metric: shared.Metric,
    resume: Annotated[bool, typer.Option("--resume", help="Accept reports again.")] = False,
    collector: shared.Collector = None,
    database: shared.Database = None,
) -> None:
    """Stop accepting reports for METRIC for now; devices then stop recording it for a day.

    After that day, a device records and sends one report. If the metric is still paused, the device
    waits another day.
    """
    need_one(collector, database)
    if collector is not None:
        query = {"resume": "true"} if resume else {}
        ask_json(collector, f"/v1/metrics/{metric}/pause", "name", method="POST", query=query)
    else:
        with opened(str(database)) as service:
            service.pause_metric(metric, COMMAND_LINE, paused=not resume)
    print(f"{'resumed' if resume else 'paused'} {metric}")


def metric_row(listed: Mapping[str, Any]) -> list[str]:
    """Return the table row for a metric version on a collector.

    Two figures show what a suspicion of `PRIOR` can become after one report and after all
    reports. They are "?" if this program does not know the kind.
    """
    definition, served = listed["definition"], listed["served"]
    try:
        risk = risk_of(Metric.from_dict(definition))
        beliefs = belief_text(risk.report), belief_text(risk.worst)
    except (RapporError, KeyError):
        beliefs = "?", "?"
    return [
        *(listed["name"], definition["kind"], listed["params_id"], listed["state"]),
        str(listed["accepted"]),
        f"{served['first_day']} to {served['last_day']}" if served else "none yet",
        *beliefs,
        *(definition["expires"], definition["owner"]),
    ]


def _names(names: list[str]) -> str:
    return ", ".join(names) or "none"
