"""Settings: arguments, then environment (`RAPPOR_DECODER_...`), then a TOML file."""

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
KEY_VARIABLE = f"{PREFIX}KEY"  # of programs that call the service


class ServiceSettings(ServerSettings):
    """Everything that an operator can choose. `load_settings` turns what is wrong into one line."""

    FILE_VARIABLE = FILE_VARIABLE
    OTHERS = (f"{FILE_VARIABLE}=", f"{PARENT_VARIABLE}=", f"{KEY_VARIABLE}=")
    HELP = "docs/service.md"
    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    database: str = "sqlite:///rappor-decoder.sqlite"
    host: str = "127.0.0.1"
    port: int = Field(default=8100, ge=0, le=65535)
    public_url: str | None = None  # as browsers see it, where a proxy is in front: https://...

    collector: str | None = None  # its URL
    collector_key: SecretStr | None = None  # of scope aggregate
    work_folder: Path | None = None  # of jobs that run; the system's folder for such by default

    job_slots: int = Field(default=2, ge=0, le=64)  # jobs at once of a worker; 0 with serve: none
    job_seconds: float = Field(default=3600.0, gt=0)
    job_memory_bytes: int = Field(default=2 << 30, ge=64 << 20)  # beyond what the decoder needs
    job_attempts: int = Field(default=3, ge=1, le=20)
    lease_seconds: float = Field(default=15.0, gt=0)
    poll_seconds: float = Field(default=0.25, gt=0, le=1)
    max_jobs_of_person: int = Field(default=1000, ge=1)  # queued or running

    max_body_bytes: int = Field(default=256 << 10, ge=1024)
    max_upload_bytes: int = Field(default=64 << 20, ge=1024)  # of a list or an aggregate
    max_stored_bytes_of_person: int = Field(default=1 << 30, ge=1 << 20)
    max_result_bytes: int = Field(default=512 << 20, ge=1 << 20)  # all files of a result
    max_result_bytes_of_person: int = Field(default=10 << 30, ge=1 << 20)  # of all one's results
    keep_aggregates_days: int = Field(default=30, ge=1)  # that no live job or result needs
    body_seconds: float = Field(default=30.0, gt=0)
    session_seconds: int = Field(default=12 * 3600, ge=60)

    oidc_issuer: str | None = None  # an OpenID Connect provider, for people to sign in
    oidc_client_id: str = ""
    oidc_client_secret: SecretStr | None = None
    oidc_scopes: str = "openid profile email"
    oidc_role_claim: str = "groups"  # where it lists groups; a.b is b within a
    oidc_viewers: tuple[str, ...] = ()  # groups that have the role
    oidc_analysts: tuple[str, ...] = ()
    oidc_admins: tuple[str, ...] = ()
    oidc_everyone: Literal["", "viewer", "analyst"] = ""  # in none of them
    user_header: str | None = None  # of a proxy: the person whom it signed in
    groups_header: str | None = None  # of the same proxy: their groups, separated by commas
    forwarded_allow_ips: tuple[IPvAnyNetwork, ...] = ()  # addresses of proxies to be believed
    oidc_role_days: int = Field(default=30, ge=1)  # that schedules run on after a sign-in

    keep_jobs_days: int = Field(default=90, ge=1)  # that are over; results are kept apart
    keep_rejected_days: int = Field(default=90, ge=1)  # files of rejected releases
    release_key: Path | None = None  # private, PEM: approved releases are signed with it
    keep_results_days: int | None = Field(default=None, ge=1)  # not released; None: for ever

    tick_seconds: float = Field(default=60.0, ge=0)  # between looks at schedules; 0: not here
    alarm_urls: dict[str, SecretStr] = Field(default={})  # Apprise URLs by the names shown
    tiles: str | None = None  # behind maps: https://HOST/{z}/{x}/{y}.png, or a .pmtiles file
    tiles_credit: str = ""  # whom a map names for them
    protect_metrics: bool = False  # /telemetry for admins only

    database_connections: int = Field(default=5, ge=2)
    database_seconds: float = Field(default=5.0, gt=0)
    log_level: LogLevel = "info"

    @model_validator(mode="after")
    def _safe_together(self) -> ServiceSettings:
        """Refuse what is dangerous unless it is asked for by name."""
        parse_url(self.database)
        self.map_tiles  # noqa: B018 (raises for an address that no tiles come from)
        proxies = self.forwarded_allow_ips
        if self.user_header and (not proxies or any(proxy.prefixlen == 0 for proxy in proxies)):
            raise ValueError(
                f"user_header = {self.user_header!r} needs forwarded_allow_ips, the addresses of "
                "the proxies that set it: others could name anybody"
            )
        groups = (*self.oidc_viewers, *self.oidc_analysts, *self.oidc_admins, self.oidc_everyone)
        for name in ("user_header", "oidc_issuer"):
            if getattr(self, name) is not None and not any(groups):
                raise ValueError(
                    f"{name}: nobody would get a role; give oidc_admins, oidc_analysts or "
                    "oidc_viewers groups, or oidc_everyone a role"
                )
        if self.oidc_issuer is not None:
            if not is_safe_url(self.oidc_issuer):
                raise ValueError(f"oidc_issuer = {self.oidc_issuer!r} is not an https:// URL")
            if not self.oidc_client_id or not self.public_url:
                raise ValueError("oidc_issuer needs oidc_client_id, and public_url to come back to")
            if "openid" not in self.oidc_scopes.split():
                raise ValueError(f"oidc_scopes = {self.oidc_scopes!r} lacks openid")
        for name in ("collector", "public_url"):
            value = getattr(self, name)
            if value is not None and not value.startswith(("http://", "https://")):
                raise ValueError(f"{name} = {value!r} is not an http:// or https:// URL")
        return self

    @property
    def map_tiles(self) -> Tiles | None:
        """The tiles behind maps, if there are any."""
        return None if self.tiles is None else Tiles(self.tiles, self.tiles_credit)


def is_safe_url(text: str) -> bool:
    """Return whether a URL is https, or http to this machine."""
    try:
        address = AnyHttpUrl(text)
    except ValidationError:
        return False
    return address.scheme == "https" or is_loopback(address.host or "")


def load_settings(**chosen: Any) -> ServiceSettings:
    """Read the settings. Raises SettingsError with one line that names what is wrong."""
    return read_settings(ServiceSettings, chosen)


def secret_text(secret: SecretStr | None) -> str | None:
    """Return the text of a setting that is a secret."""
    return None if secret is None else secret.get_secret_value()
