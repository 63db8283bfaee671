"""Decode jobs of pair metrics: the joint table, in files and in print."""

from __future__ import annotations

from decoder.association.pairs import decode_pairs
from decoder.errors import CandidatesError, DecodeError
from decoder.output.joint_files import write_joint
from decoder.progress import Progress
from decoder.workflows.decoding import CandidateChoice, DecodeJob
from decoder.workflows.joint import joint_answer
from decoder.workflows.kinds import KindAnswer
from rappor_core.aggregate import Aggregate


def run(
    job: DecodeJob, source: Aggregate | tuple[Aggregate, ...], progress: Progress
) -> KindAnswer:
    """Decode a window; write the files if the job names a folder.

    Raises DecodeError for a series of windows and what `decode_pairs` refuses; CandidatesError for
    candidates, which a pair has none of; OutputError for the folder.
    """
    if job.candidates != CandidateChoice(cache=job.candidates.cache):
        raise CandidatesError("a pair metric declares its values, so leave candidates out")
    if isinstance(source, tuple):
        raise DecodeError("a pair metric is decoded over one window: leave --each out")
    table = decode_pairs(source, job.options)
    table = table.ordered(job.of or table.of)
    progress("pairs", 1, 1)
    files = write_joint(table, job.output) if job.output else ()
    return joint_answer(table, files)
