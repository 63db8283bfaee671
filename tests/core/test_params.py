"""RapporParams: what is accepted, what is refused, and the way through a file."""

import math
from typing import Any

import pytest

from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams

GOOD: dict[str, Any] = {
    "num_bits": 128,
    "num_hashes": 2,
    "num_cohorts": 16,
    "prob_f": 0.5,
    "prob_p": 0.5,
    "prob_q": 0.75,
}


def test_the_papers_names_come_back() -> None:
    params = RapporParams.rappor(**GOOD)
    assert (params.prob_f, params.prob_p, params.prob_q) == (0.5, 0.5, 0.75)
    assert params.epsilon_infinity == pytest.approx(4.394, abs=5e-4)
    assert params.epsilon_one == pytest.approx(1.074, abs=5e-4)
    assert params.epsilon_n(10**6) == pytest.approx(params.epsilon_infinity)
    assert params.report_bytes == 16


def test_through_a_dict_and_back() -> None:
    for encoding, bits, hashes in (("bloom", 128, 2), ("one_hot", 9, 1), ("boolean", 1, 1)):
        changes = {"encoding": encoding, "num_bits": bits, "num_hashes": hashes}
        params = RapporParams.rappor(**(GOOD | changes))
        assert RapporParams.from_dict(params.to_dict()) == params


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


def test_missing_or_unknown_fields_are_refused() -> None:
    fields = RapporParams.rappor(**GOOD).to_dict()
    with pytest.raises(ParameterError, match="'salt'"):
        RapporParams.from_dict(fields | {"salt": 1})
    del fields["p1"]
    with pytest.raises(ParameterError, match="'p1'"):
        RapporParams.from_dict(fields)


def test_an_asymmetric_first_round_has_no_f() -> None:
    params = RapporParams(32, 1, 8, TwoRoundMechanism.optimized(2, 1))
    with pytest.raises(ParameterError, match="prob_f"):
        _ = params.prob_f
    assert math.isfinite(params.epsilon_infinity)
