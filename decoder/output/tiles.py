"""Map tiles of the operator's own server, drawn behind the cells."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from decoder.errors import DecodeError

_HOST = re.compile(r"[\w.-]+(:\d+)?|\[[\da-fA-F:]+\](:\d+)?", re.ASCII)  # it goes into a header


@dataclass(frozen=True)
class Tiles:
    """Where tiles come from.

    url: of raster tiles, with {z}, {x} and {y}, or of an archive of vector tiles, which ends in
        .pmtiles; `https://`, or a path of the server that serves the page.

    Raises DecodeError for another address.
    """

    url: str
    attribution: str = ""

    def __post_init__(self) -> None:
        """Check the address."""
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
        """Whether the address is of vector tiles, which another script draws."""
        return urlsplit(self.url).path.endswith(".pmtiles")

    @property
    def origin(self) -> str:
        """The source that a content security policy has to allow."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"
