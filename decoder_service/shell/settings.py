"""The settings, from arguments, then environment (`RAPPOR_DECODER_...`), then a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import AnyHttpUrl, Field, IPvAnyNetwork, SecretStr, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from decoder.output.tiles import Tiles
from decoder_service.worker.process_limits import PARENT_VARIABLE, PREFIX
from rappor_server.database import parse_url
from rappor_server.logs import LogLevel
from rappor_server.settings import ServerSettings, is_loopback, read_settings

FILE_VARIABLE = f"{PREFIX}SETTINGS"
KEY_VARIABLE = f"{PREFIX}KEY"  # The key of programs that call the service


class ServiceSettings(ServerSettings):
    """The settings that an operator can choose; `load_settings` reports errors in one line."""

    FILE_VARIABLE = FILE_VARIABLE
    OTHERS = (f"{FILE_VARIABLE}=", f"{PARENT_VARIABLE}=", f"{KEY_VARIABLE}=")
    HELP = "docs/service.md"
    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    database: str = "sqlite:///rappor-decoder.sqlite"
    host: str = "127.0.0.1"
    port: int = Field(default=8100, ge=0, le=65535)
    public_url: str | None = None  # The URL that browsers see behind a proxy: https://...

    collector: str | None = None  # URL
    collector_key: SecretStr | None = None  # A key of scope aggregate
    work_folder: Path | None = None  # For running jobs; default: the system's temporary folder

    job_slots: int = Field(default=2, ge=0, le=64)  # A worker's jobs at once; 0: serve starts none
    job_seconds: float = Field(default=3600.0, gt=0)
    job_memory_bytes: int = Field(default=2 << 30, ge=64 << 20)  # Beyond the decoder's own need
    job_attempts: int = Field(default=3, ge=1, le=20)
    lease_seconds: float = Field(default=15.0, gt=0)
    poll_seconds: float = Field(default=0.25, gt=0, le=1)
    max_jobs_of_person: int = Field(default=1000, ge=1)  # Queued or running

    max_body_bytes: int = Field(default=256 << 10, ge=1024)
    max_upload_bytes: int = Field(default=64 << 20, ge=1024)  # Of a list or an aggregate
    max_stored_bytes_of_person: int = Field(default=1 << 30, ge=1 << 20)
    max_result_bytes: int = Field(default=512 << 20, ge=1 << 20)  # All files of a result
    max_result_bytes_of_person: int = Field(default=10 << 30, ge=1 << 20)  # All results of a person
    keep_aggregates_days: int = Field(default=30, ge=1)  # Those that no live job or result needs
    body_seconds: float = Field(default=30.0, gt=0)
    session_seconds: int = Field(default=12 * 3600, ge=60)

    oidc_issuer: str | None = None  # The OpenID Connect provider for sign-ins
    oidc_client_id: str = ""
    oidc_client_secret: SecretStr | None = None
    oidc_scopes: str = "openid profile email"
    oidc_role_claim: str = "groups"  # The claim that lists groups; a.b is b within a
    oidc_viewers: tuple[str, ...] = ()  # Groups with the role
    oidc_analysts: tuple[str, ...] = ()
    oidc_admins: tuple[str, ...] = ()
    oidc_everyone: Literal["", "viewer", "analyst"] = ""  # Role of people in none of these groups
    user_header: str | None = None  # A proxy's header with the signed-in person
    groups_header: str | None = None  # The same proxy's header with groups, separated by commas
    forwarded_allow_ips: tuple[IPvAnyNetwork, ...] = ()  # Addresses of trusted proxies
    oidc_role_days: int = Field(default=30, ge=1)  # Days that schedules continue after a sign-in

    keep_jobs_days: int = Field(default=90, ge=1)  # Jobs that are over; results are separate
    keep_rejected_days: int = Field(default=90, ge=1)  # Files of rejected releases
    release_key: Path | None = None  # Private key (PEM) that signs approved releases
    keep_results_days: int | None = Field(default=None, ge=1)  # Unreleased; None: forever

    tick_seconds: float = Field(default=60.0, ge=0)  # Between checks of schedules; 0: no checks
    alarm_urls: dict[str, SecretStr] = Field(default={})  # Apprise URLs by displayed name
    tiles: str | None = None  # Behind maps: https://HOST/{z}/{x}/{y}.png, or a .pmtiles file
    tiles_credit: str = ""  # Their attribution on maps
    protect_metrics: bool = False  # Whether /telemetry is for admins only

    database_connections: int = Field(default=5, ge=2)
    database_seconds: float = Field(default=5.0, gt=0)
    log_level: LogLevel = "info"

    @model_validator(mode="after")
    def _safe_together(self) -> ServiceSettings:
        """Reject dangerous or incomplete combinations of settings."""
        parse_url(self.database)
        self.map_tiles  # noqa: B018 (raises for an invalid address of tiles)
        proxies = self.forwarded_allow_ips
        if self.user_header and (not proxies or any(proxy.prefixlen == 0 for proxy in proxies)):
            raise ValueError(
                f"user_header = {self.user_header!r} needs forwarded_allow_ips, the addresses of "
                "the proxies that set it: other clients could name anyone"
            )
        groups = (*self.oidc_viewers, *self.oidc_analysts, *self.oidc_admins, self.oidc_everyone)
        for name in ("user_header", "oidc_issuer"):
            if getattr(self, name) is not None and not any(groups):
                raise ValueError(
                    f"{name}: no one would get a role; set groups in oidc_admins, oidc_analysts or "
                    "oidc_viewers, or a role in oidc_everyone"
                )
        if self.oidc_issuer is not None:
            if not is_safe_url(self.oidc_issuer):
                raise ValueError(f"oidc_issuer = {self.oidc_issuer!r} is not an https:// URL")
            if not self.oidc_client_id or not self.public_url:
                raise ValueError("oidc_issuer needs oidc_client_id, and public_url to return to")
            if "openid" not in self.oidc_scopes.split():
                raise ValueError(f"oidc_scopes = {self.oidc_scopes!r} lacks openid")
        for name in ("collector", "public_url"):
            value = getattr(self, name)
            if value is not None and not value.startswith(("http://", "https://")):
                raise ValueError(f"{name} = {value!r} is not an http:// or https:// URL")
        return self

    @property
    def map_tiles(self) -> Tiles | None:
        """Return the map tiles, or None."""
        return None if self.tiles is None else Tiles(self.tiles, self.tiles_credit)


def is_safe_url(text: str) -> bool:
    """Return whether a URL is https, or http to this machine."""
    try:
        address = AnyHttpUrl(text)
    except ValidationError:
        return False
    return address.scheme == "https" or is_loopback(address.host or "")


def load_settings(**chosen: Any) -> ServiceSettings:
    """Read the settings, or raise SettingsError with a one-line message."""
    return read_settings(ServiceSettings, chosen)


def secret_text(secret: SecretStr | None) -> str | None:
    """Return the text of a secret setting."""
    return None if secret is None else secret.get_secret_value()
