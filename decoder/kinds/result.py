"""The question asked of counts, the result, its manifest, and the parts of its page."""

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

RESULTS, PAGE, MANIFEST = "results.json", "report.html", "manifest.json"  # in every result
_LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba")


@dataclass(frozen=True)
class Question:
    """What to decode from counts, and how. A kind rejects options that it would ignore."""

    candidates: CandidateChoice = field(default_factory=CandidateChoice)
    options: DecodeOptions = field(default_factory=DecodeOptions)
    maps: MapOptions = field(default_factory=MapOptions)
    crowd: int = DEFAULT_CROWD  # For a discovery, the minimum number of reports for a named string
    flows: FlowOptions = field(default_factory=FlowOptions)
    by: str = ""  # The side of a pair that contains the arm of an experiment.
    progress: Progress = silent
    note: Note = quiet
    executor: Executor | None = None  # runs the maps of slots; this process if None


@dataclass(frozen=True)
class Result:
    """The result of a decoding, in memory."""

    content: dict[str, Any]  # Contents of results.json, as plain values
    summary: dict[str, Any]  # For lists of results; has `headline`, `num_reports` and `warnings`
    tables: tuple[Table, ...]  # The main table first
    _: KW_ONLY
    manifest: dict[str, Any]  # Contents of manifest.json
    notes: tuple[str, ...] = ()  # Notes for readers, in order of importance
    # Additional files, as functions that write them
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)
    # Additional JSON files, for the scripts of pages
    documents: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    printed: tuple[Table, ...] = ()  # Tables for the console; if empty, `tables`


@dataclass(frozen=True)
class StoredResult:
    """The files of a result, as its page reads them."""

    operation: str
    files: frozenset[str]
    read: Callable[[str], bytes]  # Returns the bytes of a file
    own: bool = False  # Whether the reader may see the whole list of candidates
    address: str = ""  # The result's address in a service; "" for a page that is a file
    documents: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # JSON files in memory

    def json(self, name: str = RESULTS) -> dict[str, Any]:
        """Return the content of a JSON file."""
        if name in self.documents:
            return self.documents[name]
        content: dict[str, Any] = json.loads(self.read(name))
        return content


@dataclass(frozen=True)
class PageParts:
    """The parts of a result's page."""

    template: str  # A file in `decoder/output/templates`
    variables: Mapping[str, Any]
    lead: str = ""  # A sentence below the title
    guarantee: str = ""  # The privacy guarantee for each device
    map: bool = False  # Whether the page draws a map


def manifest_of(counts: Aggregate | DecodedWindow, options: Levels, **more: Any) -> dict[str, Any]:
    """Return the contents of manifest.json, which do not depend on clock or machine.

    Args:
        counts: The decoded counts, or the decoding.
        options: The options of the decoding.
        **more: Additional entries for the kind, which override other entries.
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
    """Return the versions of Python and of the numeric libraries."""
    result = {}
    for library in _LIBRARIES:
        try:
            result[library] = version(library)
        except PackageNotFoundError:
            result[library] = "not installed: run from its source tree"
    return result | {"python": platform.python_version()}
