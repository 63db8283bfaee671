"""The rules that devices and servers share: parameters, privacy, hashing, wire formats, metrics.

This package needs only the standard library and mmh3. It never opens a network connection or a
database. Public names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers treat this name as true; importing typing would be slow
if TYPE_CHECKING:
    from typing import Any

    from rappor_core.aggregate import Aggregate
    from rappor_core.errors import RapporError
    from rappor_core.metrics.compiled import load_metrics
    from rappor_core.metrics.metric import Metric
    from rappor_core.params import RapporParams
    from rappor_core.wire.report import Report

_HOMES = {
    "Aggregate": "rappor_core.aggregate",
    "Metric": "rappor_core.metrics.metric",
    "RapporError": "rappor_core.errors",
    "RapporParams": "rappor_core.params",
    "Report": "rappor_core.wire.report",
    "load_metrics": "rappor_core.metrics.compiled",
}

__all__ = ["Aggregate", "Metric", "RapporError", "RapporParams", "Report", "load_metrics"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rappor_core' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
