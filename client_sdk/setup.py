"""The arguments of `Client.open`, checked."""

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
from rappor_core.metrics.metrics_file import MetricsFile

if TYPE_CHECKING:
    from client_sdk.delivery.relay import Relay

LAST_SECOND = 253_370_764_800.0  # 9999-01-01


def environment_certificates() -> tuple[str | None, str | None]:
    """File and directory of certificate authorities, which OpenSSL reads where it is then."""
    named = (os.environ.get(variable) for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    file, directory = (os.path.abspath(path) if path else None for path in named)
    return file, directory


class Setup(Frozen):
    """What a client is opened with.

    certificates: file and directory of certificate authorities that the environment names.

    Raises ParameterError for an address or a key that cannot be used.
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

    def __post_init__(self) -> None:
        """Check the address and the key."""
        split_url(self.collector)
        check_key(self.key)
        if not self.development:
            check_key_is_hidden(self.key, self.collector)

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
        raise ParameterError(f"consent = {consent!r}: pass what the user chose, True or False")


def delivery_by(relay: Relay | None, delivery: object) -> Delivery:
    """The options of delivery, by a relay if there is one. Raises ParameterError."""
    options = Delivery() if delivery is None else delivery
    if not isinstance(options, Delivery):
        raise ParameterError(f"delivery = {shown(delivery)} is not a Delivery")
    return options.replace(relay=relay) if relay else options


def directory_of(state_dir: object) -> StateDirectory:
    """The directory of a state. Raises ParameterError for what is not a path."""
    if not isinstance(state_dir, str | os.PathLike) or not isinstance(os.fspath(state_dir), str):
        raise ParameterError(f"state_dir = {shown(state_dir)} is not the path of a directory")
    try:
        return StateDirectory(state_dir)
    except OSError as error:  # the working directory was deleted
        raise ParameterError(f"state_dir = {shown(state_dir)} is relative: {error}") from error
