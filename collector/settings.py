"""Settings: arguments, then environment (`RAPPOR_...`), then a TOML file; checked at start."""

from __future__ import annotations

import difflib
import ipaddress
import os
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.exceptions import SettingsError as UnreadableSettingError

from collector.cross_origin import check_origins
from collector.errors import SettingsError
from collector.logs import LEVELS
from collector.store.engine import parse_url
from collector.validation import first_problem
from rappor_core.errors import toml_problem

PREFIX = "RAPPOR_"
# Read by the command line, and by this project's own long tests.
_OTHER_VARIABLES = {
    f"{PREFIX}{name}" for name in ("SETTINGS", "KEY", "KILLS", "FUZZ", "SOAK_MINUTES")
}
_OTHER_PREFIXES = (f"{PREFIX}DECODER_", f"{PREFIX}TEST_")  # of other programs on this machine
_PLACEHOLDERS = {"changeme", "change-me", "password", "secret", "postgres", "rappor", "example"}


class Settings(BaseSettings):
    """Everything that an operator can choose. `load_settings` turns what is wrong into one line."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    database: str = "sqlite:///rappor.sqlite"
    metrics: Path | None = None  # a metrics.toml to declare at start
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    listen_fd: int | None = Field(default=None, ge=0)  # an inherited socket, instead of the two
    workers: int = Field(default=1, ge=1, le=64)

    require_keys: bool = True
    open_anywhere: bool = False  # allow require_keys = false on more than loopback
    allow_placeholder_password: bool = False
    protect_metrics: bool = False  # GET /metrics needs an admin key

    allowed_origins: tuple[str, ...] = ()  # of pages that may send reports (CORS)

    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_inflated_bytes: int = Field(default=4 << 20, ge=1024)
    max_batch_reports: int = Field(default=10_000, ge=1, le=10_000)
    body_seconds: float = Field(default=10.0, gt=0)  # for a whole body to arrive
    max_buffered_bytes: int = Field(default=64 << 20, ge=1 << 20)  # of bodies that are arriving
    max_queued_bytes: int = Field(default=64 << 20, ge=1 << 20)  # of batches that wait for a commit
    max_unsent_bytes: int = Field(default=64 << 20, ge=1 << 20)  # of answers that nobody reads
    answer_seconds: float = Field(default=20.0, gt=0)  # for an answer to be read
    max_group_reports: int = Field(default=50_000, ge=1)  # in one commit
    max_requests_per_key: float | None = Field(default=None, gt=0)  # a second; None = no limit
    max_requests_per_address: float | None = Field(default=None, gt=0)
    max_reports_per_key: float | None = Field(default=None, gt=0)
    max_reports_per_address: float | None = Field(default=None, gt=0)
    retry_after_seconds: int = Field(default=5, ge=1)

    clock_skew_seconds: int = Field(default=600, ge=0, le=86_400)
    refuse_implausible: bool = True
    database_connections: int = Field(default=2, ge=1)  # a worker's, beside the one that writes
    database_seconds: float = Field(default=5.0, gt=0)  # to wait for a lock or a connection
    housekeeping_seconds: float = Field(default=60.0, gt=0)
    drain_seconds: int = Field(default=20, ge=1)
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")

    @property
    def clock_skew(self) -> timedelta:
        """How far a device's clock may be ahead."""
        return timedelta(seconds=self.clock_skew_seconds)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 (pydantic passes it by name)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments over environment over the file that RAPPOR_SETTINGS names."""
        file = os.environ.get("RAPPOR_SETTINGS")
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        if file:
            sources += (TomlConfigSettingsSource(settings_cls, Path(file)),)
        return sources

    @field_validator("allowed_origins")
    @classmethod
    def _origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        """Exact origins only."""
        return check_origins(origins)

    @model_validator(mode="after")
    def _safe_together(self) -> Settings:
        """Refuse what is dangerous unless it is asked for by name."""
        if not self.require_keys and not is_loopback(self.host) and not self.open_anywhere:
            raise ValueError(
                f"require_keys = false on host {self.host!r} would let anyone close days and read "
                "aggregates; bind 127.0.0.1, use keys, or set open_anywhere = true"
            )
        url = parse_url(self.database)
        if (
            url.password
            and str(url.password).lower() in _PLACEHOLDERS
            and not is_loopback(url.host or "localhost")
            and not self.allow_placeholder_password
        ):
            raise ValueError("the database password is a placeholder; set a real one")
        if self.workers > 1 and url.get_backend_name() == "sqlite":
            raise ValueError(
                f"workers = {self.workers} on SQLite, which has one writer; use 1, or PostgreSQL"
            )
        return self


def load_settings(**chosen: Any) -> Settings:
    """Read the settings. Raises SettingsError with one line that names what is wrong."""
    file = os.environ.get("RAPPOR_SETTINGS")
    if file and not Path(file).is_file():
        raise SettingsError(f"RAPPOR_SETTINGS = {file!r}: there is no such file")
    _refuse_unknown_variables()
    try:
        return Settings(**chosen)
    except UnreadableSettingError as error:
        raise SettingsError(f"{error}: give a list as JSON") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: {toml_problem(error)}") from None
    except ValidationError as error:
        name, message = first_problem(error, {"log_level": ", ".join(LEVELS)})
        raise SettingsError(f"setting {name}: {message}" if name else message) from None


def _refuse_unknown_variables() -> None:
    """A variable that starts as ours and is no setting is a mistake. Raises SettingsError."""
    known = {PREFIX + name.upper() for name in Settings.model_fields} | _OTHER_VARIABLES
    for name in sorted(os.environ):
        ours = name.upper()
        if ours.startswith(PREFIX) and ours not in known and not ours.startswith(_OTHER_PREFIXES):
            near = difflib.get_close_matches(ours, known, 1)
            hint = f"; did you mean {near[0]}?" if near else "; rappor serve --help names them"
            raise SettingsError(f"environment variable {name}: there is no such setting{hint}")


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
