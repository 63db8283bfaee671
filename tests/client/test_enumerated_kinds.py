"""Numbers, pairs, flows and coded prefixes cost exactly what is declared."""

import itertools
from functools import partial

import pytest

from tests.client.enumerated_kinds import (
    NUMBERS,
    enumerate_kinds,
    life_chances,
    number_metric,
)
from tests.client.enumeration import TOLERANCE
from tests.client.exact_laws import (
    device_of_cohort,
    epsilon_of,
    permanent_chances,
    report_chances,
)


@pytest.mark.long
def test_every_kind_costs_what_is_declared() -> None:
    found = list(enumerate_kinds())
    assert max(one.error for one in found) < TOLERANCE
    kinds = "a number, g = 2", "a number, once", "a pair", "a flow", "a coded prefix"
    for kind in kinds:
        assert any(one.text.startswith(kind) for one in found), kind


def test_lives_of_other_crossings_are_not_covered() -> None:
    """The claim is of numbers, not of when they change: the table of docs/privacy.md needs this."""
    metric = number_metric()
    device = partial(device_of_cohort, metric, 0)
    first = {bits: permanent_chances(device, bits, 0) for bits in (1, 2)}
    second = {bits: report_chances(device, bits, 0) for bits in (1, 2)}
    lives = {
        life: life_chances(life, first, second) for life in itertools.product((1, 2), repeat=4)
    }
    worst = max(epsilon_of(a, b) for a, b in itertools.permutations(lives.values(), 2))
    assert worst > metric.lifetime_epsilon
    assert {device(bytes).value_bits(value) for value in NUMBERS} == {1, 2}
