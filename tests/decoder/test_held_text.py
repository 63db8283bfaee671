"""What is said below a map of held answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from decoder.output.density_text import held_text, promise_text
from tests.map_draws import square_metric

WINDOW = """period = "week"
num_cohorts = 64
mode = "window"
window = 48
turn = "fresh"
max_reports = 1
num_bits = 32
epsilon = 2.0
"""


def test_maps_of_held_answers_name_their_days() -> None:
    held: Any = SimpleNamespace(metric=square_metric(4, WINDOW + "hold = 4\n"))
    plain: Any = SimpleNamespace(metric=square_metric(4, WINDOW))
    assert "last seen, within 4 weeks of their answer" in held_text(held)
    assert "changes lag by up to 4 weeks" in promise_text(held)
    assert held_text(plain) == ""
    assert promise_text(plain).startswith("Each device added")
