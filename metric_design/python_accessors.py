"""Typed accessors of the declared metrics for the Python client.

Written at build time by `rappor metrics compile --python`. A name that is not declared, or a value
that the metric does not take, is then an error of the type checker and of the editor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from keyword import iskeyword

from metric_design.kinds import kind_design
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile

_HEAD = '''\
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
_ALL = '''

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
    classes = "".join(map(_class, attributes, attributes.values()))
    fields = "".join(f"        self.{name} = {_class_name(name)}(client)\n" for name in attributes)
    return f"{_HEAD}{classes}{_ALL}{fields}"


def _attribute(metric: Metric) -> str:
    """The name of a metric as an attribute, which is no keyword."""
    name = _NOT_IN_NAMES.sub("_", metric.base_name).strip("_")
    return f"{name}_" if iskeyword(name) else name


def _class_name(attribute: str) -> str:
    return "_" + "_".join(part.capitalize() for part in attribute.split("_"))


def _class(attribute: str, metric: Metric) -> str:
    said = ascii(" ".join(metric.description.split()))
    methods = "".join(_methods(metric))
    return f"\n\nclass {_class_name(attribute)}(_Metric):\n    {said}\n{methods}"


def _methods(metric: Metric) -> Iterator[str]:
    name = f'"{metric.base_name}"'
    if metric.location is None:
        kind = kind_design(metric.kind)
        yield _method("record", f"value: {kind.python_type(metric)}", f"{name}, value")
        if kind.adds(metric):
            yield _method("add", "amount: float = 1", f"{name}, amount")
    elif metric.location.pairs:
        taken = "origin: Point, destination: Point, at: At = None"
        yield _method("record_trip", taken, f"{name}, origin, destination, at")
    else:
        taken = "latitude: float, longitude: float, at: At = None"
        yield _method("record_location", taken, f"{name}, latitude, longitude, at")


def _method(method: str, taken: str, given: str) -> str:
    call = f"return self._client.{method}({given})"
    return f"\n    def {method}(self, {taken}) -> bool:\n        {call}\n"
