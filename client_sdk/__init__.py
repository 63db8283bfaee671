"""The device SDK: randomize a value before it leaves the device, queue the report, send it.

    from client_sdk import Client

    client = Client.open("metrics.toml", state_dir=..., collector=..., key=..., consent=True)
    client.record("homepage", "example.org")

`docs/client.md` is the guide. Names are loaded when they are first used, so that importing the
package costs an app next to nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # for type checkers alone, which take it for true; typing is slow to import
if TYPE_CHECKING:
    from typing import Any

    from client_sdk.client import Client
    from client_sdk.delivery.messages import Ack, Answer
    from client_sdk.delivery.options import Delivery
    from client_sdk.delivery.relay import Relay
    from client_sdk.delivery.transport import Transport
    from client_sdk.errors import (
        ClientError,
        StateChangedError,
        StateError,
        TransportError,
        UnknownMetricError,
    )
    from client_sdk.lifecycle import Status
    from client_sdk.randomization.encoder import Encoder
    from client_sdk.randomization.key_derivation import new_secret, system_randomness
    from client_sdk.recording.bounds import PrivacyLevel
    from client_sdk.recording.recorder import Recorder
    from client_sdk.storage.sqlite import MemoryState
    from rappor_core.metrics.compiled import load_metrics
    from rappor_core.metrics.file import parse_metrics

_HOMES = {
    "Answer": "client_sdk.delivery.messages",
    "Client": "client_sdk.client",
    "ClientError": "client_sdk.errors",
    "Delivery": "client_sdk.delivery.options",
    "Encoder": "client_sdk.randomization.encoder",
    "MemoryState": "client_sdk.storage.sqlite",
    "PrivacyLevel": "client_sdk.recording.bounds",
    "Relay": "client_sdk.delivery.relay",
    "Recorder": "client_sdk.recording.recorder",
    "Ack": "client_sdk.delivery.messages",
    "StateChangedError": "client_sdk.errors",
    "StateError": "client_sdk.errors",
    "Status": "client_sdk.lifecycle",
    "Transport": "client_sdk.delivery.transport",
    "TransportError": "client_sdk.errors",
    "UnknownMetricError": "client_sdk.errors",
    "load_metrics": "rappor_core.metrics.compiled",
    "new_secret": "client_sdk.randomization.key_derivation",
    "parse_metrics": "rappor_core.metrics.file",
    "system_randomness": "client_sdk.randomization.key_derivation",
}

__all__ = [
    "Ack",
    "Answer",
    "Client",
    "ClientError",
    "Delivery",
    "Encoder",
    "MemoryState",
    "PrivacyLevel",
    "Recorder",
    "Relay",
    "StateChangedError",
    "StateError",
    "Status",
    "Transport",
    "TransportError",
    "UnknownMetricError",
    "load_metrics",
    "new_secret",
    "parse_metrics",
    "system_randomness",
]


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'client_sdk' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
