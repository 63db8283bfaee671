"""Check the arguments of `Client.open`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from client_sdk.delivery.addresses import check_key, check_key_is_hidden, split_url
from client_sdk.delivery.options import Delivery
from client_sdk.randomization.key_derivation import Randomness
from client_sdk.recording.bounds import PrivacyLevel
from client_sdk.storage.directory import StateDirectory
from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.metrics_file import MetricsFile

if TYPE_CHECKING:
    from client_sdk.delivery.relay import Relay

LAST_SECOND = 253_370_764_800.0  # 9999-01-01


class Setup(Frozen):
    """The arguments of `Client.open`, checked.

    certificates: file and directory of certificate authorities that the environment names.
    """

    metrics: MetricsFile
    directory: StateDirectory
    collector: str
    key: str | None
    level: PrivacyLevel
    delivery: Delivery
    development: bool
    randomness: Randomness
    clock: Callable[[], float]
    certificates: tuple[str | None, str | None]

    def now(self) -> float:
        """Seconds since 1970, UTC; a clock that is not set shows no time before, or far after."""
        now = float(self.clock())
        return now if 0.0 <= now <= LAST_SECOND else min(max(now, 0.0), LAST_SECOND)

    def __repr__(self) -> str:
        """Without the key, which may end up in a log."""
        return f"Setup({self.collector!r}, {self.directory.path!r})"


def check_consent(consent: object) -> None:
    """Refuse what is neither True nor False. Raises ParameterError."""
    if type(consent) is not bool:
        raise ParameterError(f"consent = {consent!r}: say True or False, as the person did")


def make_setup(
    metrics: MetricsFile | str | os.PathLike[str],
    state_dir: str | os.PathLike[str],
    collector: str,
    key: str | None,
    privacy_level: str | PrivacyLevel,
    delivery: Delivery | None,
    *,
    development: bool,
    randomness: Randomness,
    clock: Callable[[], float],
    relay: Relay | None,
) -> Setup:
    """Check the arguments of `Client.open`. Raises MetricsFileError and ParameterError."""
    split_url(collector)
    check_key(key)
    if not development:
        check_key_is_hidden(key, collector)
    if not isinstance(delivery, Delivery | None):
        raise ParameterError(f"delivery = {shown(delivery)} is not a Delivery")
    if not isinstance(state_dir, str | os.PathLike) or not isinstance(os.fspath(state_dir), str):
        raise ParameterError(f"state_dir = {shown(state_dir)} is not the path of a directory")
    try:
        directory = StateDirectory(state_dir)
    except OSError as error:  # the working directory was deleted
        raise ParameterError(f"state_dir = {shown(state_dir)} is relative: {error}") from error
    return Setup(
        metrics if isinstance(metrics, MetricsFile) else load_metrics(metrics),
        directory,
        collector,
        key,
        PrivacyLevel.of(privacy_level),
        (delivery or Delivery()).replace(relay=relay) if relay else delivery or Delivery(),
        development,
        randomness,
        clock,
        (_absolute("SSL_CERT_FILE"), _absolute("SSL_CERT_DIR")),
    )


def _absolute(variable: str) -> str | None:
    """The path in an environment variable, which OpenSSL reads in the directory of its time."""
    path = os.environ.get(variable)
    return os.path.abspath(path) if path else None
