"""A single client for a whole process, for apps that want one-line calls.

    from client_sdk import one_line as telemetry

    telemetry.init("metrics.toml", app="editor", collector="https://...", consent=True)
    telemetry.record("homepage", "https://example.org/")

An app with several clients, or with its own folder, calls `Client.open`.
"""

import atexit
import logging
import os
import sys
import threading
from typing import Any

from client_sdk.client import Client
from rappor_core.errors import ParameterError

_LOG = logging.getLogger("client_sdk")
_LOCK = threading.Lock()
_OPEN: dict[str, Client] = {}  # the client of this process, by the name of its app
_TOLD: set[str] = set()


def init(
    metrics: Any, *, app: str, collector: str, consent: bool, key: str | None = None, **more: Any
) -> Client:
    """Open the client of this process in the app's folder; it is closed when the process ends.

    A second call in a process sets consent again, and returns the same client.

    Args:
        metrics: The metrics; see `Client.open`.
        app: A name that is unique among the user's apps.
        collector: The address of the collector.
        consent: The user's answer.
        key: The key of scope `report`, if the collector requires keys.
        **more: Additional arguments for `Client.open`.

    Raises:
        MetricsFileError: The metrics cannot be read.
        ParameterError: Another argument is invalid, or the process has a different app's client.
    """
    with _LOCK:
        if _OPEN:
            (open_app, client), *_ = _OPEN.items()
            if open_app != app:
                raise ParameterError(f"app = {app!r}: this process has the client of {open_app!r}")
            client.set_consent(consent)
            return client
        _OPEN[app] = client = Client.open(
            metrics, state_dir=folder_of(app), collector=collector, consent=consent, key=key, **more
        )
    atexit.register(client.close)
    if client.status.condition not in ("active", "no_consent"):
        _LOG.warning("nothing is recorded: %s", client.status.sentence)
    return client


def record(name: str, value: object) -> bool:
    """Call `Client.record`; before `init`, warn once and return False."""
    client = _client()
    return client is not None and client.record(name, value)


def add(name: str, amount: float = 1) -> bool:
    """Call `Client.add`; before `init`, warn once and return False."""
    client = _client()
    return client is not None and client.add(name, amount)


def folder_of(app: str) -> str:
    """Return the folder for an app's state, inside the user's folder for local data.

    Raises ParameterError if the name is not a valid folder name, or if there is no home directory.
    """
    if not app or app in (".", "..") or set(app) & set('/\\:*?"<>|'):
        raise ParameterError(f"app = {app!r} is not a valid folder name")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ParameterError(f"HOME = {home!r}: the person has no home folder; name a state_dir")
    if sys.platform == "win32":
        base = _absolute("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support")
    else:
        base = _absolute("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(base, app, "telemetry")


def _absolute(variable: str) -> str:
    """Return the path in an environment variable, or "" if it is relative.

    The XDG base directory specification requires programs to ignore relative paths.
    """
    path = os.environ.get(variable, "")
    return path if os.path.isabs(path) else ""


def _client() -> Client | None:
    for client in _OPEN.values():
        return client
    if "init" not in _TOLD:
        _TOLD.add("init")
        _LOG.warning("nothing is recorded: call init() first")
    return None
