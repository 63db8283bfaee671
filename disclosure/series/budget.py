"""A ledger of what releases of one data set have cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from disclosure.errors import BudgetError

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Charge:
    """The cost (epsilon, delta) of one release. Raises BudgetError unless epsilon > 0, 0 <=
    delta < 1."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Check."""
        if not (0 < self.epsilon < math.inf and 0 <= self.delta < 1):
            raise BudgetError(f"epsilon > 0 and 0 <= delta < 1 are needed, not {self}")


@dataclass
class BudgetLedger:
    """The privacy budget of one data set and what was spent of it. Charge before drawing noise.

    Charges add up (sequential composition). Charges to parts that share no person cost the largest
    of them (parallel composition).
    """

    limit: Charge
    entries: list[tuple[str, Charge]] = field(default_factory=list)

    @property
    def spent_epsilon(self) -> float:
        """Sum of all epsilons that were charged, nats."""
        return math.fsum(charge.epsilon for _, charge in self.entries)

    @property
    def spent_delta(self) -> float:
        """Sum of all deltas that were charged."""
        return math.fsum(charge.delta for _, charge in self.entries)

    def spend(self, purpose: str, charge: Charge) -> None:
        """Enter a charge. Raises BudgetError, and enters nothing, where the limit is passed."""
        epsilon = self.spent_epsilon + charge.epsilon
        delta = self.spent_delta + charge.delta
        over = epsilon > self.limit.epsilon * (1 + _ROUNDING)
        if over or delta > self.limit.delta * (1 + _ROUNDING):
            raise BudgetError(
                f"{purpose}: epsilon {epsilon:g} and delta {delta:g} in all would pass the limit "
                f"of {self.limit.epsilon:g} and {self.limit.delta:g}"
            )
        self.entries.append((purpose, charge))
