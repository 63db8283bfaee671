"""Writes tests/vectors/v1/pause_list.json. Run by hand when the form of a list changes.

    python tests/vectors/make_pause_v1.py

Signed lists of paused metrics: bytes, a device's day, and until when each metric is paused then;
null where the list is not taken.
"""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ohttp.pause_list import CONTEXT, PauseList, sign
from ohttp.pause_wire import MOST_BYTES

HERE = Path(__file__).parent / "v1"
OWN = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
TODAY = "2026-11-27"
PAUSED = {"homepage": "2026-12-20", "café": "2026-12-31", "over": "2026-11-26"}
LIST = PauseList(
    "org.example.app",
    3,
    date(2026, 12, 27),
    {name: date.fromisoformat(day) for name, day in PAUSED.items()},
)
UNTIL = {
    "homepage": "2026-12-20", "homepage/night/0": "2026-12-20", "café": "2026-12-27",
    "over": None, "theme": None,
}  # fmt: skip
HOLDS, ENDS = {"homepage": "2026-12-20"}, {"homepage": None}
REFUSED = None


def changed(old: bytes, new: bytes) -> bytes:
    """The list with other words, signed all the same."""
    return signed(LIST.text().replace(old, new))


def signed(text: bytes) -> bytes:
    """Any text, signed as a list."""
    return OWN.sign(CONTEXT + text) + text


def make() -> dict[str, Any]:
    """The whole file."""
    good, text = sign(OWN, LIST), LIST.text()
    rows: list[tuple[str, bytes, str, dict[str, str | None] | None]] = [
        ("holds", good, TODAY, UNTIL),
        ("last day", good, "2026-12-20", HOLDS),
        ("a day after", good, "2026-12-21", ENDS),
        ("nothing paused", sign(OWN, replace(LIST, paused={})), TODAY, ENDS),
        ("90 days ahead", sign(OWN, replace(LIST, expires=date(2027, 2, 25))), TODAY, HOLDS),
        ("91 days ahead", sign(OWN, replace(LIST, expires=date(2027, 2, 26))), TODAY, REFUSED),
        ("expired", good, "2026-12-28", REFUSED),
        ("other key", sign(OTHER, LIST), TODAY, REFUSED),
        ("other app", sign(OWN, replace(LIST, app="org.example.other")), TODAY, REFUSED),
        ("no context", OWN.sign(text) + text, TODAY, REFUSED),
        ("end missing", good[:-1], TODAY, REFUSED),
        ("empty", b"", TODAY, REFUSED),
        ("no text", signed(b""), TODAY, REFUSED),
        ("too large", signed(text + b" " * (MOST_BYTES - 64 - len(text) + 1)), TODAY, REFUSED),
        ("as large as may be", signed(text + b" " * (MOST_BYTES - 64 - len(text))), TODAY, HOLDS),
        ("version 2", changed(b'"version":1', b'"version":2'), TODAY, REFUSED),
        ("a key more", changed(b'{"version"', b'{"prob_f":0,"version"'), TODAY, REFUSED),
        ("number true", changed(b'"number":3', b'"number":true'), TODAY, REFUSED),
        ("number 0", changed(b'"number":3', b'"number":0'), TODAY, REFUSED),
        ("no such day", changed(b"2026-12-20", b"2026-02-30"), TODAY, REFUSED),
        ("short day", changed(b"2026-12-20", b"20261220"), TODAY, REFUSED),
        ("a list", signed(b"[]"), TODAY, REFUSED),
        ("null", signed(b"null"), TODAY, REFUSED),
    ]
    public = OWN.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return {
        "public_key": public.decode(),
        "app": LIST.app,
        "lists": [
            {"name": name, "today": today, "bytes": data.hex(), "until": until}
            for name, data, today, until in rows
        ],
    }


if __name__ == "__main__":
    (HERE / "pause_list.json").write_text(json.dumps(make(), indent=1) + "\n")
