"""The public dictionary: what it says of each metric, and that what it says is true."""

from datetime import date

import pytest

from metric_design.dictionary import entries_of
from rappor_cli.main import main
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.kinds import KINDS
from tests.kinds.worlds import DECLARED as WORLDS
from tests.metric_texts import declaration

FOR_YEARS = {"expires": "2099-12-31"}
MEMO = {"epsilon_infinity": 2.0, "epsilon_one": 1.0}
DECLARED = (
    declaration(
        "seen", "boolean", description="Whether <i>help</i> was opened", **FOR_YEARS, **MEMO,
        max_memoized_values=2,
    )
    + declaration(
        "old", "category", description="The theme", owner="themes@example.org",
        expires="2020-01-31", categories=["light", "dark"], epsilon_infinity=3.0, epsilon_one=1.0,
        max_memoized_values=2, fallback="light",
    )
    + WORLDS["location"]
)  # fmt: skip


ASKED = "".join(WORLDS[kind] for kind in ("number", "pair", "discover", "flow")) + declaration(
    "crashes", "number", **FOR_YEARS, unit="crashes", of_period="sum", edges=[1, 2.5, 10],
    none="zero", mode="once", epsilon=2.0,
)  # fmt: skip


def test_metrics_without_lists_are_said_in_words() -> None:
    file = parse_metrics(ASKED)
    said = {entry.name: entry for entry in entries_of(file.declared, date(2026, 11, 22))}
    assert "the sum of a day, in crashes" in said["crashes"].what
    assert said["crashes"].answers == ("1", "2.5", "10")
    assert said["theme_crashed"].what.startswith("two answers as one: theme (dark, ")
    for metric in file.declared:  # one report for life: it bounds all, whatever it repeats
        if metric.max_reports == 1:
            entry = said[metric.base_name]
            assert entry.value == entry.life == metric.epsilon_one


def test_every_kind_is_said_in_words() -> None:
    for entry in entries_of(parse_metrics("".join(WORLDS.values())).declared, date(2026, 11, 22)):
        assert entry.what not in KINDS


def test_an_entry_says_what_is_declared() -> None:
    entries = entries_of(parse_metrics(DECLARED).metrics.values(), date(2026, 11, 22))
    assert [entry.name for entry in entries] == ["old", "places", "seen"]
    old, places, seen = entries
    assert (old.over, seen.over) == (True, False)
    assert old.answers == ("light", "dark")
    assert seen.once == pytest.approx(1.0, abs=0.01)
    assert places.what == "the area where the device usually is"


def test_the_site_is_one_page_that_loads_nothing(tmp_path, capsys) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(DECLARED)
    site = tmp_path / "site"
    command = ["metrics", "publish", str(file), "-o", str(site), "--contact", "<b>us</b>"]
    assert main(command) == 0
    assert "3 metrics" in capsys.readouterr().out
    page = (site / "index.html").read_text(encoding="utf-8")
    for words in ("&lt;i&gt;help", "themes@example.org", "&lt;b&gt;us", "2099-12-31"):
        assert words in page, words
    assert "://" not in page
    assert "<script" not in page
