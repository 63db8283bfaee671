"""All that a release is made of, and what names it, has one version."""

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEEL = ROOT / "packaging" / "client" / "pyproject.toml"
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_wheel_of_the_device_has_the_wholes_version() -> None:
    found = tomllib.loads(WHEEL.read_text())["project"]["version"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert cited is not None
    assert {found, cited[1]} == {WHOLE}


def test_the_npm_package_and_examples_have_that_version() -> None:
    package = json.loads((ROOT / "client_js" / "package.json").read_text())
    packed = re.findall(r"client-([\d.]+)\.tgz", (ROOT / "client_js" / "README.md").read_text())
    mobile = (ROOT / "examples" / "mobile" / "pyproject.toml").read_text()
    pinned = re.findall(r"rappor-telemetry[\w-]*==([\w.]+)", mobile)
    assert {package["version"], *packed, *pinned} == {WHOLE}


def test_images_are_tagged_with_that_version() -> None:
    pages = [*(ROOT / "docker" / "kubernetes").rglob("*.yaml"), ROOT / "docs" / "deployment.md"]
    tags = {
        tag
        for page in pages
        for tag in re.findall(r"rappor-(?:collector|decoder):([\w.]+)", page.read_text())
    }
    assert tags == {WHOLE}


def test_the_changelog_has_the_version_or_next() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert WHOLE in headings[:2]
