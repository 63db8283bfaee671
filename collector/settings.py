"""The collector's settings, from arguments, environment (`RAPPOR_...`) and a TOML file."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from collector.store.database import CollectorDatabase
from rappor_server.database import make_engine, parse_url
from rappor_server.logs import LogLevel
from rappor_server.settings import (
    ServerSettings,
    is_loopback,
    read_settings,
)

PREFIX = "RAPPOR_"
_ORIGIN = re.compile(
    r"(https://([a-z0-9.-]+|\[[0-9a-f:]+\])"
    r"|http://(localhost|[a-z0-9-]+\.localhost|127\.[0-9.]+|\[::1\])"
    r"|(chrome|moz|safari-web)-extension://[a-z0-9-]+)"
    r"(?!:80$|:443$)(:[1-9][0-9]{0,4})?"
)
_BROKER_OPTIONS = (  # connection and batching options for the broker
    "security.protocol",
    "sasl.",
    "ssl.",
    "socket.",
    "broker.address.",
    "client.rack",
    "reconnect.",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "linger.ms",
    "batch.",
    "compression.",
)


class Settings(ServerSettings):
    """All settings that an operator can configure; `load_settings` reports errors in one line."""

    FILE_VARIABLE = f"{PREFIX}SETTINGS"
    # read by the command line, the decoder service, and this project's own tests
    OTHERS = tuple(
        PREFIX + name for name in ("SETTINGS=", "KEY=", "KILLS=", "FUZZ=", "DECODER_", "TEST_")
    )
    HELP = "rappor serve --help"
    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    database: str = "sqlite:///rappor.sqlite"
    metrics: Path | None = None  # a metrics.toml to declare at start
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    listen_fd: int | None = Field(default=None, ge=0)  # an inherited socket, replaces host and port
    workers: int = Field(default=1, ge=1, le=64)

    require_keys: bool = True
    open_anywhere: bool = False  # allow require_keys = false on other addresses than loopback
    protect_metrics: bool = False  # GET /metrics needs an admin key

    allowed_origins: tuple[str, ...] = ()  # origins of web pages that may send reports (CORS)

    ohttp_keys: Path | None = None  # a file of rappor ohttp-keys; None: no relay is used
    ohttp_max_age_days: int = Field(default=90, ge=1)  # the age after which a new key is due

    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_inflated_bytes: int = Field(default=4 << 20, ge=1024)
    max_batch_reports: int = Field(default=200, ge=1, le=10_000)
    body_seconds: float = Field(default=10.0, gt=0)  # the time limit for a whole body to arrive
    max_queued_bytes: int = Field(default=64 << 20, ge=1 << 20)  # of batches that wait for a commit
    max_group_reports: int = Field(default=50_000, ge=1)  # in one commit
    max_requests_per_key: float = Field(default=0, ge=0)  # per second; 0 means no limit
    max_reports_per_key: float = Field(default=10_000, ge=0)
    sender_header: str | None = None  # a trusted proxy's hash of the sender
    retry_after_seconds: int = Field(default=5, ge=1)

    broker: str | None = None  # HOST:PORT,... of Kafka, which stores batches until they are counted
    broker_topic: str = Field(default="rappor-reports", pattern=r"^[A-Za-z0-9._-]{1,249}$")
    broker_group: str = "rappor-collector"  # the group of consumers that count for one database
    broker_options: dict[str, str] = Field(default={}, repr=False)  # for librdkafka: TLS, passwords
    broker_seconds: float = Field(default=5.0, ge=0.1, le=60)  # for the broker to store a batch

    clock_skew_seconds: int = Field(default=600, ge=0, le=86_400)
    refuse_implausible: bool = True
    database_connections: int = Field(default=2, ge=1)  # per worker, plus one to write
    database_seconds: float = Field(default=5.0, gt=0)  # maximum wait for a lock or a connection
    housekeeping_seconds: float = Field(default=60.0, gt=0)
    drain_seconds: int = Field(default=20, ge=1)
    log_level: LogLevel = "info"

    @property
    def clock_skew(self) -> timedelta:
        """Return how far a device's clock may be ahead of the collector's."""
        return timedelta(seconds=self.clock_skew_seconds)

    def open_database(self, connections: int, max_seconds: float = 120.0) -> CollectorDatabase:
        """Return the database with its pool; no connection is opened yet.

        Args:
            connections: The number of connections in the pool, 1 or more.
            max_seconds: The maximum duration of a transaction on PostgreSQL.
        """
        engine = make_engine(self.database, pool_size=connections, timeout=self.database_seconds)
        return CollectorDatabase(engine, max_seconds=max_seconds)

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        """Accept only exact origins, because `*` would let any page read the answers."""
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"origin {origin!a} is not an exact origin as browsers write it: "
                    "https://app.example.org, an extension's, or http:// of this machine"
                )
        return origins

    @field_validator("broker_options")
    @classmethod
    def _options(cls, options: dict[str, str]) -> dict[str, str]:
        for name in options:
            if not name.startswith(_BROKER_OPTIONS):
                raise ValueError(
                    f"broker_options: {name!r} cannot be set; options that begin with "
                    f"{', '.join(_BROKER_OPTIONS)} can"
                )
        return options

    @model_validator(mode="after")
    def _safe_together(self) -> Settings:
        """Reject dangerous combinations unless they are explicitly allowed."""
        if not self.require_keys and not is_loopback(self.host) and not self.open_anywhere:
            raise ValueError(
                f"require_keys = false on host {self.host!r} would let anyone close days and read "
                "aggregates; bind 127.0.0.1, use keys, or set open_anywhere = true"
            )
        if self.workers > 1 and parse_url(self.database).get_backend_name() == "sqlite":
            raise ValueError(
                f"workers = {self.workers} on SQLite, which supports one collector process: name a "
                "PostgreSQL database, or set workers = 1"
            )
        return self


def load_settings(**chosen: Any) -> Settings:
    """Read the settings. Raises SettingsError, with a one-line message, if invalid."""
    return read_settings(Settings, chosen)
