"""The vectors of a version never change (docs/compatibility.md): other clients rely on them."""

from hashlib import sha256
from pathlib import Path

VECTORS = Path(__file__).parents[1] / "vectors"


def test_the_vectors_of_version_1_never_change() -> None:
    """Rename nothing in them; a new kind of metric adds a file, and a line to `v1.sha256`."""
    lines = (VECTORS / "v1.sha256").read_text().splitlines()
    stored = {name: digest for digest, name in (line.split() for line in lines)}
    files = (VECTORS / "v1").glob("*.json")
    assert {one.name: sha256(one.read_bytes()).hexdigest() for one in files} == stored
