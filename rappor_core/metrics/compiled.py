"""The compiled form of a `metrics.toml`: JSON that a device reads without a TOML parser.

Written at build time by `rappor metrics compile`; docs/metrics.md says what stands in it. A device
has `rappor_core.metrics.compiled_reading` alone.
"""

from __future__ import annotations

import json
from typing import Any

from rappor_core.metrics.compiled_reading import (
    COMPILED_VERSION,
    DIGEST,
    digest_of,
    read_compiled,
)
from rappor_core.metrics.metrics_file import MetricsFile

__all__ = ["compiled", "compiled_text", "digest_of", "read_compiled"]


def compiled(file: MetricsFile) -> dict[str, Any]:
    """The compiled form of a metrics file as plain values; `read_compiled` reads its JSON."""
    rows = [
        {"params_id": metric.params_id, "definition": metric.to_dict()}
        for metric in file.metrics.values()
    ]
    return {"version": COMPILED_VERSION, "budget": file.budget, "metrics": rows}


def compiled_text(file: MetricsFile) -> str:
    """The compiled form and its digest as JSON in ASCII, on one line."""
    document = compiled(file)
    return json.dumps({**document, DIGEST: digest_of(document)}, separators=(",", ":")) + "\n"
