"""manifest.json: what a result was made of and how, by which it can be repeated."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from decoder.options import DecodeOptions, Levels

if TYPE_CHECKING:
    from decoder.discovery.discovery import Discovery
    from decoder.numbers.tables import NumberDecoding
    from decoder.results.tables import Decoding
    from rappor_core.aggregate import Aggregate

    Described = Aggregate | Decoding | Discovery | NumberDecoding

_LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba")


def manifest_of(
    counts: Described, num_reports: int, options: Levels, **more: Any
) -> dict[str, Any]:
    """Describe counts and options.

    Args:
        counts: that were decoded, or what was made of them.
        num_reports: in the counts.
        options: of the decoding.
        **more: what the kind adds.

    Returns:
        The contents of manifest.json; nothing in it depends on the clock or the machine.
    """
    params = counts.params
    return {
        "metric": counts.metric,
        "params_id": counts.params_id,
        "params": params.to_dict(),
        "definition": dict(counts.definition),
        "epsilon_infinity": params.epsilon_infinity,
        "epsilon_one": params.epsilon_one,
        "first_day": counts.first_day and counts.first_day.isoformat(),
        "last_day": counts.last_day and counts.last_day.isoformat(),
        "num_reports": num_reports,
        "alpha": options.alpha,
        "level": options.level,
        "without_cohorts": list(options.without_cohorts)
        if isinstance(options, DecodeOptions)
        else [],
        **more,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that compute."""
    found = {name: _version(name) for name in _LIBRARIES}
    return found | {"python": platform.python_version()}


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed: run from its source tree"
