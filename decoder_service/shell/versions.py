"""Which code computes results: part of their keys, since other code may give other bytes."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba", "pyarrow", "matplotlib")


def decoder_version() -> str:
    """Versions of the package, of the libraries whose arithmetic and files it uses, and Python."""
    found = [f"{name} {_version(name)}" for name in LIBRARIES]
    return ", ".join([*found, f"python {platform.python_version()}"])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "from source"
