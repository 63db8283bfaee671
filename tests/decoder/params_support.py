"""Parameters of RAPPOR in a line."""

from typing import Any

from rappor_core.params import RapporParams


def rappor(
    num_bits: int, num_hashes: int, num_cohorts: int, f: float, p: float, q: float, **more: Any
) -> RapporParams:
    """k, h, m and the rounds f, p, q; more: encoding, hash."""
    return RapporParams.rappor(
        num_bits=num_bits, num_hashes=num_hashes, num_cohorts=num_cohorts,
        prob_f=f, prob_p=p, prob_q=q, **more,
    )  # fmt: skip
