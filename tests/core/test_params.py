"""RapporParams: what is accepted, what is refused, and the way through a file."""

from typing import Any

import pytest

from rappor_core.errors import ParameterError
from rappor_core.params import RapporParams

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
