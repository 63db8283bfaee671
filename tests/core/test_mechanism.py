"""The two rounds of the mechanism, by enumeration and by vectors that never change."""

import math
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams


@pytest.mark.parametrize(("f", "p", "q"), [(0.5, 0.5, 0.75), (0.75, 0.5, 0.75), (0.25, 0.2, 0.9)])
def test_report_probabilities_are_those_of_the_paper(f: float, p: float, q: float) -> None:
    mechanism = TwoRoundMechanism.rappor(f, p, q)
    assert mechanism.q_star == pytest.approx(f * (p + q) / 2 + (1 - f) * q, abs=4e-5)
    assert mechanism.p_star == pytest.approx(f * (p + q) / 2 + (1 - f) * p, abs=4e-5)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, "0.5", True, None])
def test_an_impossible_probability_is_refused_by_value(value: object) -> None:
    with pytest.raises(ParameterError, match="prob_p") as caught:
        TwoRoundMechanism.rappor(0.5, value, 0.75)  # type: ignore[arg-type]
    assert repr(value) in str(caught.value)


def test_a_permanent_round_that_inverts_is_refused() -> None:
    with pytest.raises(ParameterError, match="swap"):
        TwoRoundMechanism(p1=1, q1=2, p2=3, q2=4)


epsilons = st.tuples(st.floats(0.05, 8), st.floats(0.05, 0.9)).map(lambda t: (t[0], t[0] * t[1]))


@given(epsilons)
def test_solved_rounds_keep_both_promises_and_come_close(pair: tuple[float, float]) -> None:
    infinity, one = pair
    for make in (TwoRoundMechanism.symmetric, TwoRoundMechanism.optimized):
        mechanism = make(infinity, one)
        got = (
            RapporParams(16, 1, 1, mechanism).epsilon_infinity,
            RapporParams(16, 1, 1, mechanism).epsilon_one,
        )
        assert got[0] <= infinity * (1 + 1e-12)
        assert got[1] <= one * (1 + 1e-12)
        assert got == pytest.approx((infinity, one), rel=0.02, abs=0.005)


def test_optimized_reports_a_held_bit_with_one_half() -> None:
    assert TwoRoundMechanism.optimized(3, 1).q_star == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("pair", [(1, 1), (1, 2), (math.inf, 1), (1, 0), (1, -1), (math.nan, 1)])
def test_epsilons_that_no_rounds_can_have_are_refused(pair: tuple[float, float]) -> None:
    with pytest.raises(ParameterError, match="epsilon_one"):
        TwoRoundMechanism.symmetric(*pair)


GOOD: dict[str, Any] = {"num_bits": 128, "num_hashes": 2, "num_cohorts": 16}
GOOD |= {"prob_f": 0.5, "prob_p": 0.5, "prob_q": 0.75}


def test_the_papers_names_come_back() -> None:
    params = RapporParams.rappor(**GOOD)
    assert (params.prob_f, params.prob_p, params.prob_q) == (0.5, 0.5, 0.75)
    assert params.report_bytes == 16


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"num_bits": 0}, "num_bits = 0"),
        ({"num_bits": True}, "num_bits = True"),
        ({"num_hashes": 0}, "num_hashes = 0"),
        ({"num_cohorts": 65_537}, "num_cohorts = 65537"),
        ({"hash": "sha1"}, "hash = 'sha1'"),
        ({"hash": "md5", "num_bits": 257}, "not 257"),
        ({"encoding": "tree"}, "encoding = 'tree'"),
        ({"encoding": "one_hot"}, "num_hashes = 2"),
        ({"prob_f": 1.5}, "prob_f = 1.5"),
    ],
)
def test_bad_parameters_are_named(changes: dict[str, Any], names: str) -> None:
    with pytest.raises(ParameterError) as caught:
        RapporParams.rappor(**(GOOD | changes))
    assert names in str(caught.value)


VECTORS = Path(__file__).parents[1] / "vectors"


def test_the_vectors_of_version_1_never_change() -> None:
    """Rename nothing in them; a new kind of metric adds a file, and a line to `v1.sha256`."""
    lines = (VECTORS / "v1.sha256").read_text().splitlines()
    stored = {name: digest for digest, name in (line.split() for line in lines)}
    files = (VECTORS / "v1").glob("*.json")
    assert {one.name: sha256(one.read_bytes()).hexdigest() for one in files} == stored
