"""Typed accessors for the declared metrics, for the Python and TypeScript clients.

`rappor metrics compile --python` and `--typescript` write them at build time. The type checker and
the editor then report undeclared names and invalid values. The TypeScript module also contains
`parts`, the options that load only the client parts for these metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from keyword import iskeyword
from typing import NamedTuple

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.kinds import KINDS, kind_named
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile


class Language(NamedTuple):
    """The syntax of types and methods in one language."""

    text: str
    number: str
    choice: Callable[[Iterable[object]], str]  # The type for one of several values
    pair: str  # The type for one value from each of two lists
    methods: Mapping[str, str]  # Templates by recorded item, with {name} and {type}

    def type_of(self, metric: Metric) -> str:
        """Return the type of the values that a metric accepts."""
        if metric.rules.takes_numbers:
            return self.number
        chosen = [self.choice(values) for values in metric.rules.takes(metric)]
        if len(chosen) > 1:
            return self.pair.format(*chosen)
        return chosen[0] if chosen else self.text

    def methods_of(self, metric: Metric) -> list[str]:
        """Return the methods of a metric's accessor."""
        if metric.location is not None and metric.location.pairs:
            recorded = ["trip"]
        elif metric.rules.takes_fixes:
            recorded = ["fix"]
        else:
            recorded = ["value", "amount"] if metric.rules.sums(metric) else ["value"]
        name, type_ = json.dumps(metric.base_name), self.type_of(metric)
        return [self.methods[record].format(name=name, type=type_) for record in recorded]


def _python_choice(values: Iterable[object]) -> str:
    listed = list(values)
    return "bool" if listed == [False, True] else f"Literal[{', '.join(map(ascii, listed))}]"


_PYTHON_METHOD = """
    def {method}(self, {taken}) -> bool:
        return self._client.{method}({{name}}, {given})
"""
PYTHON = Language(
    text="str",
    number="float",
    choice=_python_choice,
    pair="tuple[{}, {}]",
    methods={
        recorded: _PYTHON_METHOD.format(method=method, taken=taken, given=given)
        for recorded, method, taken, given in (
            ("value", "record", "value: {type}", "value"),
            ("amount", "add", "amount: float = 1", "amount"),
            (
                "fix",
                "record_location",
                "latitude: float, longitude: float, at: At = None",
                "latitude, longitude, at",
            ),
            (
                "trip",
                "record_trip",
                "origin: Point, destination: Point, at: At = None",
                "origin, destination, at",
            ),
        )
    },
)
TYPESCRIPT = Language(
    text="string",
    number="number",
    choice=lambda values: " | ".join(map(json.dumps, values)),
    pair="readonly [{}, {}]",
    methods={
        "value": "record: (value: {type}): Promise<boolean> => client.record({name}, value)",
        "amount": "add: (amount?: number): Promise<boolean> => client.add({name}, amount)",
        "fix": "recordLocation: (latitude: number, longitude: number, at?: LocalTime): "
        "Promise<boolean> =>\n      client.recordLocation({name}, latitude, longitude, at)",
        "trip": "recordTrip: (origin: Point, destination: Point, at?: LocalTime): "
        "Promise<boolean> =>\n      client.recordTrip({name}, origin, destination, at)",
    },
)

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
    """Return an ASCII Python module whose class `Metrics` has an attribute per declared metric.

    `record` accepts the metric's values: any string, one of its categories, true or false, or a
    number (and `add` for a sum). A metric of places has `record_location` or, with `pairs`,
    `record_trip`. Characters that are invalid in Python names become `_`. Raises MetricsFileError
    if that makes two names equal."""
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
    """Return the name of a metric as an attribute, never a keyword."""
    name = _NOT_IN_NAMES.sub("_", metric.base_name).strip("_")
    return f"{name}_" if iskeyword(name) else name


def _class_name(attribute: str) -> str:
    return "_" + "_".join(part.capitalize() for part in attribute.split("_"))


def _python_class(attribute: str, metric: Metric) -> str:
    text = ascii(" ".join(metric.description.split()))
    methods = "".join(PYTHON.methods_of(metric))
    return f"\n\nclass {_class_name(attribute)}(_Metric):\n    {text}\n{methods}"


_PACKAGE = "rappor-telemetry-client"
_LIBRARIES = {"h3": "h3-js"}  # The libraries passed to parts, by option
_TYPESCRIPT_HEAD = """\
// Written by `rappor metrics compile --typescript`; do not edit.

"""
_POINT = "type Point = readonly [latitude: number, longitude: number];\n\n"
_TYPESCRIPT_TYPES = """\
/** The declared metrics over an open client; each call answers as the client's own does. */
export const metricsOf = (client: Client) => ({
"""
_PARTS = "/** What these metrics need: `openClient({ ...parts(), metrics, ... })`. */\n"


def typescript_text(file: MetricsFile) -> str:
    """Return an ASCII TypeScript module with one accessor per declared metric, and `parts`.

    A string metric accepts any string; a category, one of its categories; a boolean, true or false;
    a pair, one value of each of its lists; a number metric, a number (and `add` for a sum). A
    metric of places or flows accepts fixes (`recordLocation`) or, with `pairs`, trips
    (`recordTrip`)."""
    used = "".join(
        "".join(TYPESCRIPT.methods_of(metric)) for metric in file.declared
    )  # Unused imports are errors under noUnusedLocals
    names = "Client, LocalTime" if "LocalTime" in used else "Client"
    imports = f'import type {{ {names} }} from "{_PACKAGE}";\n' + "".join(_imports(file))
    point = _POINT if "Point" in used else ""
    body = "".join(map(_accessor, file.declared))
    types = "export type Metrics = ReturnType<typeof metricsOf>;\n"
    head = f"{_TYPESCRIPT_HEAD}{imports}\n{point}{_TYPESCRIPT_TYPES}"
    return f"{head}{body}}});\n\n{types}\n{_PARTS}{_parts(file)}"


def _imports(file: MetricsFile) -> Iterator[str]:
    """Yield an import of each part that the metrics need, and of the parts' libraries."""
    parts, places = _kind_parts(file), _place_options(file)
    names = dict.fromkeys([*parts, *(option for options in parts.values() for option in options)])
    for name in names:
        if name not in _LIBRARIES:
            yield f'import {{ {name} }} from "{_PACKAGE}/{name}";\n'
    if places is not None:
        yield f'import {{ places }} from "{_PACKAGE}/places";\n'
    for name, library in _LIBRARIES.items():
        if name in {*names, *(places or ())}:
            yield f'import * as {name} from "{library}";\n'


def _parts(file: MetricsFile) -> str:
    rows, places = [], _place_options(file)
    if parts := _kind_parts(file):
        calls = ", ".join(f"{part}({_object(options)})" for part, options in parts.items())
        rows.append(f"  kinds: [{calls}],\n")
    if places is not None:
        rows.append(f"  places: places({_object(places)}),\n")
    body = f"\n{''.join(rows)}" if rows else ""
    return f"export const parts = () => ({{{body}}});\n"


def _object(options: Iterable[str]) -> str:
    listed = ", ".join(options)
    return f"{{ {listed} }}" if listed else ""


def _kind_parts(file: MetricsFile) -> dict[str, list[str]]:
    """Return the kind-specific parts that the client's core lacks, with their options."""
    parts: dict[str, list[str]] = {}
    for kind in map(kind_named, KINDS):
        metrics = [metric for metric in file.declared if metric.rules is kind]
        if metrics and kind.client_part:
            parts[kind.client_part] = _options(metrics)
    return parts


def _place_options(file: MetricsFile) -> list[str] | None:
    metrics = [metric for metric in file.declared if metric.location is not None]
    return _options(metrics) if metrics else None


def _options(metrics: Iterable[Metric]) -> list[str]:
    return list(dict.fromkeys(option for m in metrics for option in m.rules.part_options(m)))


def _accessor(metric: Metric) -> str:
    name = json.dumps(metric.base_name)
    text = " ".join(metric.description.split()).replace("*/", "* /")
    ascii_said = text.encode("ascii", "backslashreplace").decode("ascii")
    rows = "".join(f"    {method},\n" for method in TYPESCRIPT.methods_of(metric))
    return f"  /** {ascii_said} */\n  {name}: {{\n{rows}  }},\n"
