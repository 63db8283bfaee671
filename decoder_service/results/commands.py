"""The command line that makes a result again."""

from __future__ import annotations

import shlex
from typing import Any

from decoder_service.jobs.specs import CountSource, stored_spec
from decoder_service.results.rows import ResultRow
from decoder_service.results.rules import counts_name


def command_of(manifest: dict[str, Any], row: ResultRow) -> str:
    """Of a result; empty where the specification is not shown to this person."""
    if "spec" not in manifest:
        return ""
    spec = stored_spec(manifest["spec"])
    shas = manifest.get("inputs", {}).get("aggregates", [])
    named = not spec.job_kind.metric_is_argument
    sources = [_source(source, shas[number] if number < len(shas) else [], named)
               for number, source in enumerate(spec.sources)]  # fmt: skip
    words = [*spec.job_kind.command(spec, row.metric, sources), "-o", "result"]
    # The variable of the collector's address is left to the shell.
    return shlex.join(words).replace("'$COLLECTOR'", '"$COLLECTOR"')


def counts_of(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The aggregate files that the command names, each with the digest of its counts."""
    if "spec" not in manifest:
        return []
    spec = stored_spec(manifest["spec"])
    groups = manifest.get("inputs", {}).get("aggregates", [])
    found: dict[str, str] = {}
    for source, shas in zip(spec.sources, groups, strict=False):
        if source.collector is None:
            found |= zip(source.files or map(counts_name, shas), shas, strict=False)
    return list(found.items())


def _source(source: CountSource, shas: list[str], named: bool) -> list[str]:
    """The options that name the counts of a source. named: with the metric of a collector."""
    window = source.collector
    if window is None:
        files = source.files or list(map(counts_name, source.aggregates or shas))
        return [word for name in files for word in ("--aggregate", name)]
    words = ["--collector", "$COLLECTOR", *(["--metric", window.metric] if named else [])]
    for option, day in (("--from", window.first), ("--to", window.last)):
        words += [option, day.isoformat()] if day else []
    return words
