"""Typed accessors of the declared metrics, for the Python and the TypeScript client.

Written at build time by `rappor metrics compile --python` and `--typescript`. A name that is not
declared, or a value that the metric does not take, is then an error of the type checker and of the
editor. The TypeScript module also has `parts`: what the client loads for these metrics alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from keyword import iskeyword

from metric_design.kinds import KindDesign, kind_design, kind_designs
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

_PYTHON_HEAD = '''\
"""Typed metrics. Written by `rappor metrics compile --python`; do not edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Literal

    from client_sdk import Client

    Point = tuple[float, float]
    At = datetime | None


class _Metric:
    def __init__(self, client: Client) -> None:
        self._client = client
'''
_PYTHON_ALL = '''

class Metrics:
    """The declared metrics over an open client; each call answers as the client's own does."""

    def __init__(self, client: Client) -> None:
        """client: as `Client.open` gives it."""
'''
_NOT_IN_NAMES = re.compile("[^a-z0-9]+")


def python_text(file: MetricsFile) -> str:
    """A Python module, in ASCII, with the class `Metrics`: an attribute for each declared metric.

    What `record` takes is what the kind of the metric says (`KindDesign.python_type`): any string,
    one of its categories, true or false, a number (and `add` of a sum); a metric of places takes
    fixes (`record_location`) or, with `pairs`, trips (`record_trip`). A character of a name that
    Python has not in names becomes `_`.

    Raises MetricsFileError for two metrics whose names are then the same.
    """
    attributes: dict[str, Metric] = {}
    for metric in file.declared:
        attribute = _attribute(metric)
        if (other := attributes.setdefault(attribute, metric)) is not metric:
            raise MetricsFileError(
                f"metrics {other.base_name!r} and {metric.base_name!r}: both are {attribute!r} in "
                "Python; rename one"
            )
    classes = "".join(map(_python_class, attributes, attributes.values()))
    fields = "".join(f"        self.{name} = {_class_name(name)}(client)\n" for name in attributes)
    return f"{_PYTHON_HEAD}{classes}{_PYTHON_ALL}{fields}"


def _attribute(metric: Metric) -> str:
    """The name of a metric as an attribute, which is no keyword."""
    name = _NOT_IN_NAMES.sub("_", metric.base_name).strip("_")
    return f"{name}_" if iskeyword(name) else name


def _class_name(attribute: str) -> str:
    return "_" + "_".join(part.capitalize() for part in attribute.split("_"))


def _python_class(attribute: str, metric: Metric) -> str:
    said = ascii(" ".join(metric.description.split()))
    methods = "".join(_python_methods(metric))
    return f"\n\nclass {_class_name(attribute)}(_Metric):\n    {said}\n{methods}"


def _python_methods(metric: Metric) -> Iterator[str]:
    name = f'"{metric.base_name}"'
    if metric.location is None:
        kind = kind_design(metric.kind)
        yield _python_method("record", f"value: {kind.python_type(metric)}", f"{name}, value")
        if kind.adds(metric):
            yield _python_method("add", "amount: float = 1", f"{name}, amount")
    elif metric.location.pairs:
        taken = "origin: Point, destination: Point, at: At = None"
        yield _python_method("record_trip", taken, f"{name}, origin, destination, at")
    else:
        taken = "latitude: float, longitude: float, at: At = None"
        yield _python_method("record_location", taken, f"{name}, latitude, longitude, at")


def _python_method(method: str, taken: str, given: str) -> str:
    call = f"return self._client.{method}({given})"
    return f"\n    def {method}(self, {taken}) -> bool:\n        {call}\n"


_PACKAGE = "rappor-telemetry-client"
_H3 = "h3"  # as in `grid = "h3"`: the library h3-js, which a part is given under this name
_TYPESCRIPT_HEAD = """\
// Written by `rappor metrics compile --typescript`; do not edit.

"""
_POINT = "type Point = readonly [latitude: number, longitude: number];\n\n"
_TYPESCRIPT_TYPES = """\
/** The declared metrics over an open client; each call answers as the client's own does. */
export const metricsOf = (client: Client) => ({
"""
_PARTS = "/** What these metrics need: `openClient({ ...parts(), metrics, ... })`. */\n"
_FIX = "(latitude: number, longitude: number, at?: LocalTime): Promise<boolean> =>"
_TRIP = "(origin: Point, destination: Point, at?: LocalTime): Promise<boolean> =>"


def typescript_text(file: MetricsFile) -> str:
    """A TypeScript module, in ASCII, with one accessor for each declared metric, and `parts`.

    A string metric takes any string, a category one of its categories, a boolean true or false, a
    pair one value of each of its lists, a metric of numbers a number (and `add` of a sum); a metric
    of places or flows takes fixes (`recordLocation`) or, with `pairs`, trips (`recordTrip`).
    """
    methods = [tuple(_typescript_methods(metric)) for metric in file.declared]
    used = "".join(chain(*methods))  # an app's compiler refuses what is not (noUnusedLocals)
    names = "Client, LocalTime" if "LocalTime" in used else "Client"
    imports = f'import type {{ {names} }} from "{_PACKAGE}";\n' + "".join(_imports(file))
    point = _POINT if "Point" in used else ""
    body = "".join(map(_accessor, file.declared, methods))
    types = "export type Metrics = ReturnType<typeof metricsOf>;\n"
    head = f"{_TYPESCRIPT_HEAD}{imports}\n{point}{_TYPESCRIPT_TYPES}"
    return f"{head}{body}}});\n\n{types}\n{_PARTS}{_parts(file)}"


def _imports(file: MetricsFile) -> Iterator[str]:
    """An import of each part that the metrics need."""
    parts, grids = _kind_parts(file), _grids(file)
    names = dict.fromkeys(chain([kind.part for kind in parts], *parts.values()))
    for name in names:
        if name == _H3:  # a library of its own
            continue
        yield f'import {{ {name} }} from "{_PACKAGE}/{name}";\n'
    if grids:
        yield f'import {{ places }} from "{_PACKAGE}/places";\n'
    if _H3 in {*grids, *names}:
        yield f'import * as {_H3} from "h3-js";\n'


def _parts(file: MetricsFile) -> str:
    """The function `parts`: options of the client by name."""
    rows = []
    if parts := _kind_parts(file):
        calls = ", ".join(f"{kind.part}({_given(options)})" for kind, options in parts.items())
        rows.append(f"  kinds: [{calls}],\n")
    if grids := _grids(file):
        rows.append(f"  places: places({_given([_H3] if _H3 in grids else [])}),\n")
    return f"export const parts = () => ({{\n{''.join(rows)}}});\n" if rows else (
        "export const parts = () => ({});\n"
    )  # fmt: skip


def _given(options: Sequence[str]) -> str:
    return f"{{ {', '.join(options)} }}" if options else ""


def _kind_parts(file: MetricsFile) -> dict[KindDesign, Sequence[str]]:
    """The kinds that the core of the client does not have, with what their parts are given."""
    found = {}
    for name in kind_designs():
        metrics, kind = [one for one in file.declared if one.kind == name], kind_design(name)
        if metrics and kind.part:
            found[kind] = kind.part_options(metrics)
    return found


def _grids(file: MetricsFile) -> set[str]:
    return {metric.location.grid.kind for metric in file.declared if metric.location is not None}


def _accessor(metric: Metric, methods: Sequence[str]) -> str:
    name = json.dumps(metric.base_name)
    said = " ".join(metric.description.split()).replace("*/", "* /")
    ascii_said = said.encode("ascii", "backslashreplace").decode("ascii")
    rows = "".join(f"    {method},\n" for method in methods)
    return f"  /** {ascii_said} */\n  {name}: {{\n{rows}  }},\n"


def _typescript_methods(metric: Metric) -> Iterator[str]:
    name = json.dumps(metric.base_name)
    if not metric.rules.takes_fixes:
        call = f"client.record({name}, value)"
        kind = kind_design(metric.kind)
        yield f"record: (value: {kind.value_type(metric)}): Promise<boolean> => {call}"
        if kind.adds(metric):
            yield f"add: (amount?: number): Promise<boolean> => client.add({name}, amount)"
    elif metric.location is not None and metric.location.pairs:
        yield f"recordTrip: {_TRIP}\n      client.recordTrip({name}, origin, destination, at)"
    else:
        call = f"client.recordLocation({name}, latitude, longitude, at)"
        yield f"recordLocation: {_FIX}\n      {call}"
