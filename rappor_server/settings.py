"""Server settings from arguments, environment and a TOML file, with one-line errors."""

import difflib
import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, TomlConfigSettingsSource
from pydantic_settings.exceptions import SettingsError as UnreadableSettingError

from rappor_core.errors import toml_problem
from rappor_server.errors import SettingsError
from rappor_server.problems import first_problem


class ServerSettings(BaseSettings):
    """The base class of a server's settings."""

    FILE_VARIABLE: ClassVar[str]  # the environment variable that names a TOML file
    OTHERS: ClassVar[tuple[str, ...]]  # variables with the same prefix that are read elsewhere
    HELP: ClassVar[str]  # the documentation that names the settings

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, settings_cls: type[BaseSettings], **sources: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the order of sources: arguments before environment before the file."""
        chosen = sources["init_settings"], sources["env_settings"]
        file = os.environ.get(cls.FILE_VARIABLE)
        return (*chosen, TomlConfigSettingsSource(settings_cls, Path(file))) if file else chosen


AnySettings = TypeVar("AnySettings", bound=ServerSettings)


def read_settings(kind: type[AnySettings], chosen: Mapping[str, Any]) -> AnySettings:
    """Read settings of class `kind`; `chosen` come first. Raises a one-line SettingsError."""
    file = os.environ.get(kind.FILE_VARIABLE)
    if file and not Path(file).is_file():
        raise SettingsError(f"{kind.FILE_VARIABLE} = {file!r}: there is no such file")
    prefix = kind.model_config["env_prefix"]
    names = {prefix + name.upper() for name in kind.model_fields}
    for name in sorted(os.environ):  # an unknown name with this prefix is a mistake
        ours = name.upper()
        if ours.startswith(prefix) and ours not in names and not f"{ours}=".startswith(kind.OTHERS):
            near = difflib.get_close_matches(ours, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"{kind.HELP} names them"
            raise SettingsError(f"environment variable {name}: there is no such setting; {hint}")
    try:
        return kind(**chosen)
    except UnreadableSettingError as error:
        raise SettingsError(f"{error}: give a list as JSON") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: {toml_problem(error)}") from None
    except ValidationError as error:
        name, message = first_problem(error, unknown="there is no such setting")
        raise SettingsError(f"setting {name}: {message}" if name else message) from None


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means only this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
