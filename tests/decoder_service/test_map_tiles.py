"""Tiles behind the maps of the service: what an operator may name, and what browsers may load."""

from pathlib import Path

import pytest

from decoder.errors import DecodeError
from decoder.output.tiles import Tiles
from rappor_server.errors import SettingsError
from tests.decoder_service.support import running


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://tiles.example:8443/{z}/{x}/{y}.png?key=1", "https://tiles.example:8443"),
        ("/tiles/{z}/{x}/{y}.png", "'self'"),
        ("https://tiles.example/world.pmtiles?v=2", "https://tiles.example"),
    ],
)
def test_the_policy_of_pages_allows_the_named_server_alone(
    tmp_path: Path, url: str, source: str
) -> None:
    database = f"sqlite:///{tmp_path}/d.sqlite"
    with running(database, tick_seconds=0, tiles=url) as served, served.client("ana") as ana:
        policy = ana.get("/jobs", headers={"accept": "text/html"}).headers[
            "content-security-policy"
        ]
    kind = "connect-src" if "pmtiles" in url else "img-src"
    assert policy.endswith(f"; {kind} 'self' {source}")
    assert policy.startswith("default-src 'self'; base-uri 'none'; object-src 'none'; ")


@pytest.mark.parametrize(
    "url",
    [
        "https://tiles.example/{z}/{x}.png",
        "//tiles.example/{z}/{x}/{y}.png",
        "javascript:alert({z}{x}{y})",
        "https://tiles.example; script-src *; /{z}/{x}/{y}.png",
        "tiles.pmtiles",
        "https:///{z}/{x}/{y}.png",
    ],
)
def test_other_addresses_are_refused_with_an_example(url: str, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match=r"tiles = .*: give https://HOST/\{z\}/\{x\}/\{y\}\.png"):
        Tiles(url)
    with pytest.raises(SettingsError, match="tiles = "):
        running(f"sqlite:///{tmp_path}/d.sqlite", tiles=url).__enter__()
