"""What the person chose: stricter than the app's declaration, never weaker."""

from __future__ import annotations

import math
from typing import NamedTuple

from rappor_core.errors import ParameterError


class PrivacyLevel(NamedTuple):
    """Bounds of the person's own, each taken together with the app's: the smaller one holds.

    max_values: memoised values of a metric for life, the fallback among them.
    max_reports_per_period: reports of a metric in its period.
    max_epsilon: nats for this device, over all metrics and for life.
    """

    max_values: float = math.inf
    max_reports_per_period: float = math.inf
    max_epsilon: float = math.inf

    @classmethod
    def of(cls, choice: str | PrivacyLevel) -> PrivacyLevel:
        """`standard` is the app's declaration; `strict` one value besides the fallback.

        Raises ParameterError for another name, and for a bound that is not positive.
        """
        level = NAMED.get(choice) if isinstance(choice, str) else choice
        if level is None:
            raise ParameterError(
                f"privacy_level = {choice!r} is not one of {', '.join(NAMED)}, nor a PrivacyLevel"
            )
        if not all(bound > 0 for bound in level):
            raise ParameterError(f"privacy_level = {level!r}: each bound must be above 0")
        return level


NAMED = {
    "standard": PrivacyLevel(),
    "strict": PrivacyLevel(max_values=2, max_reports_per_period=1),
}
