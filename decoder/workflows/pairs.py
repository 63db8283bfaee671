"""Decode jobs of pair metrics: the joint table, in files and in print."""

from __future__ import annotations

from typing import Any

from decoder.errors import CandidatesError
from decoder.output.joint_files import write_joint
from decoder.output.joint_view import joint_view
from decoder.output.tables import TableQuery
from decoder.pairs.decoding import decode_pairs
from decoder.progress import Progress
from decoder.workflows.decoding import CandidateChoice, DecodeJob
from decoder.workflows.joint import joint_answer
from decoder.workflows.kinds import DecoderKind, KindAnswer
from rappor_core.aggregate import Aggregate

MOST_SUMMED = 20  # cells in a summary


class Pairs(DecoderKind):
    """A metric of two values at once."""

    name = "pair"
    title = "Two values together"
    purpose = "two values of a pair metric together, and a test of independence"
    table = "joint.csv"
    template = "result_pair.html.j2"

    def run(self, job: DecodeJob, counts: Aggregate, progress: Progress) -> KindAnswer:
        """Decode a window; write the files if the job names a folder.

        Raises CandidatesError for candidates, which a pair has none of, and what `decode_pairs`
        refuses; OutputError for the folder.
        """
        if job.candidates != CandidateChoice():
            raise CandidatesError("a pair metric declares its values, so leave candidates out")
        table = decode_pairs(counts, job.options)
        progress("pairs", 1, 1)
        files = write_joint(table, job.output) if job.output else ()
        return joint_answer(table, files)

    def summary(self, content: dict[str, Any]) -> dict[str, Any]:
        """The test of independence, and the largest cells."""
        cells = sorted(content["cells"], key=lambda cell: -cell["fitted"])
        names = ("first", "second", "estimate", "low", "high")
        return {
            "num_reports": content["reports"],
            "of": content["of"],
            "num_cells": len(cells),
            "independence": content["independence"],
            "top": [{name: cell[name] for name in names} for cell in cells[:MOST_SUMMED]],
            "warnings": content["warnings"],
        }

    def in_list(self, summary: dict[str, Any]) -> str:
        """Number of cells, and the outcome of the test of independence."""
        said = "rejected" if summary["independence"]["refuted"] else "not rejected"
        return f"{summary['num_cells']:,} cells; independence {said}"

    def view(self, content: dict[str, Any], query: TableQuery) -> dict[str, Any]:
        """The variables of the page: a heat map, the table of cells, and the margins."""
        return joint_view(content, query)


KIND = Pairs()
