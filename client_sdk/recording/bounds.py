"""The privacy budget with which a device began, in lifetime nats over all metrics.

The budget is stored when a client first opens the state, and stays in force regardless of what
later versions of the app declare. A smaller declaration lowers it permanently. Only a new consent
with the new number (`Client.set_consent(True, budget=...)`) replaces it with a larger budget.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from client_sdk.errors import StateError
from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen

if TYPE_CHECKING:
    from client_sdk.storage.sqlite import SqliteState

NAME = "budget"  # key in the table `meta`; the value is infinite if no budget was declared


def stored_budget(state: SqliteState) -> float | None:
    """Return the stored budget in nats: infinite if none was declared, None if not stored.

    Raises StateError if the stored value is invalid.
    """
    nats = state.get(NAME)
    if nats is not None and (type(nats) not in (int, float) or not nats > 0):
        raise StateError("the state's budget is damaged; call reset() to start over",
                         "state_corrupt")  # fmt: skip
    return None if nats is None else float(nats)


def store_budget(state: SqliteState, declared: float | None) -> None:
    """Store the declared budget if none is stored yet, or if it is smaller.

    Args:
        state: The state of the device. The budget is saved with the first response that it limits.
        declared: The nats, or None if unlimited.
    """
    nats = math.inf if declared is None else declared
    if not _lowers(state, nats):
        return
    with state.transaction():
        if _lowers(state, nats):
            state.put(NAME, float(nats))


def agree_budget(state: SqliteState, nats: float) -> None:
    """Replace the stored budget with one to which the user agreed. See `check_budget`."""
    state.put(NAME, float(nats))


def check_budget(nats: object, declared: float | None) -> float:
    """Check and return the budget to which, according to the app, the user agreed.

    Args:
        nats: The budget as passed by the app.
        declared: The budget in the metrics file in nats, or None if unlimited.

    Raises:
        ParameterError: The budget is not a positive number, or is above the declared budget.
    """
    if type(nats) not in (int, float) or not nats > 0:  # type: ignore[operator]
        raise ParameterError(f"budget = {shown(nats)} is not a positive number of nats")
    number = float(nats)  # type: ignore[arg-type]
    if declared is not None and number > declared:
        raise ParameterError(
            f"budget = {shown(nats)} is above the {declared:g} that the metrics file declares"
        )
    return number


def _lowers(state: SqliteState, nats: float) -> bool:
    stored = stored_budget(state)
    return stored is None or nats < stored


class PrivacyLevel(Frozen):
    """A user's own limits in addition to the app's limits; the smaller limit applies.

    Raises ParameterError if a limit is not a positive number.
    """

    # The maximum number of memoized values of a metric over the device's lifetime, including the
    # fallback.
    max_values: float = math.inf
    # The maximum number of reports of a metric in one of its periods.
    max_reports_per_period: float = math.inf
    max_epsilon: float = math.inf  # the lifetime nats for this device, over all metrics

    def __post_init__(self) -> None:
        for name, bound in self.to_fields().items():
            if type(bound) not in (int, float) or not bound > 0:
                raise ParameterError(f"{name} = {shown(bound)} is not a number above 0")

    @classmethod
    def of(cls, choice: str | PrivacyLevel) -> PrivacyLevel:
        """Return the level that is named `standard` or `strict`.

        `standard` is the app's declaration; `strict` allows one value in addition to the fallback.
        Raises ParameterError if the name is different.
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
