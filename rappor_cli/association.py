"""`rappor association`: how two metrics go together, of a collector or of google/rappor's files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decoder.association.linked import LinkedReports
from decoder.files import read_association_file
from decoder.formats.google_association import AssociationFiles
from decoder.formats.linked_reports import read_linked
from decoder.options import DecodeOptions
from decoder.sources.collector_client import fetch_association
from decoder.workflows.associations import (
    AssociationJob,
    LinkedJob,
    fetch_linked_reports,
    run_association,
    run_linked,
)
from rappor_cli import options as shared
from rappor_cli.days import read_day
from rappor_cli.decode_tables import print_answer
from rappor_cli.repeats import Repeats
from rappor_cli.store import need_one, opened
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.whole_files import write_whole

Existing = Path | None


def association(
    name: Annotated[str | None, typer.Argument(help="Association, of a collector.")] = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
    aggregate: Annotated[Existing, typer.Option(help="Or its aggregate file.", exists=True)] = None,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    params_id: shared.ParamsId = None,
    candidates1: Annotated[
        Existing, typer.Option(help="Values of the first metric, if it lists none.", exists=True)
    ] = None,
    candidates2: Annotated[
        Existing, typer.Option(help="Values of the second metric, likewise.", exists=True)
    ] = None,
    repeats: Repeats = None,
    save: Annotated[
        Existing, typer.Option("--aggregate-to", help="File to keep the counts in.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Read linked reports, too (keep_raw_days): EM besides.")
    ] = False,
    reports: Annotated[
        Existing, typer.Option(help="google/rappor: client,cohort,VARIABLE,...", exists=True)
    ] = None,
    schema: Annotated[
        Existing, typer.Option(help="Its metric,var,var_type,params", exists=True)
    ] = None,
    params_dir: Annotated[Existing, typer.Option(help="Folder of PARAMS.csv.", exists=True)] = None,
    metric: Annotated[str | None, typer.Option(help="Metric of the schema.")] = None,
    var1: Annotated[str | None, typer.Option(help="First variable.")] = None,
    var2: Annotated[str | None, typer.Option(help="Second variable.")] = None,
    map1: Annotated[Existing, typer.Option(help="map.csv of a string.", exists=True)] = None,
    map2: Annotated[Existing, typer.Option(help="map.csv of a string.", exists=True)] = None,
    em: Annotated[bool, typer.Option(help="Of --reports: the table of most likelihood.")] = True,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Level of the test.")] = 0.05,
    level: shared.Level = 0.95,
    output: shared.OutputFolder = None,
    as_json: shared.Json = False,
) -> None:
    """Decode how two linked metrics go together: table, margins, test of independence."""
    options = DecodeOptions(alpha=alpha, level=level, repeats=repeats)
    if reports is not None:
        if schema is None or params_dir is None or metric is None or var1 is None or var2 is None:
            needed = "--schema, --params-dir, --metric, --var1 and --var2"
            raise typer.BadParameter(f"--reports needs {needed}")
        if name or collector or aggregate or raw:
            raise typer.BadParameter("give NAME or --aggregate FILE, or --reports FILE")
        files = AssociationFiles(reports, schema, params_dir, metric, (var1, var2), (map1, map2))
        answer = run_association(AssociationJob(files, options, em, output))
    else:
        counts = _counts(name, collector, database, aggregate, (first, last), params_id)
        if save is not None:
            write_whole(save, counts.to_json())
        linked = _linked_reports(counts, collector, database, aggregate) if raw else None
        lists = candidates1, candidates2
        answer = run_linked(LinkedJob(counts, linked, lists, options, output))
    print_answer(answer, output, as_json)


def _counts(
    name: str | None,
    collector: str | None,
    database: str | None,
    aggregate: Path | None,
    window: tuple[str | None, str | None],
    params_id: str | None,
) -> AssociationAggregate:
    """From the one source that was named."""
    need_one(collector, database, [aggregate] if aggregate else ())
    if aggregate is not None:
        if name or any(window):
            raise typer.BadParameter("NAME, --from and --to go with --collector or --database")
        return read_association_file(aggregate)
    if name is None:
        raise typer.BadParameter(
            "give NAME with --collector URL or --database URL, --aggregate FILE, or --reports FILE"
        )
    first, last = map(read_day, window)
    if collector is not None:
        return fetch_association(collector, name, params_id=params_id, first=first, last=last)
    from collector.domain.operations import COMMAND_LINE  # who decodes files has no collector

    with opened(str(database)) as service:
        return service.read_association(
            COMMAND_LINE, name, params_id=params_id, first=first, last=last
        )


def _linked_reports(
    counts: AssociationAggregate, collector: str | None, database: str | None, file: Path | None
) -> LinkedReports:
    """Those behind the counts, from the same source."""
    if file is not None:
        raise typer.BadParameter("--raw needs --collector or --database: a file holds counts only")
    if collector is not None:
        return fetch_linked_reports(collector, counts)
    from collector.domain.operations import COMMAND_LINE  # as above

    one, days = counts.association, {"first": counts.first_day, "last": counts.last_day}
    with opened(str(database)) as service:
        _, pages = service.export_linked(COMMAND_LINE, one.name, params_id=one.params_id, **days)
        return read_linked((line for page in pages for line in page.splitlines()), one)
