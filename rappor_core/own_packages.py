"""An import finder that prefers this distribution's packages to user files with the same names."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

FOLDER = str(Path(__file__).absolute().parents[1])  # without resolving symbolic links
OWN_PACKAGES = (
    "rappor_core",
    "rappor_cli",
    "client_sdk",
    "rappor_server",
    "collector",
    "decoder",
    "decoder_service",
    "metric_design",
    "disclosure",
    "privacy_audit",
    "simulations",
)


class _OwnPackages:
    """An import finder that takes precedence over the search path."""

    @staticmethod
    def find_spec(
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG004 (the interface of finders)
        target: object = None,  # noqa: ARG004
    ) -> ModuleSpec | None:
        """Return the spec of one of our packages, or None for all other modules."""
        return PathFinder.find_spec(name, [FOLDER]) if name in OWN_PACKAGES else None


def prefer_own_packages() -> None:
    """Import our own packages instead of a user's `collector.py` or `decoder.py` on the path.

    Only our own programs call this. An app with a module of that name wants its own module.
    """
    if _OwnPackages not in sys.meta_path:
        sys.meta_path.insert(0, _OwnPackages)


def foreign_file(name: str) -> str | None:
    """Return the user file that shadows one of our packages, or None if our package is imported."""
    spec = PathFinder.find_spec(name)
    own_spec = PathFinder.find_spec(name, [FOLDER])
    origin = spec and (spec.origin or next(iter(spec.submodule_search_locations or ()), None))
    if not origin or not own_spec or Path(origin).resolve() == Path(str(own_spec.origin)).resolve():
        return None
    return origin
