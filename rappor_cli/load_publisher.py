"""The service's port for releases, where the libraries of publication are installed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from decoder.service.errors import SettingsError
from decoder.service.publishing import Publisher


def load_publisher(key: Path | None = None) -> Publisher | None:
    """What makes releases; None where a library of rappor-telemetry[publication] is missing.

    key: file of the private key that signs them. Raises SettingsError for one that cannot be used.
    """
    try:
        found = import_module("rappor_cli.publisher")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("rappor_cli", "decoder"):
            raise
        if key is not None:
            extra = "pip install 'rappor-telemetry[publication,signing]'"
            raise SettingsError(f"setting release_key: {error.name} is missing; {extra}") from None
        return None
    made: Publisher = found.ReleasePublisher(key)
    return made
