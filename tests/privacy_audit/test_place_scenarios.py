"""Lives at places in mode `window`: one block each, so that a device answers once in each."""

import numpy as np
import pytest

from privacy_audit.black_box import answers
from privacy_audit.black_box.attacks import attack
from privacy_audit.black_box.lives import Life, SeenReport
from privacy_audit.black_box.observations import features, observe
from privacy_audit.black_box.place_scenarios import place_scenarios
from privacy_audit.black_box.place_turns import turn_checks
from privacy_audit.black_box.sdk_client import SdkClient
from privacy_audit.black_box.trials import ClientSource, run_chunk
from rappor_core.calendar import period_number
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.file import parse_metrics
from tests.metric_texts import declaration

PLACES = {"grid": "square", "box": [0, 0, 4, 4], "rows": 4, "columns": 4, "levels": [0]}


@pytest.mark.parametrize("turn", ["fresh", "fixed"])
@pytest.mark.parametrize("hold", [0, 2])
def test_each_life_is_one_answer(turn: str, hold: int) -> None:
    text = declaration(
        "m", "location", **PLACES, slots=["night 22-6", "day 6-22"], mode="window", window=4,
        turn=turn, hold=hold, num_bits=8, num_cohorts=2, epsilon=2.0, max_reports=3,
    )  # fmt: skip
    file = parse_metrics(text)
    scenarios = list(place_scenarios(file.declared[0]))
    assert [one.name for one in scenarios] == [
        "two places, 1 report", "a place, or no fix, 1 report",
        "data in one half of a block or the other, 1 report",
    ]  # fmt: skip
    for one in scenarios:
        assert one.claim == file.declared[0].epsilon_one
        for steps in one.worlds:
            days = [day for day, _ in steps]
            if turn == "fresh":
                assert period_number("day", days[0]) % 4 == 0
            lives = [Life(bytes([seed]) * 32, steps) for seed in range(8)]
            assert [len(seen) for seen in SdkClient(file).record("m", lives)] == [1] * 8


@pytest.mark.parametrize("turn", ["fresh", "fixed"])
def test_a_held_place_is_the_expected_answer(turn: str) -> None:
    """With next to no noise two of 300 differ in fewer than one of a million runs."""
    text = declaration(
        "m", "location", **PLACES, slots=["night 22-6", "day 6-22"], mode="window", window=4,
        turn=turn, hold=2, num_bits=8, num_cohorts=2, epsilon=2.0, max_reports=3,
    )  # fmt: skip
    source = ClientSource(compiled_text(parse_metrics(text)))
    lived = answers.live(source, "m", 150, clear=True, upkeep=True)
    assert lived.total > 200
    assert lived.another <= 1
    assert lived.extra == 0


WINDOW = declaration(
    "m", "location", **PLACES, slots=["night 22-6", "day 6-22"], mode="window", window=4,
    turn="fresh", num_bits=8, num_cohorts=2, epsilon=1.0, max_reports=3,
)  # fmt: skip


@pytest.mark.long
def test_knowing_of_data_reaches_only_the_claim() -> None:
    """False alarms: one in a million. A report's bits tell of its half what epsilon allows."""
    file = parse_metrics(WINDOW)
    *_, halves = place_scenarios(file.declared[0])
    trials = run_chunk(ClientSource(compiled_text(file)), halves, 1_500)
    assert trials.wrong == 0
    found = attack(trials.features, trials.world, halves.claim, 1e-6, 0.5)
    assert found.p_value > 1e-6
    assert found.reached > 0.5 * halves.claim


def test_knowing_of_data_finds_dependent_days() -> None:
    """Each device answers with the same bits; in the half in which it has data."""
    file = parse_metrics(WINDOW)
    *_, halves = place_scenarios(file.declared[0])
    world = np.arange(1_500) % 2
    days = [steps[0 if one == 0 else -2][0] for one in world for steps in [halves.worlds[0]]]
    assert sum(day < halves.middle for day in days) == 750
    name = file.parts("m")[0].name
    seen = [[SeenReport(name, 0, day, b"\x01")] for day in days]
    observed = observe(file, halves, world, seen, [halves.values] * len(world))
    params = file.parts("m")[0].params
    found = attack(features(params, observed), world, halves.claim, 1e-6, 0.5)
    assert found.p_value < 1e-6


@pytest.mark.parametrize("turn", ["fresh", "fixed"])
def test_blocks_are_compared_where_fresh(turn: str) -> None:
    file = parse_metrics(WINDOW.replace('"fresh"', f'"{turn}"'))
    checks = list(turn_checks(ClientSource(compiled_text(file)), file.declared[0]))
    assert len(checks) == (turn == "fresh")
    for check in checks:
        assert check.p_value > 1e-6
        assert "pairs of blocks" in check.found
