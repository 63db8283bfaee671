"""`npm ci` refuses a lock file that does not hold all that it names; it is asked by nobody else."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "client_js"
KINDS = ("dependencies", "devDependencies", "optionalDependencies")


def test_the_lock_holds_every_package_it_names() -> None:
    """Also those of other systems: npm leaves out what its registry did not have yet."""
    lock = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    held = {place.rpartition("node_modules/")[2] for place in lock}
    named = {name for package in lock.values() for kind in KINDS for name in package.get(kind, {})}
    assert len(named) > 50
    assert named - held == set()


def test_the_lock_is_of_this_package() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text())["packages"][""]
    package = json.loads((FOLDER / "package.json").read_text())
    for field in ("name", "version", "bin", *KINDS):
        assert lock.get(field) == package.get(field)
