"""Decode counts and write the result's folder; the command line and the service use this."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder.errors import DecodeError, OutputError
from decoder.files import claim_folder, finite, make_folder, write_files
from decoder.kinds.interface import KindDecoder, decoder_of, kinds_with
from decoder.kinds.over_time import comparison_page, series_page
from decoder.kinds.result import MANIFEST, PAGE, RESULTS, PageParts, Question, Result, StoredResult
from decoder.output.jinja import page_template
from decoder.tables.paging import TableQuery
from rappor_core.errors import file_problem
from rappor_core.metrics.metric import Metric
from rappor_core.risk import rise_text
from rappor_core.sequence_risk import risk_text

if TYPE_CHECKING:
    from decoder.options import Operation
    from decoder.output.tiles import Tiles
    from decoder.progress import Note, Progress
    from rappor_core.aggregate import Aggregate

MAX_PAGE_ROWS = 1_000  # the maximum in a page that is a file


def kind_of(counts: Sequence[Aggregate]) -> KindDecoder:
    """Return the decoder for counts; without a definition, the decoder for strings.

    Raises DecodeError if there are no counts, or the kind is unknown."""
    if not counts:
        raise DecodeError("there are no counts to decode; choose other days or files")
    return decoder_of(counts[0].definition.get("kind", "string"))


def decode_counts(
    operation: Operation,
    counts: Sequence[Sequence[Aggregate]],
    question: Question,
    progress: Progress,
    note: Note,
) -> Result:
    """Decode with the decoder for the metric's kind. Raises RapporError if the input is invalid.

    Args:
        operation: `decode` with one group of counts; `series` with one group that has an aggregate
            for each window; `compare` with the groups of the earlier and the later window.
        counts: The groups of aggregates, as `operation` needs them.
        question: What to decode, and with which options.
        progress: A callback, called with (stage, done, total).
        note: A callback, called with a sentence about input that was skipped or used.
    """
    kind = kind_of(counts[0])
    if operation not in kind.operations:
        name, having = counts[0][0].definition.get("kind"), ", ".join(kinds_with(operation))
        raise DecodeError(
            f"a metric of kind {name!r} has no {operation}, only {having}: decode one window"
        )
    kind.check(question)
    question = replace(question, progress=progress, note=note)
    if operation == "compare":
        before, after = counts
        first = min((item.first_day for item in before if item.first_day), default=None)
        last = max((item.last_day for item in after if item.last_day), default=None)
        if first and last and last < first:
            raise DecodeError(
                f"the later window ends on {last}, before the earlier one begins on {first}: swap "
                "them"
            )
        return kind.compare(before, after, question)
    return (kind.series if operation == "series" else kind.decode)(counts[0], question)


def claim(folder: Path, kind: KindDecoder) -> None:
    """Create a folder for a result. Raises OutputError if it contains another program's files."""
    names = (
        RESULTS,
        PAGE,
        MANIFEST,
        *(f"{kind.table_of(operation)}.csv" for operation in kind.operations),
    )
    claim_folder(folder, names, RESULTS)
    make_folder(folder)


def write_result(
    result: Result,
    kind: KindDecoder,
    operation: Operation,
    folder: Path,
    progress: Progress,
    tiles: Tiles | None = None,
) -> tuple[Path, ...]:
    """Write all files of a result or none; the same input produces the same bytes.

    Files from an earlier result in the folder are deleted unless this result replaces them.

    Args:
        result: The result.
        kind: The kind of its metric, which renders the page.
        operation: The operation that produced it.
        folder: The folder, created if it does not exist.
        progress: A callback, called after each file.
        tiles: Tiles behind the maps of the page; None for no tiles.

    Returns:
        The paths of the files.

    Raises:
        OutputError: A file cannot be written, or an old file cannot be deleted.
    """
    stored, files = in_memory(result, operation), _tables(result)
    for name, document in stored.documents.items():
        files[name] = partial(_write_json, document, None if name in result.documents else 2)
    files |= result.files
    files[PAGE] = lambda at: at.write_text(render_page(kind, stored, tiles), encoding="utf-8")
    return replace_files(folder, files, progress)


def replace_files(
    folder: Path, files: Mapping[str, Callable[[Path], object]], progress: Progress
) -> tuple[Path, ...]:
    """Write the files of a result, and delete those of an earlier one; see `write_result`."""
    try:  # the files of an earlier result, by its manifest
        before = json.loads((folder / MANIFEST).read_bytes())["files"]
    except (OSError, ValueError, KeyError, TypeError):
        before = []
    before = {name for name in before if isinstance(name, str) and Path(name).name == name}
    paths = write_files(folder, files, progress)
    for name in before - set(files):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            why = file_problem(error)
            raise OutputError(f"{folder / name} of an earlier result remains: {why}") from error
    return paths


def in_memory(result: Result, operation: Operation) -> StoredResult:
    """Return a result in the form that its page reads, without writing files."""
    names = frozenset({*_tables(result), *result.documents, *result.files, RESULTS, MANIFEST, PAGE})
    manifest = finite(result.manifest | {"operation": operation, "files": sorted(names)})
    documents = {RESULTS: result.content, MANIFEST: manifest, **result.documents}
    tables = {f"{table.name}.parquet": table for table in result.tables}
    return StoredResult(operation, names, lambda name: tables[name].to_parquet(),
                        documents=documents)  # fmt: skip


def _tables(result: Result) -> dict[str, Callable[[Path], object]]:
    tables: dict[str, Callable[[Path], object]] = {}
    for table in result.tables:
        tables[f"{table.name}.csv"] = table.write_csv
        tables[f"{table.name}.parquet"] = table.write_parquet
    return tables


def page_parts(kind: KindDecoder, stored: StoredResult, query: TableQuery) -> PageParts:
    """Return the parts of the page of a stored result."""
    over_time = {"series": series_page, "compare": comparison_page}
    has_series = "series" in kind.operations and stored.operation in over_time
    parts = (over_time[stored.operation] if has_series else kind.page)(stored, query)
    manifest = stored.json(MANIFEST)
    if manifest["definition"]:
        return replace(parts, guarantee=risk_text(Metric.from_dict(manifest["definition"])))
    epsilons = (manifest[name] for name in ("epsilon_one", "epsilon_infinity"))
    once, ever = (rise_text(math.inf if epsilon is None else epsilon) for epsilon in epsilons)
    promised = (  # not for google/rappor's files, which contain no caps
        f"About a device's value: after one report, {once}; after all reports about one value, "
        f"{ever}."
    )
    return replace(parts, guarantee=promised)


def render_page(kind: KindDecoder, stored: StoredResult, tiles: Tiles | None = None) -> str:
    """Render report.html, one self-contained page that is safe to show to a customer."""
    parts = page_parts(kind, stored, TableQuery(rows=MAX_PAGE_ROWS))
    manifest = stored.json(MANIFEST)
    return page_template("report.html.j2").render(
        metric=stored.json()["metric"],
        title=kind.title_of(stored.operation),
        description=manifest["definition"].get("description"),
        manifest=manifest,
        view=parts,
        query=None,
        own=False,
        tiles=tiles,
        **parts.variables,
    )


def _write_json(content: dict[str, Any], indent: int | None, path: Path) -> None:
    """Write JSON in ASCII, so that untrusted text cannot control a terminal."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(content, indent=indent, separators=separators, allow_nan=False, default=str)
    path.write_text(text.replace("\x7f", "\\u007f") + "\n", encoding="ascii")
