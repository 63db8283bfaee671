"""The person's own choice of privacy, which can be stricter than the app's declaration and never
weaker."""

from __future__ import annotations

import math

from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen


class PrivacyLevel(Frozen):
    """A person's own bounds, which apply beside the app's: the smaller one holds.

    max_values: memoised values of a metric for life, the fallback among them.
    max_reports_per_period: reports of a metric in its period.
    max_epsilon: nats for this device, over all metrics and for life.

    Raises ParameterError for a bound that is not a positive number.
    """

    max_values: float = math.inf
    max_reports_per_period: float = math.inf
    max_epsilon: float = math.inf

    def __post_init__(self) -> None:
        """Check each bound."""
        for name, bound in self.to_fields().items():
            if type(bound) not in (int, float) or not bound > 0:
                raise ParameterError(f"{name} = {shown(bound)} is not a number above 0")

    @classmethod
    def of(cls, choice: str | PrivacyLevel) -> PrivacyLevel:
        """`standard` is the app's declaration; `strict` one value besides the fallback.

        Raises ParameterError for another name.
        """
        level = NAMED.get(choice) if isinstance(choice, str) else choice
        if level is None:
            raise ParameterError(
                f"privacy_level = {choice!r} is not one of {', '.join(NAMED)}, nor a PrivacyLevel"
            )
        return level


NAMED = {
    "standard": PrivacyLevel(),
    "strict": PrivacyLevel(max_values=2, max_reports_per_period=1),
}
