"""Errors that are predicted of kinds without a list; all: `rappor simulate plan --of kinds`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rappor_cli.main import main
from simulations.experiments.plan_kinds import check_kind, drawn_map, kind_cases
from simulations.experiments.plan_lists import list_cases


def test_two_settings_or_more_of_each_kind() -> None:
    kinds = [case.table["kind"] for case in kind_cases()]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "number": 4, "location": 2, "flow": 2, "discover": 2,
    }  # fmt: skip
    assert len(list_cases()) == 10


@pytest.mark.long
def test_the_error_of_a_curve_is_predicted() -> None:
    """By 60 windows within 4 standard errors of the seen one: a false alarm in 15,000 runs."""
    (found,) = check_kind(kind_cases()[2], 3, np.random.default_rng(7))
    assert found.quantity == "standard error of a share of one half"
    assert abs(found.seen - found.predicted) < 4 * found.error


@pytest.mark.long
def test_errors_of_means_are_predicted_from_above() -> None:
    (found,) = check_kind(kind_cases()[0], 3, np.random.default_rng(7))
    assert 1 < found.ratio < 2.5


def test_a_map_has_the_spread_of_the_prior() -> None:
    shares = drawn_map(13, np.random.default_rng(1))
    assert shares.sum() == pytest.approx(1)
    again = drawn_map(13, np.random.default_rng(1))
    assert (shares == again).all()
    assert 0.3 < float(np.abs(shares - 1 / 169).sum() / 2) < 0.95


def test_the_command_prints_predicted_and_seen(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "plan", "--of", "lists", "--first", "5", "--last", "5", "--runs", "3"]
    assert main([*words, "--seed", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["ratio"] == pytest.approx(row["predicted"] / row["seen"])
    assert main([*words, "--seed", "1"]) == 0
    assert "category of 12" in capsys.readouterr().out


def test_options_of_another_check_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "plan", "--of", "lists", "--drawn", "3"]) == 1
    assert "--drawn = 3 has no use for --of lists" in capsys.readouterr().err
    assert main(["simulate", "plan", "--of", "kinds", "--first", "5", "--last", "4"]) == 2
