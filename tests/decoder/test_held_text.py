"""What is said below a map of held answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from decoder.output.density_text import held_text, promise_text
from simulations.location.held_maps import Setting


def test_maps_of_held_answers_name_their_days() -> None:
    held: Any = SimpleNamespace(metric=Setting("weeks", "window", 4, 1_000, 2.0).metric())
    plain: Any = SimpleNamespace(metric=Setting("weeks", "window, no hold", 4, 1_000, 2.0).metric())
    assert "last seen, within 4 weeks of their answer" in held_text(held)
    assert "changes lag by up to 4 weeks" in promise_text(held)
    assert held_text(plain) == ""
    assert promise_text(plain).startswith("Each device added")
