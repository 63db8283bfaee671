"""The command line that makes a result again."""

from __future__ import annotations

import shlex
from typing import Any

from decoder.service.operations.list_contents import file_name
from decoder.service.specs import OF_VALUES, JobSpec, Kind, Source
from decoder.service.store.lists import ListKind
from decoder.service.store.results import ResultRow


def command_of(manifest: dict[str, Any], row: ResultRow) -> str:
    """Of a result; empty where the specification is not shown to this person."""
    if "spec" not in manifest:
        return ""
    spec = JobSpec.model_validate(manifest["spec"])
    shas = manifest.get("inputs", {}).get("aggregates", [])
    if spec.kind == Kind.DENSITY:
        return _joined(["rappor", "density", row.metric, *_source(spec.source, shas, 0, False),
                           *_map(spec), "-o", "result"])  # fmt: skip
    if spec.kind == Kind.DISCOVER:
        named = [row.metric] if spec.source.collector else []
        return _joined(["rappor", "discover", *named, *_source(spec.source, shas, 0, False),
                           *_find(spec), "-o", "result"])  # fmt: skip
    words = ["rappor", "decode"]
    if spec.before is not None:
        words += _source(spec.before, shas, 0, True)
    words += _source(spec.source, shas, len(spec.sources) - 1, True)
    of_values = [*_candidates(spec), *_weights(spec), *_options(spec)]
    own = of_values if spec.kind in OF_VALUES else _levels(spec)
    return _joined([*words, *own, "-o", "result"])


def _source(source: Source, shas: list[list[str]], number: int, named: bool) -> list[str]:
    window = source.collector
    if window is None:
        known = shas[number] if number < len(shas) else []
        files = source.files or [f"{sha[:16]}.json" for sha in (source.aggregates or known)]
        return [word for name in files for word in ("--aggregate", name)]
    words = ["--collector", "$COLLECTOR", *(["--metric", window.metric] if named else [])]
    for option, day in (("--from", window.first), ("--to", window.last)):
        words += [option, day.isoformat()] if day else []
    return words


def _candidates(spec: JobSpec) -> list[str]:
    given = spec.candidates
    if given.list:
        named = file_name(ListKind.CANDIDATES, given.list, given.version)
        return ["--candidates", named]
    if given.numbers:
        return ["--numbers", ":".join(map(str, given.numbers))]
    if given.dates:
        return ["--dates", ":".join(map(str, given.dates))]
    return []


def _weights(spec: JobSpec) -> list[str]:
    given = spec.weights
    if given is None:
        return []
    return ["--weights", file_name(ListKind.WEIGHTS, given.list, given.version)]


def _options(spec: JobSpec) -> list[str]:
    options = spec.options
    words = ["--method", options.method, "--correction", options.correction]
    words += ["--alpha", f"{options.alpha:g}", "--level", f"{options.level:g}"]
    if options.largest_p != 1.0:
        words += ["--max-p", f"{options.largest_p:g}"]
    if options.repeats is not None:
        words += ["--repeats", f"{options.repeats:g}"]
    if options.without_cohorts:
        words += ["--without-cohorts", ",".join(map(str, options.without_cohorts))]
    each = {Kind.SERIES: ["--each", spec.each.value], Kind.COMPARE: ["--each", "day"]}
    return words + each.get(spec.kind, [])


def _levels(spec: JobSpec) -> list[str]:
    """Of a number or a pair."""
    options = spec.options
    words = ["--alpha", f"{options.alpha:g}", "--level", f"{options.level:g}"]
    return words + ([] if options.repeats is None else ["--repeats", f"{options.repeats:g}"])


def _find(spec: JobSpec) -> list[str]:
    find = spec.find
    words = ["--alpha", f"{find.alpha:g}", "--level", f"{find.level:g}", "--crowd", str(find.crowd)]
    return words + ([] if find.repeats is None else ["--repeats", f"{find.repeats:g}"])


def _map(spec: JobSpec) -> list[str]:
    choices = spec.map
    words = ["--method", choices.method, "--by", choices.split.value]
    words += ["--alpha", f"{choices.alpha:g}", "--level", f"{choices.level:g}"]
    if choices.repeats is not None:
        words += ["--repeats", f"{choices.repeats:g}"]
    return words + [word for slot in choices.slots for word in ("--slot", slot)]


def _joined(words: list[str]) -> str:
    """Quoted for a shell, but for the variable of the collector's address."""
    return shlex.join(words).replace("'$COLLECTOR'", '"$COLLECTOR"')
