"""Typed accessors of the declared metrics for the TypeScript client.

Written at build time by `rappor metrics compile --typescript`, beside the compiled metrics. A name
that is not declared, or a value that the metric does not take, is then an error of the compiler.
"""

from __future__ import annotations

import json

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.kinds import kind_named
from rappor_core.metrics.loading import MetricsFile
from rappor_core.metrics.metric import Metric

_HEAD = """\
// Written by `rappor metrics compile --typescript`; do not edit.

import type { Client, LocalTime } from "rappor-telemetry-client";

type Point = readonly [latitude: number, longitude: number];

/** The declared metrics over an open client; each call answers as the client's own does. */
export const metricsOf = (client: Client) => ({
"""
_FIX = "(latitude: number, longitude: number, at?: LocalTime): Promise<boolean> =>"
_KINDS = ("string", "category", "boolean", "location")  # of the TypeScript client
_TRIP = "(origin: Point, destination: Point, at?: LocalTime): Promise<boolean> =>"


def typescript_text(file: MetricsFile) -> str:
    """A TypeScript module, in ASCII, with one accessor for each declared metric.

    A string metric takes any string, a category one of its categories, a boolean true or false; a
    metric of places takes fixes (`recordLocation`) or, with `pairs`, trips (`recordTrip`).

    Raises MetricsFileError for a metric that the TypeScript client refuses, and the file with it.
    """
    for metric in file.declared:
        _check(metric)
    for one in file.associations:
        raise MetricsFileError(
            f"association {one.name!r}: the TypeScript client opens no file that declares one; "
            "leave it out of the file for its devices, which report both metrics apart"
        )
    body = "".join(map(_accessor, file.declared))
    return f"{_HEAD}{body}}});\n\nexport type Metrics = ReturnType<typeof metricsOf>;\n"


def _check(metric: Metric) -> None:
    """Raise MetricsFileError for a kind that the TypeScript client does not have."""
    if metric.kind not in _KINDS:
        raise MetricsFileError(
            f"metric {metric.base_name!r}: kind {metric.kind!r} is not in the TypeScript client, "
            "which opens no file that declares it; declare it in a file for other devices"
        )


def _accessor(metric: Metric) -> str:
    name = json.dumps(metric.base_name)
    said = " ".join(metric.description.split()).replace("*/", "* /")
    ascii_said = said.encode("ascii", "backslashreplace").decode("ascii")
    return f"  /** {ascii_said} */\n  {name}: {{\n    {_method(metric, name)},\n  }},\n"


def _method(metric: Metric, name: str) -> str:
    if metric.location is None:
        call = f"client.record({name}, value)"
        return f"record: (value: {_values(metric)}): Promise<boolean> => {call}"
    if metric.location.pairs:
        return f"recordTrip: {_TRIP}\n      client.recordTrip({name}, origin, destination, at)"
    call = f"client.recordLocation({name}, latitude, longitude, at)"
    return f"recordLocation: {_FIX}\n      {call}"


def _values(metric: Metric) -> str:
    """The type of what a metric takes: its values, where it has a list of them."""
    return " | ".join(map(json.dumps, kind_named(metric.kind).all_values(metric))) or "string"
