"""The compiled form of `metrics.toml`: JSON that a device reads without a TOML parser.

`rappor metrics compile` writes it; docs/metrics.md describes it. Reading is strict: a definition is
rejected if `compiled_text` would write it differently or if its `params_id` differs.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from rappor_core.errors import (
    MetricsFileError,
    RapporError,
    WireFormatError,
    file_problem,
    shown,
)
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile, check_budget, read_budget
from rappor_core.strict_json import parse_strict_json

COMPILED_ENDING = ".json"
COMPILED_VERSION = 1
MAX_CHARACTERS = 4_000_000
DIGEST = "digest"
_TOP_KEYS = {"version", "budget", "metrics"}
_ROW_KEYS = {"params_id", "definition"}


def load_metrics(path: str | os.PathLike[str]) -> MetricsFile:
    """Read a `metrics.toml`, or its compiled form if the file name ends in `.json`.

    Raises MetricsFileError, which names the file, the metric, the key and the value.
    """
    try:
        with open(os.fspath(path), encoding="utf-8-sig") as file:  # fspath rejects file handles
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise MetricsFileError(f"{path}: cannot be read: {file_problem(error)}") from error
    try:
        return _read(text, compiled=os.fspath(path).endswith(COMPILED_ENDING))
    except MetricsFileError as error:
        raise MetricsFileError(f"{path}: {error}") from error


def _read(text: str, *, compiled: bool) -> MetricsFile:
    if compiled:
        return read_compiled(text)
    from rappor_core.metrics.file import parse_metrics

    return parse_metrics(text)


def read_compiled(text: str) -> MetricsFile:
    """Read the text of a compiled file. Raises MetricsFileError if it is invalid."""
    if len(text) > MAX_CHARACTERS:
        raise MetricsFileError(f"{len(text):,} characters; it has {MAX_CHARACTERS:,} at most")
    try:
        document = parse_strict_json(text.encode("utf-8", "surrogatepass"))
    except WireFormatError as error:
        raise MetricsFileError(f"not a compiled file: {error}") from None
    sealed = isinstance(document, dict) and DIGEST in document
    top = _fields("the file", document, _TOP_KEYS | {DIGEST} if sealed else _TOP_KEYS)
    version, rows = top["version"], top["metrics"]
    if type(version) is not int or version != COMPILED_VERSION:
        why = f"is not {COMPILED_VERSION}, the one known here; compile again"
        raise MetricsFileError(f"version = {shown(version)} {why}")
    if not isinstance(rows, list) or not rows:
        raise MetricsFileError("there are no metrics")
    metrics: dict[str, Metric] = {}
    for metric in map(_metric, rows):
        if metric.name in metrics:
            _refuse(metric.name, "appears twice")
        metrics[metric.name] = metric
    file = MetricsFile(metrics, read_budget(top["budget"]))
    for declared in file.declared:
        _check_parts(declared.base_name, file.parts(declared.base_name))
    check_budget(file)
    if sealed and top[DIGEST] != digest_of(top):
        raise MetricsFileError("the digest does not match: the file was changed after compilation")
    return file


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the digest of a compiled document as 32 hexadecimal digits (docs/porting.md, part 9).

    It is 16 bytes of SHAKE-256 over the budget and metrics as JSON without spaces, in UTF-8. Each
    number is replaced with a text: the hexadecimal digits of its 8 bytes as a little-endian double.
    """
    parts = [document["budget"], document["metrics"]]
    text = json.dumps(_with_doubles(parts), separators=(",", ":"), ensure_ascii=False)
    return hashlib.shake_256(text.encode("utf-8", "surrogatepass")).hexdigest(16)


def _with_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_doubles(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_doubles(part) for part in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return struct.pack("<d", value).hex() if is_number else value


def _metric(row: Any) -> Metric:
    fields = _fields("a metric", row, _ROW_KEYS)
    definition = fields["definition"]
    if not isinstance(definition, dict) or not isinstance(definition.get("name"), str):
        raise MetricsFileError(f"definition = {shown(definition)} is not that of a named metric")
    name = definition["name"]
    try:
        metric = Metric.from_dict(definition)
        again = metric.to_dict()
    except MetricsFileError:
        raise
    except (RapporError, TypeError, ValueError, AttributeError, LookupError) as error:
        raise MetricsFileError(f"metric {shown(name)}: {error}") from error
    if again != definition:
        wrong = [key for key in definition if definition[key] != again.get(key)]
        _refuse(name, f"is not as `rappor metrics compile` writes it: {', '.join(wrong)}")
    if metric.params_id != fields["params_id"]:
        _refuse(name, f"params_id = {shown(fields['params_id'])} does not match its definition")
    return metric


def _check_parts(name: str, parts: Iterable[Metric]) -> None:
    """Check that a location has one sub-metric per slot and level, with equal shared settings."""
    first, *others = parts
    if not others and first.location is None:
        return
    place = first.location
    names = {name} if place is None else {
        f"{name}/{slot.name}/{level}" for slot in place.slots for level in place.grid.levels
    }  # fmt: skip
    if {first.name, *(metric.name for metric in others)} != names:
        _refuse(name, "needs exactly one definition for each of its slots and levels")
    if any(_shared(metric) != _shared(first) for metric in others):
        _refuse(name, "has slots or levels with different rules")


def _shared(metric: Metric) -> dict[str, Any]:
    """Return the settings that the sub-metrics of a declared metric must share."""
    shared = metric.to_dict()
    location, params = shared.get("location", {}), shared["params"]
    for fields, differing in (
        (shared, ["name"]),
        (location, ["slot", "level"]),
        (params, ["num_bits"]),
    ):
        for key in differing:
            fields.pop(key, None)
    return shared


def _fields(where: str, value: Any, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() != keys:
        names = ", ".join(sorted(keys))
        raise MetricsFileError(f"{where} is not an object of {names}: {shown(value)}")
    return value


def _refuse(name: str, why: str) -> NoReturn:
    raise MetricsFileError(f"metric {shown(name)}: {why}")


def compiled(file: MetricsFile) -> dict[str, Any]:
    """Return the compiled form of a metrics file as plain values; `read_compiled` reads it."""
    rows = [
        {"params_id": metric.params_id, "definition": metric.to_dict()}
        for metric in file.metrics.values()
    ]
    return {"version": COMPILED_VERSION, "budget": file.budget, "metrics": rows}


def compiled_text(file: MetricsFile) -> str:
    """Return the compiled form and its digest as one line of ASCII JSON."""
    document = compiled(file)
    return json.dumps({**document, DIGEST: digest_of(document)}, separators=(",", ":")) + "\n"
