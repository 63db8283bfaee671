"""`Check`: a tested claim, the finding, and the smallest fault that the test would detect.

A claim that held is meaningless without this smallest fault, which is printed next to it. The fault
is detected with probability `POWER` at the level of each test, which is known once an audit knows
the number of tests.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from privacy_audit.black_box.attacks import AttackResult
from privacy_audit.black_box.bounds import POWER

Method = Literal["attack", "test", "exact"]
Verdict = Literal["held", "broken", "not tested"]


Smallest = Callable[[float], str]  # maps a level to the smallest detected fault as text; "" if none


def all_of(what: str) -> Smallest:
    """Return `what` as the smallest detected fault at every level, for a check of all cases."""
    return lambda _: what


def one_of(number: float, what: str, chance: float = 0.0) -> Smallest:
    """Describe the smallest fault that counting faults in `number` observations detects.

    Honest observations look faulty with probability `chance`. Returns "" if `number` is 0.
    """

    def text(level: float) -> str:
        rate = share(int(number), chance, level)
        return f"a fault in 1 of {1 / rate:,.0f} {what}" if rate < 1 else ""

    return text


def shifted(spread: float, what: str, among: int = 1) -> Smallest:
    """Return the smallest detected shift of one of `among` means with standard error `spread`."""
    return lambda level: f"{shift(float(spread), level / among):.2g} {what}"


def chance_off(chance: float, number: float, what: str = "of a chance", among: int = 1) -> Smallest:
    """Return the smallest detected error of a probability tested on `number` observations."""
    if number < 1:
        return all_of("")
    return shifted(math.sqrt(chance * (1 - chance) / number), what, among)


def bits_off(chance: float, totals: NDArray[Any], tests: int) -> Smallest:
    """Return the smallest detected errors in the probability of all bits, and of one bit.

    Args:
        chance: The probability that a bit is 1.
        totals: The number of observations of each bit.
        tests: The number of such tests, for which the level is corrected.
    """
    used = totals[totals > 0]
    if not len(used):
        return all_of("")
    together = chance_off(chance, float(used.sum()), "of the chance of all bits", 2 * tests)
    alone = chance_off(chance, float(used.min()), "of one bit's chance", 2 * tests * len(used))
    return lambda level: f"{together(level)} and {alone(level)}"


def correlated(number: float, among: int = 1) -> Smallest:
    """Return the smallest correlation that a test of `number` pairs detects."""
    return shifted(1 / math.sqrt(number), "of correlation", among) if number >= 1 else all_of("")


def shift(spread: float, level: float) -> float:
    """Return the deviation of a mean that a two-sided test detects with probability `POWER`."""
    return spread * float(stats.norm.isf(level / 2) + stats.norm.isf(1 - POWER))


def share(number: int, chance: float, level: float) -> float:
    """Return the fraction of observations that must be faulty for a test to detect the fault.

    Honest observations look faulty with probability `chance`. Returns 1 if no fraction suffices.
    """
    if number < 1:
        return 1.0
    needed = 1 if not chance else int(stats.binom.isf(level / 2, number, chance)) + 1
    if needed > number:
        return 1.0
    rates = np.geomspace(1e-9, 1.0, 2_000)
    enough = np.asarray(stats.binom.sf(needed - 1, number, chance + (1 - chance) * rates) >= POWER)
    return float(rates[int(np.argmax(enough))]) if enough.any() else 1.0


@dataclass(frozen=True)
class Check:
    """A tested claim about a metric or the client, with the evidence against it."""

    metric: str  # the name, or "" if the claim is about the client
    what: str  # the claim, as text
    part: str  # the part of the audit (`audit.PARTS`)
    method: Method  # `attack` (lower bound of epsilon), `test` (two-sided), or `exact`
    p_value: float  # 0 or 1 if `exact`
    found: str  # the finding, as text
    smallest: Smallest | None = None  # the smallest detected fault, except for attacks
    claim: float | None = None  # nats, for attacks
    attack: AttackResult | None = None  # the result of an attack

    def broken(self, level: float) -> bool:
        """Return whether the claim is rejected at this level."""
        return self.p_value < level

    def verdict(self, level: float) -> Verdict:
        """Return "broken", "held", or "not tested" if no fault could have broken the claim."""
        if self.broken(level):
            return "broken"
        return "held" if self.finds(level) else "not tested"

    def finds(self, level: float) -> str:
        """Return the smallest fault that this check detects with probability .95, or "" if none."""
        if self.attack is not None:
            if not self.attack.guesses or math.isinf(self.attack.needed):
                return ""
            return f"{self.attack.needed:.3f} nats in this attack"
        return "" if self.smallest is None else self.smallest(level)

    @property
    def share(self) -> float | None:
        """Return the lower bound as a fraction of the claim; None if the claim is 0."""
        return self.attack.bound / self.claim if self.attack and self.claim else None

    def to_dict(self, level: float) -> dict[str, Any]:
        """Return the check as plain values, for JSON."""
        fields = {name: value for name, value in asdict(self).items() if name != "smallest"}
        return {
            **fields, "share_of_claim": self.share, "broken": self.broken(level),
            "verdict": self.verdict(level), "smallest_fault_found": self.finds(level),
        }  # fmt: skip


def exact(metric: str, what: str, part: str, wrong: str, smallest: Smallest | None = None) -> Check:
    """Return a check without randomness; `wrong` states what contradicts the claim, or is ""."""
    p_value = 0.0 if wrong else 1.0
    return Check(metric, what, part, "exact", p_value, wrong or "as declared", smallest)


def counted(
    metric: str, what: str, part: str, wrong: int, finding: str, number: int, noun: str
) -> Check:
    """Return an exact check that none of `number` things (`noun`) is wrong.

    `finding` is the text if any is wrong.
    """
    return exact(metric, what, part, finding if wrong else "", one_of(number, noun))


def test(
    metric: str,
    what: str,
    part: str,
    p_value: float,
    finding: str,
    smallest: Smallest | None = None,  # noqa: PT028 (not a test of pytest)
) -> Check:
    """Return a check from a two-sided test of a probability."""
    return Check(metric, what, part, "test", min(1.0, float(p_value)), finding, smallest)
