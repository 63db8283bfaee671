"""The version of the code that computes results, which is part of their keys: other code may
give other bytes."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba", "pyarrow", "matplotlib")


def decoder_version() -> str:
    """Versions of this package, of Python, and of the libraries on which results depend."""
    found = [f"{name} {_version(name)}" for name in LIBRARIES]
    return ", ".join([*found, f"python {platform.python_version()}"])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "from source"
