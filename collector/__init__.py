"""The collector, which accepts reports over HTTP and serves aggregates of closed days.

Layers, with imports pointing inward: app -> routes -> domain -> store -> models. Names are loaded
when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collector.app import create_app
    from collector.settings import Settings

_HOMES = {"Settings": "collector.settings", "create_app": "collector.app"}

__all__ = ["Settings", "create_app"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'collector' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
