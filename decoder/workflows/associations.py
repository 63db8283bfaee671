"""Decode jobs of linked reports: the joint table of two metrics, in files and in print."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from pathlib import Path

from decoder.association.associations import decode_association
from decoder.association.linked import LinkedReports
from decoder.association.linked_counts import decode_linked
from decoder.association.table import JointTable
from decoder.candidates.lists import Candidates
from decoder.files import claim_folder, make_folder, replacing
from decoder.formats.google_association import AssociationFiles, read_association
from decoder.formats.linked_reports import read_linked
from decoder.options import DecodeOptions
from decoder.output.decoding_files import MARK, OUTPUTS
from decoder.output.joint_files import write_joint
from decoder.sources.collector_client import answer_of
from decoder.workflows.joint import joint_answer
from decoder.workflows.kinds import KindAnswer
from rappor_core.association_aggregate import AssociationAggregate

RESULTS = "assoc-results.csv"  # of google/rappor


@dataclass(frozen=True)
class AssociationJob:
    """A request to decode two variables of google/rappor's files. output: the folder for files."""

    files: AssociationFiles
    options: DecodeOptions = field(default_factory=DecodeOptions)
    likelihood: bool = True
    output: Path | None = None


def run_association(job: AssociationJob) -> KindAnswer:
    """Read the files, decode, and write the table if the job names a folder.

    Raises RapporError: what the files, the decoder or the disk refuse.
    """
    if job.output:
        make_folder(job.output)
    found = read_association(job.files)
    table = decode_association(
        found.reports, found.first, found.second, job.options, likelihood=job.likelihood
    )
    notes = list(table.warnings)
    if found.blank:
        notes.append(f"{found.blank:,} rows with a blank variable are left out")
    if found.repeated:
        notes.append(
            f"{found.repeated:,} rows are of clients that have another: intervals and test take "
            "each row as a device of its own, and are too narrow; keep one row a client"
        )
    table = replace(table, warnings=tuple(notes))
    written: tuple[Path, ...] = ()
    if job.output:
        written = (*write_joint(table, job.output), _write_results(table, job.output / RESULTS))
    return joint_answer(table, written)


@dataclass(frozen=True)
class LinkedJob:
    """A table of two linked metrics, from the aggregate of their association.

    lists: candidates of each metric that has no list of values.  reports: the linked reports of the
    same window, for EM besides.  output: the folder for files.  of: rows and columns of the table,
    as the association declares them if None.
    """

    aggregate: AssociationAggregate
    reports: LinkedReports | None = None
    lists: tuple[Path | None, Path | None] = (None, None)
    options: DecodeOptions = field(default_factory=DecodeOptions)
    output: Path | None = None
    of: tuple[str, str] | None = None


def run_linked(job: LinkedJob) -> KindAnswer:
    """Decode the counters of an association, and write the table if the job names a folder.

    Raises RapporError: what the lists, the decoder or the disk refuse.
    """
    if job.output:
        claim_folder(job.output, OUTPUTS, MARK)
        make_folder(job.output)
    first, second = (None if path is None else Candidates.from_file(path) for path in job.lists)
    table = decode_linked(job.aggregate, (first, second), job.options, job.reports)
    table = table.ordered(job.of or table.of)
    return joint_answer(table, write_joint(table, job.output) if job.output else ())


def fetch_linked_reports(collector: str, aggregate: AssociationAggregate) -> LinkedReports:
    """The linked reports behind an aggregate, where a collector keeps them. Needs an admin's key.

    Raises RemoteError, and CountsError for lines that are no linked reports.
    """
    one = aggregate.association
    query: dict[str, str | None] = {
        "params_id": one.params_id,
        "from": aggregate.first_day.isoformat(),
        "to": aggregate.last_day.isoformat(),
    }
    path = f"/v1/associations/{one.name}/reports"
    with answer_of(collector, path, query=query) as answer:
        return read_linked(answer, one)


def _write_results(table: JointTable, path: Path) -> Path:
    """google/rappor's table: second variable, first variable, proportion (EM's, if it ran)."""
    shares = table.fitted if table.likelihood is None else table.likelihood
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((table.of[1], table.of[0], "proportion"))
        for i, row in enumerate(table.rows):
            for j, column in enumerate(table.columns):
                writer.writerow((column, row, float(shares[i, j])))
    return path
