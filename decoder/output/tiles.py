"""Map tiles from the operator's own server, drawn behind the cells."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from decoder.errors import DecodeError

_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:]+\](:\d+)?", re.ASCII)  # safe in a header


@dataclass(frozen=True)
class Tiles:
    """The source of map tiles. Raises DecodeError if the address is invalid."""

    url: str  # `https://` or a path: tiles with {z}, {x} and {y}, or a .pmtiles vector archive
    attribution: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        is_path = not parts.scheme and not parts.netloc and self.url.startswith("/")
        is_known = is_path or (
            parts.scheme in ("http", "https") and _HOST.fullmatch(parts.netloc) is not None
        )
        if not is_known or not (self.is_vector or all(f"{{{axis}}}" in self.url for axis in "zxy")):
            raise DecodeError(
                f"tiles = {self.url!r}: give https://HOST/{{z}}/{{x}}/{{y}}.png, or the address of "
                "a .pmtiles file"
            )

    @property
    def is_vector(self) -> bool:
        """Whether the tiles are vector tiles, which a different script draws."""
        return urlsplit(self.url).path.endswith(".pmtiles")

    @property
    def origin(self) -> str:
        """The source that a content security policy must allow."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"
