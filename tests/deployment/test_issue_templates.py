"""The forms of .github/ISSUE_TEMPLATE ask for what a report needs, in words that the code knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rappor_core.metrics.kinds import kind_names

ROOT = Path(__file__).parents[2]
FORMS = sorted(
    path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"
)


def fields(form: Path) -> dict[str, dict[str, Any]]:
    """The questions of a form by their ids."""
    body = yaml.safe_load(form.read_text(encoding="utf-8"))["body"]
    return {part["id"]: part for part in body if "id" in part}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_is_complete_and_secret_free(form: Path) -> None:
    given = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert given["name"]
    assert given["description"]
    for part in given["body"]:
        assert part["type"] in {"markdown", "input", "textarea", "dropdown"}
        attributes = part["attributes"]
        assert attributes.get("value" if part["type"] == "markdown" else "label")
    words = " ".join(form.read_text(encoding="utf-8").split()).lower()
    assert "no raw values" in words


@pytest.mark.parametrize("name", ["bug", "privacy"])
def test_a_defect_names_its_version_secrets_elsewhere(name: str) -> None:
    form = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    version = fields(form)["version"]
    assert "rappor --version" in version["attributes"]["description"]
    assert version["validations"]["required"] is True
    assert "SECURITY.md" in form.read_text(encoding="utf-8")
    assert (ROOT / "SECURITY.md").exists()


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_every_kind_of_metric_can_be_named(name: str) -> None:
    form = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    assert set(kind_names()) <= set(fields(form)["kind"]["attributes"]["options"])
