"""What is asked of counts, what was found in them, its manifest, and what a page shows of it."""

import json
import platform
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from decoder.decoded_window import DecodedWindow
from decoder.options import (
    DEFAULT_CROWD,
    CandidateChoice,
    DecodeOptions,
    FlowOptions,
    Levels,
    MapOptions,
)
from decoder.progress import Note, Progress, quiet, silent
from decoder.tables.table import Table
from rappor_core.aggregate import Aggregate

RESULTS, PAGE, MANIFEST = "results.json", "report.html", "manifest.json"  # of every result
_LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class Question:
    """What is asked of counts. A kind rejects choices that it would have to ignore."""

    candidates: CandidateChoice = field(default_factory=CandidateChoice)
    options: DecodeOptions = field(default_factory=DecodeOptions)
    maps: MapOptions = field(default_factory=MapOptions)
    crowd: int = DEFAULT_CROWD  # The minimum reports of a string that is listed.
    flows: FlowOptions = field(default_factory=FlowOptions)
    by: str = ""  # The side of a pair that holds the arm of an experiment.
    progress: Progress = silent
    note: Note = quiet
    executor: Executor | None = None  # runs the maps of slots; this process if None


@dataclass(frozen=True)
class Result:
    """What was found, in memory.

    content: of results.json, plain values.  summary: for lists of results, with `headline`,
    `num_reports` and `warnings`.  tables: the main one first.  manifest: of manifest.json.  notes:
    what a reader should know, in order of importance.  files: further ones, as functions that write
    one.  documents: further JSON files, for scripts of pages.  printed: tables for the console,
    those of the files if empty.
    """

    content: dict[str, Any]
    summary: dict[str, Any]
    tables: tuple[Table, ...]
    _: KW_ONLY
    manifest: dict[str, Any]
    notes: tuple[str, ...] = ()
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)
    documents: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    printed: tuple[Table, ...] = ()


@dataclass(frozen=True)
class StoredResult:
    """The files of a result, as a page reads them.

    read: the bytes of one.  own: whether the reader may see the whole list of candidates.  address:
    of the result in a service, "" of a page that is a file.  documents: JSON files in memory.
    """

    operation: str
    files: frozenset[str]
    read: Callable[[str], bytes]
    own: bool = False
    address: str = ""
    documents: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def json(self, name: str = RESULTS) -> dict[str, Any]:
        """Return the content of a JSON file."""
        if name in self.documents:
            return self.documents[name]
        content: dict[str, Any] = json.loads(self.read(name))
        return content


@dataclass(frozen=True)
class PageParts:
    """What the page of a result shows. template: of `decoder/output/templates`.  lead: a sentence
    below the title.  guarantee: what each device was promised.  map: whether it draws one."""

    template: str
    variables: Mapping[str, Any]
    lead: str = ""
    guarantee: str = ""
    map: bool = False


def manifest_of(counts: Aggregate | DecodedWindow, options: Levels, **more: Any) -> dict[str, Any]:
    """Describe counts and options: the contents of manifest.json, without clock or machine.

    Args:
        counts: that were decoded, or what was made of them.
        options: of the decoding.
        **more: what the kind adds, or says otherwise.
    """
    params = counts.params
    cohorts = options.without_cohorts if isinstance(options, DecodeOptions) else ()
    return {
        "metric": counts.metric,
        "params_id": counts.params_id,
        "params": params.to_dict(),
        "definition": dict(counts.definition),
        "epsilon_infinity": params.epsilon_infinity,
        "epsilon_one": params.epsilon_one,
        "first_day": counts.first_day and counts.first_day.isoformat(),
        "last_day": counts.last_day and counts.last_day.isoformat(),
        "num_reports": counts.num_reports,
        "alpha": options.alpha,
        "level": options.level,
        "without_cohorts": list(cohorts),
        **more,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute."""
    result = {}
    for library in _LIBRARIES:
        try:
            result[library] = version(library)
        except PackageNotFoundError:
            result[library] = "not installed: run from its source tree"
    return result | {"python": platform.python_version()}
