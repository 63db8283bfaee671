"""The device SDK, which randomizes values before they leave the device and sends the reports.

    from client_sdk import Client

    client = Client.open("metrics.toml", state_dir=..., collector=..., key=..., consent=True)
    client.record("homepage", "example.org")

The guide is `docs/client.md`. Names are loaded when they are first used, so that importing the
package costs an app almost nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers treat this name as true; importing typing is slow
if TYPE_CHECKING:
    from typing import Any

    from client_sdk.client import Client as Client
    from client_sdk.delivery.messages import Ack as Ack
    from client_sdk.delivery.messages import Answer as Answer
    from client_sdk.delivery.options import Delivery as Delivery
    from client_sdk.delivery.relay import Relay as Relay
    from client_sdk.delivery.transport import Transport as Transport
    from client_sdk.errors import (
        ClientError as ClientError,
    )
    from client_sdk.errors import (
        StateChangedError as StateChangedError,
    )
    from client_sdk.errors import (
        StateError as StateError,
    )
    from client_sdk.errors import (
        TransportError as TransportError,
    )
    from client_sdk.errors import (
        UnknownMetricError as UnknownMetricError,
    )
    from client_sdk.lifecycle import Status as Status
    from client_sdk.randomization.key_derivation import new_secret as new_secret
    from client_sdk.randomization.key_derivation import system_randomness as system_randomness
    from client_sdk.randomization.metric_encoder import Encoder as Encoder
    from client_sdk.recording.bounds import PrivacyLevel as PrivacyLevel
    from client_sdk.recording.recorder import Recorder as Recorder
    from client_sdk.storage.sqlite import MemoryState as MemoryState
    from rappor_core.metrics.compiled import load_metrics as load_metrics
    from rappor_core.metrics.file import parse_metrics as parse_metrics

_MODULES = {
    "client_sdk.client": "Client",
    "client_sdk.delivery.messages": "Answer Ack",
    "client_sdk.delivery.options": "Delivery",
    "client_sdk.delivery.relay": "Relay",
    "client_sdk.delivery.transport": "Transport",
    "client_sdk.errors": "ClientError StateChangedError StateError TransportError "
    "UnknownMetricError",
    "client_sdk.lifecycle": "Status",
    "client_sdk.randomization.metric_encoder": "Encoder",
    "client_sdk.randomization.key_derivation": "new_secret system_randomness",
    "client_sdk.recording.bounds": "PrivacyLevel",
    "client_sdk.recording.recorder": "Recorder",
    "client_sdk.storage.sqlite": "MemoryState",
    "rappor_core.metrics.compiled": "load_metrics",
    "rappor_core.metrics.file": "parse_metrics",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'client_sdk' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
