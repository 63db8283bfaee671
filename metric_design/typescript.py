"""Typed accessors of the declared metrics for the TypeScript client.

Written at build time by `rappor metrics compile --typescript`, beside the compiled metrics. A name
that is not declared, or a value that the metric does not take, is then an error of the compiler.
The module also has `parts`: what the client loads for these metrics, and no other app does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.kinds import kind_named
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

_PACKAGE = "rappor-telemetry-client"
_HEAD = """\
// Written by `rappor metrics compile --typescript`; do not edit.

"""
_TYPES = """\
type Point = readonly [latitude: number, longitude: number];

/** The declared metrics over an open client; each call answers as the client's own does. */
export const metricsOf = (client: Client) => ({
"""
_PARTS = "/** What these metrics need: `openClient({ ...parts(), metrics, ... })`. */\n"
_FIX = "(latitude: number, longitude: number, at?: LocalTime): Promise<boolean> =>"
_KINDS = ("string", "category", "boolean", "location")  # of the core of the TypeScript client
_KIND_PARTS = {"number": "numbers", "pair": "pairs", "discover": "discover"}
_TRIP = "(origin: Point, destination: Point, at?: LocalTime): Promise<boolean> =>"


def typescript_text(file: MetricsFile) -> str:
    """A TypeScript module, in ASCII, with one accessor for each declared metric, and `parts`.

    A string metric takes any string, a category one of its categories, a boolean true or false, a
    pair one value of each of its lists, a metric of numbers a number (and `add` of a sum); a metric
    of places takes fixes (`recordLocation`) or, with `pairs`, trips (`recordTrip`).

    Raises MetricsFileError for a metric of a kind that the TypeScript client does not have.
    """
    for metric in file.declared:
        _check(metric)
    imports = f'import type {{ Client, LocalTime }} from "{_PACKAGE}";\n' + "".join(_imports(file))
    body = "".join(map(_accessor, file.declared))
    types = "export type Metrics = ReturnType<typeof metricsOf>;\n"
    return f"{_HEAD}{imports}\n{_TYPES}{body}}});\n\n{types}\n{_PARTS}{_parts(file)}"


def _check(metric: Metric) -> None:
    """Raise MetricsFileError for a kind that the TypeScript client does not have."""
    if metric.kind not in (*_KINDS, *_KIND_PARTS):
        raise MetricsFileError(
            f"metric {metric.base_name!r}: kind {metric.kind!r} is not in the TypeScript client, "
            "which opens no file that declares it; declare it in a file for other devices"
        )


def _imports(file: MetricsFile) -> Iterator[str]:
    """An import of each part that the metrics need."""
    for name in [*_kind_parts(file), *(["domains"] if _has_packaged_code(file) else [])]:
        yield f'import {{ {name} }} from "{_PACKAGE}/{name}";\n'
    if file.associations:
        yield f'import {{ associations }} from "{_PACKAGE}/associations";\n'
    if grids := _grids(file):
        yield f'import {{ places }} from "{_PACKAGE}/places";\n'
        if "h3" in grids:
            yield 'import * as h3 from "h3-js";\n'


def _parts(file: MetricsFile) -> str:
    """The function `parts`: options of the client by name."""
    given = {"discover": "{ domains }" if _has_packaged_code(file) else ""}
    rows = []
    if kinds := _kind_parts(file):
        calls = ", ".join(f"{name}({given.get(name, '')})" for name in kinds)
        rows.append(f"  kinds: [{calls}],\n")
    if file.associations:
        rows.append("  associations: associations(),\n")
    if grids := _grids(file):
        rows.append(f"  places: places({'{ h3 }' if 'h3' in grids else ''}),\n")
    return f"export const parts = () => ({{\n{''.join(rows)}}});\n" if rows else (
        "export const parts = () => ({});\n"
    )  # fmt: skip


def _kind_parts(file: MetricsFile) -> list[str]:
    kinds = {metric.kind for metric in file.declared}
    return [part for kind, part in _KIND_PARTS.items() if kind in kinds]


def _has_packaged_code(file: MetricsFile) -> bool:
    """Whether a metric needs the code table that comes with the package."""
    return any(getattr(metric.details, "packaged", False) for metric in file.declared)


def _grids(file: MetricsFile) -> set[str]:
    return {metric.location.grid.kind for metric in file.declared if metric.location is not None}


def _accessor(metric: Metric) -> str:
    name = json.dumps(metric.base_name)
    said = " ".join(metric.description.split()).replace("*/", "* /")
    ascii_said = said.encode("ascii", "backslashreplace").decode("ascii")
    methods = "".join(f"    {method},\n" for method in _methods(metric, name))
    return f"  /** {ascii_said} */\n  {name}: {{\n{methods}  }},\n"


def _methods(metric: Metric, name: str) -> Iterator[str]:
    if metric.location is None:
        call = f"client.record({name}, value)"
        values = _VALUES.get(metric.kind, _listed)(metric)
        yield f"record: (value: {values}): Promise<boolean> => {call}"
        if metric.rules.collected and metric.details.of_period == "sum":
            yield f"add: (amount?: number): Promise<boolean> => client.add({name}, amount)"
    elif metric.location.pairs:
        yield f"recordTrip: {_TRIP}\n      client.recordTrip({name}, origin, destination, at)"
    else:
        call = f"client.recordLocation({name}, latitude, longitude, at)"
        yield f"recordLocation: {_FIX}\n      {call}"


def _listed(metric: Metric) -> str:
    """The type of what a metric takes: its values, where it has a list of them."""
    return " | ".join(map(json.dumps, kind_named(metric.kind).all_values(metric))) or "string"


def _pair(metric: Metric) -> str:
    first, second = (" | ".join(map(json.dumps, side)) for side in metric.details.values)
    return f"readonly [{first}, {second}]"


def _number(metric: Metric) -> str:  # noqa: ARG001
    return "number"


_VALUES = {"pair": _pair, "number": _number}
