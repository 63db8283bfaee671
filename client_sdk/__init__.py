"""The device: randomise a value before it leaves, queue it, send it."""

from client_sdk.answers import Answer, Result
from client_sdk.client import Client
from client_sdk.encoder import Encoder
from client_sdk.errors import ClientError, StateError, TransportError, UnknownMetricError
from client_sdk.identity import new_secret
from client_sdk.randomness import system_randomness
from client_sdk.transport import Transport
from rappor_core.metrics_file import load_metrics, parse_metrics

__all__ = [
    "Answer",
    "Client",
    "ClientError",
    "Encoder",
    "Result",
    "StateError",
    "Transport",
    "TransportError",
    "UnknownMetricError",
    "load_metrics",
    "new_secret",
    "parse_metrics",
    "system_randomness",
]
