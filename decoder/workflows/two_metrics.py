"""Decode jobs of two metrics by their names: the association, or the pair metric, of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal, NamedTuple

from decoder.errors import CandidatesError, CountsError, DecodeError, RemoteError
from decoder.files import is_association_file, read_association_file
from decoder.options import DecodeOptions
from decoder.progress import Progress, silent
from decoder.sources.aggregates import AggregateFiles
from decoder.sources.collector_client import ask_json, fetch_aggregate, fetch_association
from decoder.workflows.associations import LinkedJob, run_linked
from decoder.workflows.decoding import DecodeJob
from decoder.workflows.kinds import FetchedCounts, KindAnswer, run_own
from rappor_core.aggregate import Aggregate
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.errors import shown
from rappor_core.text import visible

Names = tuple[str, str]
Counts = AssociationAggregate | Aggregate
SHOWN = 8  # declared tables that a refusal names
STATES = ("current", "expired", "retired", "older")  # of versions: the first that there is, counts


@dataclass(frozen=True)
class JointJob:
    """The joint table of two metrics, rows first, from the counts of an association or a pair.

    of: their names.  lists: candidates of each, in the same order, where an association links
    metrics without a list of values.  output: the folder for files.
    """

    of: Names
    counts: Counts
    lists: tuple[Path | None, Path | None] = (None, None)
    options: DecodeOptions = field(default_factory=DecodeOptions)
    output: Path | None = None


class DeclaredVersion(NamedTuple):
    """A version of an association or of a pair metric that a collector lists."""

    kind: Literal["association", "pair metric"]
    name: str
    params_id: str
    state: str
    of: tuple[str, ...]

    def __str__(self) -> str:
        """What it is, its name, and what it is of."""
        return visible(f"{self.kind} {self.name} ({', '.join(self.of)})")


def run_joint(job: JointJob, progress: Progress = silent) -> KindAnswer:
    """Decode as `run_linked` or, of a pair, `run_own` does.

    Raises CandidatesError for a list of candidates of a pair, and what these two raise.
    """
    if isinstance(job.counts, AssociationAggregate):
        straight = job.counts.association.of == job.of
        lists = job.lists if straight else job.lists[::-1]
        return run_linked(LinkedJob(job.counts, None, lists, job.options, job.output, job.of))
    if any(job.lists):
        raise CandidatesError("a pair metric declares its values, so leave candidates out")
    own = DecodeJob(FetchedCounts((job.counts,)), options=job.options, output=job.output, of=job.of)
    answer = run_own(own, progress=progress)
    if isinstance(answer, KindAnswer):
        return answer
    raise DecodeError(f"metric {job.counts.metric!a} is no pair")


def fetch_joint(
    collector: str, of: Names, first: date | None = None, last: date | None = None
) -> Counts:
    """The counts of what links two metrics at a collector.

    Raises DecodeError where nothing does, or more than one; RemoteError.
    """
    found = choose_joint(of, declared_tables(collector))
    fetch = fetch_association if found.kind == "association" else fetch_aggregate
    return fetch(collector, found.name, params_id=found.params_id, first=first, last=last)


def read_joint(paths: Sequence[Path], of: Names) -> Counts:
    """Read the counts of two metrics: from an association's aggregate file, or summed from those
    of a pair metric.

    Raises CountsError, also for files of other metrics, and AggregateError.
    """
    linked = [path for path in paths if is_association_file(path)]
    if linked and len(paths) > 1:
        raise CountsError(f"{linked[0]}: counts of an association are not added: give one file")
    counts: Counts = (
        read_association_file(linked[0]) if linked else AggregateFiles(tuple(paths)).read()
    )
    if isinstance(counts, AssociationAggregate):
        held: tuple[str, ...] = counts.association.of
    else:
        held = _sides(counts.definition) or (counts.metric,)
    if set(held) != set(of):
        raise CountsError(
            f"{paths[0]} is of {' and '.join(map(repr, held))}, not of {_both(of)}: give the "
            "aggregate file of their association, or of a pair metric of both"
        )
    return counts


def declared_tables(collector: str) -> list[DeclaredVersion]:
    """List every version of each association and pair metric of a collector. Raises RemoteError."""
    linked = ask_json(collector, "/v1/associations", "associations")["associations"]
    metrics = ask_json(collector, "/v1/metrics", "metrics")["metrics"]
    try:
        return [*_declared("association", linked), *_declared("pair metric", metrics)]
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        said = f"its list of metrics has no {error}"
        raise RemoteError(f"what answers at {collector} is not a collector: {said}") from error


def choose_joint(of: Names, declared: Iterable[DeclaredVersion]) -> DeclaredVersion:
    """Choose the association or pair metric of two metrics, in its newest version. Raises
    DecodeError for none, or several."""
    declared = list(declared)
    found = [one for one in declared if set(one.of) == set(of)]
    best = min((STATES.index(one.state) for one in found), default=None)
    if best is None:
        raise DecodeError(_nothing(of, declared))
    newest = {(one.kind, one.name): one for one in found if STATES.index(one.state) == best}
    if len(newest) > 1:
        raise DecodeError(
            f"{_both(of)} have {_listed(newest.values())}: choose one with rappor association NAME "
            "or rappor decode --metric NAME"
        )
    (chosen,) = newest.values()
    return chosen


def _nothing(of: Names, declared: Iterable[DeclaredVersion]) -> str:
    names = dict.fromkeys(map(str, declared))
    return (
        f"no association and no pair metric of {_both(of)} is declared; declared: "
        f"{_listed(names) or 'none'}; declare [associations.NAME] of the two, or a pair metric, "
        "and push it"
    )


def _declared(
    kind: Literal["association", "pair metric"], rows: Iterable[dict[str, Any]]
) -> Iterator[DeclaredVersion]:
    for row in rows:
        definition = row["definition"]
        of = tuple(definition["of"]) if kind == "association" else _sides(definition)
        if of:
            if row["state"] not in STATES:
                raise ValueError(f"state such as {STATES[0]!r}")
            yield DeclaredVersion(kind, row["name"], row["params_id"], row["state"], of)


def _sides(definition: Any) -> tuple[str, ...]:
    """Names of the sides of a pair metric; none of another metric."""
    return tuple((definition.get("details") or {}).get("of", ()))


def _both(of: Names) -> str:
    return f"{shown(of[0])} and {shown(of[1])}"


def _listed(every: Iterable[object]) -> str:
    said = list(map(str, every))
    more = [f"{len(said) - SHOWN:,} more"] if len(said) > SHOWN else []
    return ", ".join(said[:SHOWN] + more)
