"""`rappor metrics label`: golden files, and what must change with a declaration."""

import plistlib
from pathlib import Path

import pytest

from metric_design.store_labels import data_types, store_answers
from rappor_cli.main import main
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration

GOLDEN = Path(__file__).with_name("label")
NATS = {"epsilon_infinity": 2.0, "epsilon_one": 1.0}
PLACE = {
    "grid": "quadkey", "box": [42.2, -72.7, 42.4, -72.5], "slots": ["night 22-6"], "mode": "window",
    "window": 7, "turn": "fresh", "hold": 2, "epsilon": 2.0, "max_reports": 4, "num_bits": 32,
    "num_cohorts": 64,
}  # fmt: skip
METRICS = (
    declaration(
        "usual_place", "location", description="Where nights are spent", levels=[12], **PLACE
    )
    + declaration("crashed", "boolean", description="Whether the app crashed.", **NATS)
    + declaration("theme", "category", categories=["light", "dark"], max_memoized_values=2, **NATS)
    + declaration(
        "site",
        "boolean",
        platforms=["web"],
        lives=2,
        max_reports=3,
        description="In a page",
        **NATS,
    )
)


def test_the_files_are_the_golden_ones(tmp_path: Path) -> None:
    """A difference here is what an owner of an app would answer to a store."""
    (tmp_path / "metrics.toml").write_text(METRICS)
    assert main(["metrics", "label", str(tmp_path / "metrics.toml"), "-o", str(tmp_path)]) == 0
    for name in ("PrivacyInfo.xcprivacy", "stores.md"):
        assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes(), name
    result = plistlib.loads((tmp_path / "PrivacyInfo.xcprivacy").read_bytes())
    named = [
        row["NSPrivacyCollectedDataType"][26:] for row in result["NSPrivacyCollectedDataTypes"]
    ]
    assert named == ["CoarseLocation", "OtherUsageData"]
    assert "site" not in (tmp_path / "stores.md").read_text()  # it runs in browsers alone


@pytest.mark.parametrize(
    ("level", "apple", "google"),
    [(12, "Coarse", "Approximate"), (15, "Coarse", "Precise"), (20, "Precise", "Precise")],
)
def test_small_cells_are_precise(level: int, apple: str, google: str) -> None:
    text = declaration("place", "location", levels=[level], **PLACE)
    (metric,) = parse_metrics(text).metrics.values()
    types = data_types(metric)
    assert (types.identifier, types.google) == (f"{apple}Location", f"Location: {google} location")
    assert f"| Location: {apple} Location | analytics | no | no | place |" in store_answers(
        [metric]
    )


def test_a_file_for_browsers_alone_is_refused(tmp_path: Path, capsys) -> None:
    text = declaration("site", "boolean", platforms=["web"], lives=2, max_reports=3, **NATS)
    (tmp_path / "metrics.toml").write_text(text)
    assert main(["metrics", "label", str(tmp_path / "metrics.toml"), "-o", str(tmp_path)]) == 2
    assert "runs in an app" in " ".join(capsys.readouterr().err.split())
