"""A metric with a list of values: a bit is a value by its name, whatever list is given."""

from datetime import date

import numpy as np
import pytest

from decoder import Candidates, decode, metric_candidates
from decoder.errors import CandidatesError
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration

TOML = declaration(
    "theme", "category", categories=["light", "dark", "none"], epsilon_infinity=3.0,
    epsilon_one=2.0, max_memoized_values=3,
) + declaration(
    "crashed", "boolean", epsilon_infinity=3.0, epsilon_one=2.0,
)  # fmt: skip
CELLS = declaration(
    "places", "location", owner="maps@example.org", expires="2099-12-31", grid="quadkey",
    box=[42.0, -72.8, 42.5, -72.4], levels=[13], period="week", mode="memo", num_bits=16,
    num_cohorts=1, mechanism="l-osue", epsilon_infinity=1.0, epsilon_one=0.75,
    max_memoized_values=3, no_data="no_data",
)  # fmt: skip
SHARES = {"theme": (0.7, 0.25, 0.05), "crashed": (0.03,)}


def aggregate_of(name: str) -> Aggregate:
    metric = parse_metrics(TOML).metrics[name]
    rng, total = np.random.default_rng(1), 100_000
    q, p = metric.params.q_star, metric.params.p_star
    held = [round(total * share) for share in SHARES[name]]
    counts = [rng.binomial(h, q) + rng.binomial(total - h, p) for h in held]
    return Aggregate(
        name,
        metric.params,
        (total,),
        (tuple(map(int, counts)),),
        metric.params_id,
        date(2026, 1, 1),
        date(2026, 1, 1),
        metric.to_dict(),
    )


@pytest.mark.parametrize("listed", [["none", "dark", "light"], ["dark"], ["light", "dark", "none"]])
def test_the_order_of_a_list_moves_no_estimate(listed: list[str]) -> None:
    aggregate = aggregate_of("theme")
    decoding = decode(aggregate, Candidates.from_strings(listed))
    estimates = dict(
        zip(decoding.candidates.values, decoding.candidates.estimate.tolist(), strict=True)
    )
    assert estimates["light"] == pytest.approx(0.7, abs=0.02)
    assert estimates["dark"] == pytest.approx(0.25, abs=0.02)
    own = decode(aggregate, metric_candidates(aggregate))
    assert decoding.candidates.estimate.tolist() == own.candidates.estimate.tolist()


def test_false_before_true_does_not_swap_them() -> None:
    decoding = decode(aggregate_of("crashed"), Candidates.from_strings(["false", "true"]))
    estimates = dict(
        zip(decoding.candidates.values, decoding.candidates.estimate.tolist(), strict=True)
    )
    assert estimates["true"] == pytest.approx(0.03, abs=0.02)
    assert estimates["false"] == pytest.approx(0.97, abs=0.02)


@pytest.mark.parametrize(("name", "value"), [("theme", "blue"), ("crashed", "yes")])
def test_a_candidate_of_no_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(CandidatesError, match=f"'{value}' is not a value of metric '{name}'"):
        decode(aggregate_of(name), Candidates.from_strings([value]))


def test_values_that_are_no_cells_are_known() -> None:
    """Of a category, `other` is one of the values."""
    places = parse_metrics(CELLS).metrics["places/day/13"]
    counts = Aggregate("places/day/13", places.params, (10,), ((1,) * places.params.num_bits,),
                       places.params_id, None, None, places.to_dict())  # fmt: skip
    found = metric_candidates(counts)
    assert found.values[-2:] == [b"other", b"no_data"]
    assert found.reserved == 2
    assert metric_candidates(aggregate_of("theme")).reserved == 0


@pytest.mark.parametrize("reserved", [-1, 2, 99])
def test_reserved_values_leave_a_list(reserved: int) -> None:
    with pytest.raises(CandidatesError, match=f"reserved = {reserved} of 2 candidates"):
        Candidates([b"a", b"b"], reserved=reserved)
