"""Small forms of the published experiments, for tests."""

import pytest

from simulations.experiments import homepages, longitudinal, poisoning, processes


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Fewer candidates, settings and periods; nothing else changes."""
    patch.setattr(processes, "TAIL", 20)
    patch.setattr(processes, "ABSENT", 20)
    patch.setattr(homepages, "CANDIDATES", 120)
    patch.setattr(homepages, "HELD", 40)
    patch.setattr(homepages, "DISTRIBUTIONS", ("Zipf 1", "as the paper shows"))
    patch.setattr(longitudinal, "PERIODS", (1, 7))
    patch.setattr(longitudinal, "CROWD", 20)
    patch.setattr(poisoning, "FRACTIONS", (0.03,))
