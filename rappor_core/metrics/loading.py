"""Reading the metrics of an app from a path, whatever form the file has.

A device that reads a compiled file loads neither `tomllib` nor the modules that read tables.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rappor_core.errors import MetricsFileError, file_problem

if TYPE_CHECKING:
    from rappor_core.metrics.metrics_file import MetricsFile

COMPILED_ENDING = ".json"


def load_metrics(path: str | os.PathLike[str]) -> MetricsFile:
    """Read a `metrics.toml`, or what `rappor metrics compile` wrote if its name ends in `.json`.

    Raises MetricsFileError that names the file, the metric, the key, the value.
    """
    try:
        with open(os.fspath(path), encoding="utf-8-sig") as file:  # a number would be a handle
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise MetricsFileError(f"{path}: cannot be read: {file_problem(error)}") from error
    try:
        return _read(text, compiled=os.fspath(path).endswith(COMPILED_ENDING))
    except MetricsFileError as error:
        raise MetricsFileError(f"{path}: {error}") from error


def _read(text: str, *, compiled: bool) -> MetricsFile:
    """Only the modules of the form that the text has are loaded."""
    if compiled:
        from rappor_core.metrics.compiled_reading import read_compiled

        return read_compiled(text)
    from rappor_core.metrics.file import parse_metrics

    return parse_metrics(text)
