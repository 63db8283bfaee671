"""Jobs of kind `discover`: frequent strings of a discover metric, without a list."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from decoder.discovery.discovery import FoundString
from decoder.errors import DecodeError
from decoder.files import row_of
from decoder.output.discovery_files import string_id
from decoder.output.discovery_text import statement
from decoder.output.discovery_view import discovery_view
from decoder.progress import Progress
from decoder.workflows.discovery import DiscoverJob, run_discovery
from decoder.workflows.kinds import FetchedCounts
from decoder_service.job_kinds.of_values import level_words
from decoder_service.jobs.kinds import JobInputs, JobKind, StoredResult

if TYPE_CHECKING:
    from decoder.output.tables import TableQuery
    from decoder_service.jobs.specs import JobSpec


class DiscoveryJob(JobKind):
    """Strings without a list."""

    name = "discover"
    title = "Strings without a list"
    purpose = "frequent strings of a discover metric, without a list"
    template = "result_discover.html.j2"
    members = frozenset({"find"})
    tables = ("discovered.json", "discovered.csv")
    metric_kind = "discover"
    metric_is_argument = True
    unshared = (
        "these strings are text that devices chose: read them, keep those that may be shown as a "
        "list, and decode that"
    )

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Find strings. The summary says how many, but none of them: devices chose this text."""
        if inputs.declared_kind != self.metric_kind:
            raise DecodeError(f"metric {inputs.metric!a} is not of kind {self.metric_kind!r}")
        source = FetchedCounts(inputs.groups[0])
        job = DiscoverJob(source, inputs.spec.find.options(), inputs.folder)
        found = run_discovery(job, progress)
        return {
            "num_reports": found.num_reports,
            "num_found": len(found.found),
            "num_tested": found.num_tested,
            "num_below_crowd": found.num_below_crowd,
            "half_found": found.half_found,
            "statement": list(statement(found)),
            "warnings": [],
        }

    def in_list(self, summary: Mapping[str, Any]) -> str:
        """The result in a list of results: how many strings were found."""
        return f"{summary['num_found']:,} strings found"

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """A page of the strings."""
        return discovery_view(json.loads(result.read("discovered.json")), query)

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """`rappor discover` with the options of the job."""
        find, named = spec.find, [metric] if spec.source.collector else []
        words = level_words(find.alpha, find.level, find.repeats, ("--crowd", str(find.crowd)))
        return ["rappor", "discover", *named, *sources[0], *words]


def approved(content: bytes, ids: Sequence[str]) -> list[str]:
    """The strings of some ids that fit a list: whole, and on one line. content: discovered.json."""
    wanted = set(ids)
    rows = [row_of(FoundString, one) for one in json.loads(content)["found"]]
    return [
        row.string
        for row in rows
        if string_id(row) in wanted and row.whole and row.string.splitlines() == [row.string]
    ]


KIND = DiscoveryJob()
