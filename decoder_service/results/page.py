"""Stored results: the list, and a result with its pictures, tables and provenance."""

from __future__ import annotations

import shlex
from typing import Any

from starlette.responses import Response

from decoder.kinds.discover import kept_strings
from decoder.kinds.interface import DECODERS, KindDecoder
from decoder.kinds.result import RESULTS, StoredResult
from decoder.kinds.run import page_parts
from decoder.tables.paging import query_of
from decoder_service.jobs.checks import kind_decoder
from decoder_service.jobs.rules import LISTS
from decoder_service.jobs.specs import (
    Choices,
    CountSource,
    FlowChoices,
    JobSpec,
    MapChoices,
)
from decoder_service.lists.contents import file_name
from decoder_service.lists.rules import NewList
from decoder_service.people.permissions import Act
from decoder_service.results.rules import counts_name, may_take_back, shown_manifest
from decoder_service.shell.database import matching
from decoder_service.shell.errors import NotFoundError, RequestError
from decoder_service.shell.models import ListKind, ListVersionRow, ResultRow
from decoder_service.shell.operations import text_of
from decoder_service.shell.requests import Me, Service
from decoder_service.shell.web import (
    Form,
    PageNumber,
    Visit,
    check_choice,
    check_sure,
    page_router,
    parsed,
    redirect,
)

pages = page_router()


@pages.get("/results")
def index(visit: Visit, metric: str = "", kind: str = "", page: PageNumber = 1) -> Response:
    """Results that one may see, newest first."""
    which = matching(ResultRow, metric=metric, kind=check_choice("kind", kind, DECODERS))
    return visit.render(
        "results.html.j2",
        **visit.rows(visit.service.results, page, *which),
        metric=metric,
        kind=kind,
        kinds=list(DECODERS),
        usage=visit.service.usage.of(visit.person)["result_bytes"]
        if visit.person.may(Act.ANALYSE)
        else None,
    )


@pages.get("/results/{result_id}")
def one(visit: Visit, result_id: str) -> Response:
    """A result."""
    results = visit.service.results
    found = results.view(visit.person, result_id)
    row, own, kind = found.row, found.own, kind_decoder(found.row.kind)
    query = query_of(visit.request.query_params)
    stored = StoredResult(
        row.operation, frozenset(file.name for file in found.files),
        lambda name: results.file(visit.person, result_id, name), own, f"/results/{result_id}",
    )  # fmt: skip
    parts = page_parts(kind, stored, query)
    manifest = shown_manifest(row, visit.person)
    lists = {name: _list_version(visit, manifest, name) for name in LISTS}
    weights = lists["weights"]
    return visit.render(
        "result.html.j2",
        kind=kind,
        title=kind.title_of(row.operation),
        view=parts,
        row=row,
        manifest=manifest,
        files=found.files,
        later=found.later,
        own=own,
        may_take_back=may_take_back(visit.person, row),
        has_list=lists["candidates"] is not None,
        own_weights=weights,
        known_flows=lists["known"],
        areas=lists["areas"],
        late_weights=bool(  # stored when the last day of the counts was over
            weights and row.last_day and text_of(weights.created)[:10] > row.last_day
        ),
        command=command_of(manifest, row) if own else "",
        counts=counts_of(manifest) if own else [],
        query=query,
        **parts.variables,
    )


@pages.get("/results/{result_id}/map.json")
def map_data(service: Service, person: Me, result_id: str) -> Response:
    """What the script of a map draws."""
    text = service.results.file(person, result_id, "map.json")
    return Response(text, media_type="application/json")


@pages.post("/results/{result_id}/check")
def check(service: Service, person: Me, result_id: str, form: Form) -> Response:
    """Decode again and compare bytes."""
    del form
    return redirect(f"/jobs/{service.jobs.check_again(person, result_id).id}")


@pages.post("/results/{result_id}/release")
def release(service: Service, person: Me, result_id: str, form: Form) -> Response:
    """Show a result to every viewer, or take it back."""
    service.results.release(person, result_id, bool(form.text("released")))
    return redirect(f"/results/{result_id}")


@pages.post("/results/{result_id}/keep")
def keep(service: Service, person: Me, result_id: str, form: Form) -> Response:
    """Make a list of those strings of a discovery that a person has read and ticked."""
    if not service.results.view(person, result_id).own:
        raise NotFoundError(f"there is no result {result_id[:40]!a} of yours")
    content = service.results.file(person, result_id, RESULTS)
    values = kept_strings(content, form.all("id"))
    if not values:
        raise RequestError("no string is ticked: tick those that may be shown")
    text = "".join(f"{value}\n" for value in values).encode("utf-8", "surrogatepass")
    source = f"strings of result {result_id}, read by {person.name}"
    asked = parsed(NewList, {"name": form.text("name"), "source": source[:1000]})
    made = service.lists.create(person, asked, text)
    return redirect(f"/lists/{made.id}")


@pages.post("/results/{result_id}/give-up")
def give_up(service: Service, person: Me, result_id: str, form: Form) -> Response:
    """Give up a result, once that was confirmed."""
    check_sure(form, "Give up: what nobody holds is gone for good")
    service.results.give_up(person, result_id)
    return redirect("/results")


def _list_version(visit: Visit, manifest: dict[str, Any], member: str) -> ListVersionRow | None:
    """The version of a list that a result was made with, if it is there for this person."""
    given = manifest.get("spec", {}).get(member) or {}
    if not given.get("list"):
        return None
    try:
        return visit.service.lists.version(visit.person, given["list"], given["version"])
    except NotFoundError:
        return None


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
        if _compares_by_choices(spec):
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


def _compares_by_choices(spec: JobSpec) -> bool:
    """Whether a comparison chooses how maps or flows are made."""
    asked = spec.map
    if not any(source.collector for source in spec.sources):
        asked = asked.model_copy(update={"split": MapChoices().split})  # a file is a window
    given = asked, spec.flows, spec.areas, spec.known
    return given != (MapChoices(), FlowChoices(), None, None)


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
