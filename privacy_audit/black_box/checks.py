"""`Check`: a claim that was tested, what was found, and the smallest fault that it would find.

A claim that held says nothing without that fault, which is printed next to it: it is found with
probability `POWER` at the level of each test, known once an audit has all its tests.
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


Smallest = Callable[[float], str]  # the smallest fault found at a level, as text; "": none


def all_of(what: str) -> Smallest:
    """Return the power of a check that goes through all cases: it finds any fault."""
    return lambda _: what


def one_of(number: float, what: str, chance: float = 0.0) -> Smallest:
    """Return the power of a check that counts faulty ones among `number` observations, where honest
    ones look faulty with probability `chance`; with 0 it finds nothing."""

    def text(level: float) -> str:
        rate = share(int(number), chance, level)
        return f"a fault in 1 of {1 / rate:,.0f} {what}" if rate < 1 else ""

    return text


def shifted(spread: float, what: str, among: int = 1) -> Smallest:
    """Return the power of a test of a mean with this standard error, the worst of several."""
    return lambda level: f"{shift(float(spread), level / among):.2g} {what}"


def chance_off(chance: float, number: float, what: str = "of a chance", among: int = 1) -> Smallest:
    """The power of a test of a probability over `number` observations; with 0 it finds nothing."""
    if number < 1:
        return all_of("")
    return shifted(math.sqrt(chance * (1 - chance) / number), what, among)


def bits_off(chance: float, totals: NDArray[Any], tests: int) -> Smallest:
    """Return the power of a test of all bits together and of each alone.

    Args:
        chance: That a bit is 1.
        totals: How often each bit was seen.
        tests: Of how many such tests the worst counts.
    """
    used = totals[totals > 0]
    if not len(used):
        return all_of("")
    together = chance_off(chance, float(used.sum()), "of the chance of all bits", 2 * tests)
    alone = chance_off(chance, float(used.min()), "of one bit's chance", 2 * tests * len(used))
    return lambda level: f"{together(level)} and {alone(level)}"


def correlated(number: float, among: int = 1) -> Smallest:
    """Return the power of a test of a correlation over `number` pairs; with 0 it finds nothing."""
    return shifted(1 / math.sqrt(number), "of correlation", among) if number >= 1 else all_of("")


def shift(spread: float, level: float) -> float:
    """How far off a mean must be for a two-sided test to find it with probability `POWER`."""
    return spread * float(stats.norm.isf(level / 2) + stats.norm.isf(1 - POWER))


def share(number: int, chance: float, level: float) -> float:
    """Return the share of observations that must be faulty for a test to find it, when honest ones
    look faulty with probability `chance`; 1: none would do."""
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
    """A claim about one metric, with the evidence against it.

    metric: its name, or "" where it is about the client.  what: the claim, as text.
    part: of the audit (`report.PARTS`).  method: `attack` (a lower bound of epsilon against
        the claim), `test` (two-sided, of chances), `exact` (no chance in it).
    p_value: 0 or 1 where `exact`.  found: what was seen, as text.
    smallest: the fault that is found.  claim: nats, of attacks.  attack: what it reached.
    """

    metric: str
    what: str
    part: str
    method: Method
    p_value: float
    found: str
    smallest: Smallest | None = None
    claim: float | None = None
    attack: AttackResult | None = None

    def broken(self, level: float) -> bool:
        """Return whether the claim is rejected at this level."""
        return self.p_value < level

    def verdict(self, level: float) -> Verdict:
        """Return a claim that no fault could have broken in this run is not one that held."""
        if self.broken(level):
            return "broken"
        return "held" if self.finds(level) else "not tested"

    def finds(self, level: float) -> str:
        """The smallest fault that this check finds with probability .95, as text; "": none."""
        if self.attack is not None:
            if not self.attack.guesses or math.isinf(self.attack.needed):
                return ""
            return f"{self.attack.needed:.3f} nats in this attack"
        return "" if self.smallest is None else self.smallest(level)

    @property
    def share(self) -> float | None:
        """The lower bound as a share of the claim; None for a claim of nothing at all."""
        return self.attack.bound / self.claim if self.attack and self.claim else None

    def to_dict(self, level: float) -> dict[str, Any]:
        """Return the check as plain values, for JSON."""
        fields = {name: value for name, value in asdict(self).items() if name != "smallest"}
        return {
            **fields, "share_of_claim": self.share, "broken": self.broken(level),
            "verdict": self.verdict(level), "smallest_fault_found": self.finds(level),
        }  # fmt: skip


def exact(metric: str, what: str, part: str, wrong: str, smallest: Smallest | None = None) -> Check:
    """Make a check that involves no chance. wrong: what contradicts the claim, or ""."""
    p_value = 0.0 if wrong else 1.0
    return Check(metric, what, part, "exact", p_value, wrong or "as promised", smallest)


def counted(
    metric: str, what: str, part: str, wrong: int, finding: str, number: int, noun: str
) -> Check:
    """Make an exact check that none of `number` things (`noun`) is wrong. finding: if some are."""
    return exact(metric, what, part, finding if wrong else "", one_of(number, noun))


def test(
    metric: str,
    what: str,
    part: str,
    p_value: float,
    finding: str,
    smallest: Smallest | None = None,  # noqa: PT028 (not a test of pytest)
) -> Check:
    """Make a check from a two-sided test of a probability."""
    return Check(metric, what, part, "test", min(1.0, float(p_value)), finding, smallest)
