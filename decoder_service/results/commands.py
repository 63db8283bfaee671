"""The command line that makes a result again."""

from __future__ import annotations

import shlex
from typing import Any

from decoder_service.jobs.specs import OF_VALUES, CountSource, JobKind, JobSpec
from decoder_service.lists.contents import file_name
from decoder_service.lists.rows import ListKind
from decoder_service.results.rows import ResultRow
from decoder_service.results.rules import counts_name


def command_of(manifest: dict[str, Any], row: ResultRow) -> str:
    """Of a result; empty where the specification is not shown to this person."""
    if "spec" not in manifest:
        return ""
    spec = JobSpec.model_validate(manifest["spec"])
    shas = manifest.get("inputs", {}).get("aggregates", [])
    if spec.kind == JobKind.DENSITY:
        return _joined(["rappor", "density", row.metric, *_source(spec.source, shas, 0, False),
                           *_map(spec), "-o", "result"])  # fmt: skip
    if spec.kind == JobKind.DISCOVER:
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


def counts_of(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The aggregate files that the command names, each with the digest of its counts."""
    if "spec" not in manifest:
        return []
    spec = JobSpec.model_validate(manifest["spec"])
    groups = manifest.get("inputs", {}).get("aggregates", [])
    found: dict[str, str] = {}
    for source, shas in zip(spec.sources, groups, strict=False):
        if source.collector is None:
            found |= zip(source.files or map(counts_name, shas), shas, strict=False)
    return list(found.items())


def _source(source: CountSource, shas: list[list[str]], number: int, named: bool) -> list[str]:
    window = source.collector
    if window is None:
        known = shas[number] if number < len(shas) else []
        files = source.files or list(map(counts_name, source.aggregates or known))
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
    words += ["--alpha", _exact(options.alpha), "--level", _exact(options.level)]
    if options.largest_p != 1.0:
        words += ["--max-p", _exact(options.largest_p)]
    if options.repeats is not None:
        words += ["--repeats", _exact(options.repeats)]
    if options.without_cohorts:
        words += ["--without-cohorts", ",".join(map(str, options.without_cohorts))]
    each: dict[str, list[str]] = {
        JobKind.SERIES: ["--each", spec.each.value],
        JobKind.COMPARE: ["--each", "day"],
    }
    return words + each.get(spec.kind, [])


def _levels(spec: JobSpec) -> list[str]:
    """Of a kind with a decoder of its own."""
    options = spec.options
    words = ["--alpha", _exact(options.alpha), "--level", _exact(options.level)]
    return words + ([] if options.repeats is None else ["--repeats", _exact(options.repeats)])


def _find(spec: JobSpec) -> list[str]:
    find = spec.find
    words = [
        "--alpha",
        _exact(find.alpha),
        "--level",
        _exact(find.level),
        "--crowd",
        str(find.crowd),
    ]
    return words + ([] if find.repeats is None else ["--repeats", _exact(find.repeats)])


def _map(spec: JobSpec) -> list[str]:
    choices = spec.map
    words = ["--method", choices.method]
    if spec.source.collector:  # a file is a window of its own
        words += ["--by", choices.split.value]
    words += ["--alpha", _exact(choices.alpha), "--level", _exact(choices.level)]
    if choices.repeats is not None:
        words += ["--repeats", _exact(choices.repeats)]
    words += [word for slot in choices.slots for word in ("--slot", slot)]
    return [*words, "--every-window"]  # in the GeoJSON, as a job writes it


def _exact(number: float) -> str:
    """A text that is read as the same number."""
    return repr(number).removesuffix(".0")


def _joined(words: list[str]) -> str:
    """Quoted for a shell, but for the variable of the collector's address."""
    return shlex.join(words).replace("'$COLLECTOR'", '"$COLLECTOR"')
