"""One result of an audit: a claim that was tested, and what was found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from privacy_audit.black_box.attacks import AttackResult

Method = Literal["attack", "test", "exact"]


@dataclass(frozen=True)
class Check:
    """A claim about one metric, and the evidence against it.

    metric: its name, or "" where it is about the client.  what: the claim, in words.
    box: which parts of the client were in it.  method: `attack` (a lower bound of epsilon against
        the claim), `test` (two-sided, of chances), `exact` (no chance in it).
    p_value: 0 or 1 where `exact`.  found: what was seen, in words.
    claim: nats, of attacks.  attack: what it reached.
    """

    metric: str
    what: str
    box: str
    method: Method
    p_value: float
    found: str
    claim: float | None = None
    attack: AttackResult | None = None

    def broken(self, level: float) -> bool:
        """Whether the claim is rejected at this level."""
        return self.p_value < level

    @property
    def share(self) -> float | None:
        """The lower bound as a share of the claim; None for a claim of nothing at all."""
        return self.attack.bound / self.claim if self.attack and self.claim else None

    def to_dict(self, level: float) -> dict[str, Any]:
        """Plain values, for JSON."""
        fields = asdict(self)
        return {**fields, "share_of_claim": self.share, "broken": self.broken(level)}


def exact(metric: str, what: str, box: str, wrong: str) -> Check:
    """A claim without chance in it. wrong: what contradicts it, or ""."""
    return Check(metric, what, box, "exact", 0.0 if wrong else 1.0, wrong or "as promised")


def test(metric: str, what: str, box: str, p_value: float, found: str) -> Check:
    """A two-sided test of a chance."""
    return Check(metric, what, box, "test", min(1.0, float(p_value)), found)
