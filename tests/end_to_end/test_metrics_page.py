"""docs/metrics.md is the whole reference; and README's metric passes README's own check."""

import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from metric_design.review import check_metrics
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.discover_kind import DISCOVER
from rappor_core.metrics.file import _METRIC_KEYS, _TOP_KEYS, parse_metrics
from rappor_core.metrics.flow_kind import _KEYS as _FLOW_KEYS
from rappor_core.metrics.kinds import kind_names
from rappor_core.metrics.location_kind import _KEYS
from rappor_core.metrics.number_kind import _KEYS as _NUMBER_KEYS
from rappor_core.metrics.pair_kind import PAIR
from rappor_core.metrics.tables import NOISE_KEYS, SHAPE_KEYS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
README = (ROOT / "README.md").read_text()
TOML = re.compile(r"^```toml\n(.*?)^```", re.M | re.S)
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", re.M)
FIRST = TOML.findall(PAGE)[0]
TABLES = PAGE[PAGE.index("## Keys of the file") :]
TODAY = date(2026, 11, 22)


def rows() -> list[tuple[str, str, str]]:
    return [(row[0], row[1], row[2]) for row in ROW.findall(TABLES)]


def test_every_key_stands_in_one_table() -> None:
    keys = [key for key, _, _ in rows()]
    assert len(keys) == len(set(keys))
    own = _KEYS | _NUMBER_KEYS | _FLOW_KEYS | DISCOVER.keys | PAIR.keys
    assert set(keys) == _TOP_KEYS | _METRIC_KEYS | SHAPE_KEYS | NOISE_KEYS | own


def test_every_kind_has_an_example_that_passes() -> None:
    kinds = set()
    for text in TOML.findall(PAGE):
        file = parse_metrics(text)
        kinds |= {metric.kind for metric in file.declared}
        findings = list(check_metrics(file, today=TODAY, population=1_000_000))
        assert not [f for f in findings if f.level == "error"]
    assert kinds == set(kind_names())


def example(name: str) -> str:
    """The page's first example with this word."""
    return next(text for text in TOML.findall(PAGE) if name in text)


def table(text: str, name: str) -> str:
    """One [metrics.NAME] table of a file."""
    found = re.search(rf"^\[metrics\.{name}\].*?(?=^\[|\Z)", text, re.M | re.S)
    assert found
    return found[0]


@pytest.mark.parametrize(("key", "default"), [(k, d) for k, d, _ in rows() if d.startswith("`")])
def test_a_default_is_what_the_page_says(key: str, default: str) -> None:
    """With the default written out, the definition is the same as without the key."""
    literal = default.strip("`").split("`")[0]
    name, text = "homepage", FIRST
    if key in ("whole", "ask"):
        name = "startup"
    if key == "spread":
        name, text = "session_minutes", example("session_minutes")
    if key in ("slots", "encoding", "pairs", "max_gap_minutes", "turn", "hold"):
        name, text = "window_cell", example("window_cell")
    if key in DISCOVER.keys:
        name = "new_site"
    if key == "lag":
        name, text = "commute", example("commute")
    if key == "mechanism":
        name = "theme"  # which gives epsilons
    plain = re.sub(rf"^{key} = .*\n", "", table(text, name), flags=re.M)
    said = parse_metrics(f"{plain}{key} = {literal}\n")
    assert said == parse_metrics(plain)


@pytest.mark.parametrize("key", [k for k, d, _ in rows() if d == "required" and k != "metrics"])
def test_a_required_key_is_required(key: str) -> None:
    text = table(FIRST, "homepage")
    if key in ("grid", "box", "levels", "mode"):
        text = table(example("window_cell"), "window_cell")
    if key in ("unit", "of_period", "edges", "none"):
        text = table(FIRST, "startup")
    if key in ("from", "to", "bands_km"):
        text = example("commute")
    if key in PAIR.keys:
        text = table(FIRST, "theme_crashed")
    with pytest.raises(MetricsFileError, match=key):
        parse_metrics(re.sub(rf"^{key} = .*\n", "", text, flags=re.M))


def test_the_readmes_metric_passes_the_readmes_check() -> None:
    """No finding at all, with the population of README's own command."""
    command = re.search(r"^rappor metrics check .*", README, re.M)
    (text,) = TOML.findall(README)
    assert command
    words = shlex.split(command[0])
    population = int(words[words.index("--population") + 1])
    assert list(check_metrics(parse_metrics(text), today=TODAY, population=population)) == []
