"""The command line that makes a result again."""

from __future__ import annotations

import shlex
from typing import Any

from decoder.kinds.interface import KindDecoder
from decoder_service.jobs.checks import kind_decoder
from decoder_service.jobs.specs import Choices, CountSource, FlowChoices, JobSpec, MapChoices
from decoder_service.lists.contents import file_name
from decoder_service.results.rules import counts_name
from decoder_service.shell.models import ListKind, ResultRow


def command_of(manifest: dict[str, Any], row: ResultRow) -> str:
    """The command line that makes a result again.

    Empty where this person sees no specification, and for comparisons by choices that
    `rappor compare` does not have.
    """
    if "spec" not in manifest:
        return ""
    spec, kind = JobSpec.model_validate(manifest["spec"]), kind_decoder(row.kind)
    shas = manifest.get("inputs", {}).get("aggregates", [])
    groups = [shas[number] if number < len(shas) else [] for number in range(len(spec.sources))]
    if spec.operation == "compare":
        asked = spec.map
        if not any(source.collector for source in spec.sources):  # a file is a window
            asked = asked.model_copy(update={"split": MapChoices().split})
        chosen = asked, spec.flows, spec.areas, spec.known
        if chosen != (MapChoices(), FlowChoices(), None, None):
            return ""
        words = ["rappor", "compare", row.metric]
        for option, source, names in zip(
            ("--before", "--after"), spec.sources, groups, strict=True
        ):
            window = source.collector
            days = [f"{window.first}:{window.last}"] if window else _files(source, names)
            words += [word for one in days for word in (option, one)]
        if any(source.collector for source in spec.sources):
            words += ["--collector", "$COLLECTOR"]
    else:
        is_argument = kind.command != "decode"  # of discover only where a collector is asked
        words = ["rappor", kind.command]
        if is_argument and ("crowd" not in kind.members or spec.source.collector):
            words.append(row.metric)
        words += _source(spec.source, groups[0], named=not is_argument)
    words += [*_options(spec, kind), "-o", "result"]
    # The variable of the collector's address is left to the shell.
    return shlex.join(words).replace("'$COLLECTOR'", '"$COLLECTOR"')


def _options(spec: JobSpec, kind: KindDecoder) -> list[str]:
    """The options of the command that differ from what it does without them."""
    options, given, words = spec.options, spec.candidates, list[str]()
    plain = kind.command == "decode" or spec.operation == "compare"
    if given.list:
        words += ["--candidates", file_name(ListKind.CANDIDATES, given.list, given.version)]
    elif given.numbers or given.dates:
        words += ["--candidates", ":".join(map(str, given.numbers or given.dates or ()))]
    if "candidates" in kind.members:
        words += ["--method", options.method, "--correction", options.correction]
    words += ["--alpha", exact(options.alpha)]
    settings = {"level": exact(options.level)}
    if options.repeats is not None:
        settings["repeats"] = exact(options.repeats)
    if not plain:
        words += [word for name, value in settings.items() for word in (f"--{name}", value)]
        settings = {}
    elif options.largest_p != Choices().largest_p:
        settings["largest_p"] = exact(options.largest_p)
    if options.without_cohorts:
        settings["without_cohorts"] = ",".join(map(str, options.without_cohorts))
    if spec.weights is not None:
        settings["weights"] = file_name(ListKind.WEIGHTS, spec.weights.list, spec.weights.version)
    words += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    if spec.operation == "series":
        words += ["--each", spec.each.value]
    if "map" in kind.members and spec.operation == "decode":
        words += ["--method", spec.map.method, "--every-window"]
        if spec.source.collector:  # a file is a window of its own
            words += ["--by", spec.map.split.value]
        words += [word for slot in spec.map.slots for word in ("--slot", slot)]
        if spec.areas is not None:
            words += ["--areas", file_name(ListKind.AREAS, spec.areas.list, spec.areas.version)]
    if "crowd" in kind.members:
        words += ["--crowd", str(spec.crowd)]
    if spec.known is not None:
        words += ["--prior", file_name(ListKind.FLOWS, spec.known.list, spec.known.version)]
    if spec.flows != FlowChoices():
        words += ["--min-km", exact(spec.flows.min_km), "--top", str(spec.flows.top)]
    return words


def exact(number: float) -> str:
    """A text that is read as the same number."""
    return repr(number).removesuffix(".0")


def _files(source: CountSource, shas: list[str]) -> list[str]:
    """The files of the counts of a source. shas: digests of its counts."""
    return list(source.files or map(counts_name, source.aggregates or shas))


def _source(source: CountSource, shas: list[str], *, named: bool) -> list[str]:
    """The options that name the counts of a source. named: with the metric of a collector."""
    window = source.collector
    if window is None:
        return [word for name in _files(source, shas) for word in ("--aggregate", name)]
    words = ["--collector", "$COLLECTOR", *(["--metric", window.metric] if named else [])]
    for option, day in (("--from", window.first), ("--to", window.last)):
        words += [option, day.isoformat()] if day else []
    return words


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
