"""All that a release is made of, and what names it, has one version."""

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEEL = ROOT / "packaging" / "client" / "pyproject.toml"
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_all_that_is_released_has_that_version() -> None:
    """The wheel of the device, the citation, the npm package, its examples and the images."""
    named = {
        tomllib.loads(WHEEL.read_text())["project"]["version"],
        json.loads((ROOT / "client_js" / "package.json").read_text())["version"],
    }
    images = [*(ROOT / "docker" / "kubernetes").rglob("*.yaml"), ROOT / "docs" / "deployment.md"]
    for pages, pattern in (
        ([ROOT / "CITATION.cff"], r"(?m)^version: (.+)$"),
        ([ROOT / "client_js" / "README.md"], r"client-([\d.]+)\.tgz"),
        ([ROOT / "examples" / "mobile" / "pyproject.toml"], r"rappor-telemetry[\w-]*==([\w.]+)"),
        (images, r"rappor-(?:collector|decoder):([\w.]+)"),
    ):
        found = {one for page in pages for one in re.findall(pattern, page.read_text())}
        assert found or "mobile" in str(pages[0]) or "client_js" in str(pages[0]), pages
        named |= found
    assert named == {WHOLE}


FOLDER = Path(__file__).parents[2] / "client_js"
KINDS = ("dependencies", "devDependencies", "optionalDependencies")


def test_the_lock_holds_every_package_it_names() -> None:
    """Also those of other systems: npm leaves out what its registry did not have yet."""
    lock = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    held = {place.rpartition("node_modules/")[2] for place in lock}
    named = {name for package in lock.values() for kind in KINDS for name in package.get(kind, {})}
    assert len(named) > 50
    assert named - held == set()
