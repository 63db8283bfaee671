"""Settings: arguments, then environment (`RAPPOR_DECODER_...`), then a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from decoder.service.environment import PARENT_VARIABLE, PREFIX
from decoder.service.store.engine import parse_url
from rappor_server.logs import LEVELS
from rappor_server.settings import (
    Environment,
    ServerSettings,
    is_loopback,
    read_settings,
    refuse_placeholder_password,
)

FILE_VARIABLE = f"{PREFIX}SETTINGS"
KEY_VARIABLE = f"{PREFIX}KEY"  # of programs that call the service
_ENVIRONMENT = Environment(
    prefix=PREFIX,
    others=(FILE_VARIABLE, PARENT_VARIABLE, KEY_VARIABLE),
    choices={"log_level": ", ".join(LEVELS), "smtp_security": "starttls, tls, none"},
    help="docs/service.md",
)


class Settings(ServerSettings):
    """Everything that an operator can choose. `load_settings` turns what is wrong into one line."""

    FILE_VARIABLE: ClassVar[str] = FILE_VARIABLE
    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    database: str = "sqlite:///rappor-decoder.sqlite"
    host: str = "127.0.0.1"
    port: int = Field(default=8100, ge=0, le=65535)
    public_url: str | None = None  # as browsers see it, where a proxy is in front: https://...
    allow_placeholder_password: bool = False

    collector: str | None = None  # its URL
    collector_key: SecretStr | None = None  # of scope aggregate
    aggregate_folder: Path | None = None  # aggregate files that jobs may name
    work_folder: Path | None = None  # of jobs that run; the system's folder for such by default

    job_slots: int = Field(default=2, ge=0, le=64)  # jobs at once of a worker; 0 with serve: none
    job_seconds: float = Field(default=3600.0, gt=0)
    job_memory_bytes: int = Field(default=2 << 30, ge=64 << 20)  # beyond what the decoder needs
    job_attempts: int = Field(default=3, ge=1, le=20)
    lease_seconds: float = Field(default=15.0, gt=0)
    poll_seconds: float = Field(default=0.25, gt=0, le=1)
    max_jobs_of_analyst: int = Field(default=100, ge=1)  # queued or running
    max_jobs_of_admin: int = Field(default=1000, ge=1)
    max_running_of_person: int = Field(default=64, ge=1)

    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_upload_bytes: int = Field(default=64 << 20, ge=1024)  # of a list or an aggregate
    max_list_entries: int = Field(default=2_000_000, ge=1)
    max_stored_bytes_of_person: int = Field(default=1 << 30, ge=1 << 20)
    max_result_bytes: int = Field(default=512 << 20, ge=1 << 20)  # all files of a result
    keep_aggregates_days: int = Field(default=30, ge=1)  # that no live job or result needs
    body_seconds: float = Field(default=30.0, gt=0)
    session_seconds: int = Field(default=12 * 3600, ge=60)
    keep_jobs_days: int = Field(default=90, ge=1)  # that are over; results are kept apart
    keep_results_days: int | None = Field(default=None, ge=1)  # not released; None: for ever

    tick_seconds: float = Field(default=60.0, ge=0)  # between looks at schedules; 0: not here
    webhook_loopback: bool = False  # whether alarms may go to this machine
    smtp_host: str | None = None  # for alarms by e-mail
    smtp_port: int = Field(default=587, ge=1, le=65535)
    smtp_from: str = ""
    smtp_user: str = ""
    smtp_password: SecretStr = SecretStr("")
    smtp_security: str = Field(default="starttls", pattern="^(starttls|tls|none)$")
    protect_metrics: bool = False  # /telemetry for admins only

    database_connections: int = Field(default=5, ge=2)
    database_seconds: float = Field(default=5.0, gt=0)
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")

    @model_validator(mode="after")
    def _safe_together(self) -> Settings:
        """Refuse what is dangerous unless it is asked for by name."""
        url = parse_url(self.database)
        refuse_placeholder_password(url, allowed=self.allow_placeholder_password)
        if self.smtp_host is not None and "@" not in self.smtp_from:
            raise ValueError("smtp_host needs smtp_from, the address that alarms come from")
        if self.smtp_security == "none" and not is_loopback(self.smtp_host or "localhost"):
            raise ValueError("smtp_security = 'none' is for a mail server on this machine only")
        for name in ("collector", "public_url"):
            value = getattr(self, name)
            if value is not None and not value.startswith(("http://", "https://")):
                raise ValueError(f"{name} = {value!r} is not an http:// or https:// URL")
        return self


def load_settings(**chosen: Any) -> Settings:
    """Read the settings. Raises SettingsError with one line that names what is wrong."""
    return read_settings(Settings, _ENVIRONMENT, chosen)
