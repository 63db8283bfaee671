"""`Check`: one result of an audit, a claim that was tested and what was found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from privacy_audit.black_box.attacks import AttackResult
from privacy_audit.black_box.power import Smallest

Method = Literal["attack", "test", "exact"]
Verdict = Literal["held", "broken", "not tested"]


@dataclass(frozen=True)
class Check:
    """A claim about one metric, with the evidence against it.

    metric: its name, or "" where it is about the client.  what: the claim, in words.
    box: which parts of the client were in it.  method: `attack` (a lower bound of epsilon against
        the claim), `test` (two-sided, of chances), `exact` (no chance in it).
    p_value: 0 or 1 where `exact`.  found: what was seen, in words.
    smallest: the fault that is found.  claim: nats, of attacks.  attack: what it reached.
    """

    metric: str
    what: str
    box: str
    method: Method
    p_value: float
    found: str
    smallest: Smallest | None = None
    claim: float | None = None
    attack: AttackResult | None = None

    def broken(self, level: float) -> bool:
        """Whether the claim is rejected at this level."""
        return self.p_value < level

    def verdict(self, level: float) -> Verdict:
        """A claim that no fault could have broken in this run is not one that held."""
        if self.broken(level):
            return "broken"
        return "held" if self.finds(level) else "not tested"

    def finds(self, level: float) -> str:
        """The smallest fault that this check finds with probability .95, in words; "": none."""
        if self.attack is not None:
            if not self.attack.guesses or math.isinf(self.attack.excess):
                return ""
            return f"{self.attack.needed:.3f} nats in this attack"
        return "" if self.smallest is None else self.smallest.text(level)

    @property
    def share(self) -> float | None:
        """The lower bound as a share of the claim; None for a claim of nothing at all."""
        return self.attack.bound / self.claim if self.attack and self.claim else None

    def to_dict(self, level: float) -> dict[str, Any]:
        """The check as plain values, for JSON."""
        fields = {name: value for name, value in asdict(self).items() if name != "smallest"}
        return {
            **fields, "share_of_claim": self.share, "broken": self.broken(level),
            "verdict": self.verdict(level), "smallest_fault_found": self.finds(level),
        }  # fmt: skip


def exact(metric: str, what: str, box: str, wrong: str, smallest: Smallest | None = None) -> Check:
    """Make a check that involves no chance. wrong: what contradicts the claim, or ""."""
    p_value = 0.0 if wrong else 1.0
    return Check(metric, what, box, "exact", p_value, wrong or "as promised", smallest)


def test(
    metric: str,
    what: str,
    box: str,
    p_value: float,
    found: str,
    smallest: Smallest | None = None,  # noqa: PT028 (not a test of pytest)
) -> Check:
    """Make a check from a two-sided test of a probability."""
    return Check(metric, what, box, "test", min(1.0, float(p_value)), found, smallest)
