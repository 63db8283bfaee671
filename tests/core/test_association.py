"""Associations in metrics.toml: what is refused, what is compiled, and what a reviewer is told."""

from __future__ import annotations

import json
from datetime import date

import pytest

from metric_design.review import check_metrics
from metric_design.typescript import typescript_text
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled_text, read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.groups import public_groups
from tests.association_support import TEXT, linked_file

DAY = date(2026, 11, 21)
SHAPE = "num_bits = 12\nnum_hashes = 2\nnum_cohorts = 4"
WEB = 'platforms = ["app", "web"]\nlives = 3\nmax_reports = 1'


def test_the_file_and_its_compiled_form_are_one() -> None:
    file = linked_file()
    assert [one.of for one in file.associations] == [("homepage", "engine"), ("theme", "crashed")]
    assert read_compiled(compiled_text(file)) == file
    assert parse_metrics(TEXT) == file


def test_a_file_without_associations_is_compiled_as_ever() -> None:
    file = parse_metrics(TEXT.partition("[associations.")[0])
    assert set(json.loads(compiled_text(file))) == {"version", "budget", "metrics", "digest"}
    assert file.associations == ()
    assert all(metric.cohort_with is None for metric in file.metrics.values())


def test_the_metrics_mean_what_they_did() -> None:
    alone = parse_metrics(TEXT.partition("[associations.")[0])
    for name, metric in linked_file().metrics.items():
        assert metric.params_id == alone.metrics[name].params_id
    one, other = linked_file().associations
    assert one.params_id != other.params_id
    assert one.params_id == one.replace(description="other words").params_id
    again = linked_file(**{"num_bits = 12": "num_bits = 10"}).associations[0]
    assert again.params_id != one.params_id


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('of = ["theme", "crashed"]', 'of = ["theme", "theme"]', "names one metric twice"),
        ('of = ["theme", "crashed"]', 'of = ["theme"]', "is not two names"),
        ('of = ["theme", "crashed"]', 'of = ["theme", "gone"]', "'gone' is not declared"),
        ('of = ["theme", "crashed"]', 'of = ["homepage", "theme"]', "association 'home_engine'"),
        ('of = ["theme", "crashed"]', "of = 3", "is not two names"),
        ("[associations.theme_crashed]", "[associations.theme]", "a metric has this name"),
        ("[associations.theme_crashed]", "[associations.Theme]", "use a lower-case letter"),
        ('description = "Whether dark', 'colour = "Whether dark', "unknown keys: 'colour'"),
        ('description = "Whether dark colours crash"', 'description = " "', "is empty"),
        (SHAPE, SHAPE.replace("num_cohorts = 4", "num_cohorts = 8"), "num_cohorts = 4 and 8"),
        ('kind = "boolean"', 'kind = "boolean"\nperiod = "week"', "period = 'day' and 'week'"),
        ('kind = "boolean"', 'kind = "boolean"\nmax_reports_per_period = 2',
         "max_reports_per_period = 2: one is linked"),
        ("num_bits = 12", "num_bits = 4000", "16,384 are counted"),
        ('kind = "boolean"', f'kind = "boolean"\n{WEB}', "platforms other than 'app'"),
    ],
)  # fmt: skip
def test_what_cannot_be_linked_is_refused_by_name(before: str, after: str, said: str) -> None:
    assert before in TEXT
    with pytest.raises(MetricsFileError, match=said) as caught:
        parse_metrics(TEXT.replace(before, after))
    assert "associat" in str(caught.value)


def test_metrics_of_other_kinds_are_not_linked() -> None:
    place = """
[metrics.memory]
kind = "number"
description = "Memory"
owner = "q@example.org"
expires = 2099-06-30
unit = "MB"
of_period = "mean"
edges = [1, 2, 5]
none = "apart"
mode = "memo"
epsilon_infinity = 2.0
epsilon_one = 1.0
"""
    text = TEXT.replace('of = ["theme", "crashed"]', 'of = ["theme", "memory"]') + place
    with pytest.raises(MetricsFileError, match="strings, categories and booleans are"):
        parse_metrics(text)


@pytest.mark.parametrize("change", ["null", "[]", "drop", "params_id", "of", "cohort"])
def test_a_compiled_file_that_was_changed_is_refused(change: str) -> None:
    document = json.loads(compiled_text(linked_file()))
    first = document["associations"][0]
    if change == "null":
        document["associations"] = None
    elif change == "[]":
        document["associations"] = []
    elif change == "drop":
        del document["associations"]
    elif change == "params_id":
        first["params_id"] = "0" * 32
    elif change == "of":
        first["definition"]["of"].reverse()
    else:
        del document["metrics"][1]["definition"]["cohort_with"]
    with pytest.raises(MetricsFileError):
        read_compiled(json.dumps(document))


def test_a_shared_cohort_is_published_once() -> None:
    file = linked_file()
    assert public_groups(file.metrics["homepage"]) == 4
    assert public_groups(file.metrics["engine"]) == 1


def test_check_counts_the_bits_of_both_metrics() -> None:
    """The bits of each alone are few enough for the crowd; those of both are not."""
    file = linked_file(**{"num_bits = 16": "num_bits = 14", "prob_f = 0.25": "prob_f = 0.5"})
    found = list(check_metrics(file, today=DAY, population=20_000))
    mine = [one for one in found if one.metric == "home_engine"]
    assert any("no more epsilon than both cost" in one.message for one in mine)
    assert any("26 bits of one device at once" in one.message for one in mine)
    (warning,) = [one for one in mine if one.level == "warning" and "permanent" in one.message]
    assert "about 21 bits that tell devices apart (11 and 10)" in warning.message
    alone = [one for one in found if one.metric in ("homepage", "engine")]
    assert not any("long series" in one.message for one in alone)
    assert any("charged for the same values once more" in one.message for one in mine)
    few = list(check_metrics(file, today=DAY, population=300))
    assert any("kind 'pair' tells more" in one.message for one in few)


def test_typescript_asks_for_the_linking_part() -> None:
    text = typescript_text(linked_file())
    assert "associations()" in text
    assert "rappor-telemetry-client/associations" in text
