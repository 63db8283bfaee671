"""The numbers that a plan is given; at most one of the deciding ones is missing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from decoder.errors import PlanError
from rappor_core.encodings.interface import Encoding, encoding_named
from rappor_core.metrics.kinds import kind_named, kind_names

KindChoice = Literal["auto", "string", "category", "boolean"]
Period = Literal["day", "week", "month"]
Mode = Literal["auto", "memo", "once"]
PlannedCorrection = Literal["fdr", "bh", "bonferroni"]
Unknown = Literal["share", "devices", "epsilon", "candidates", "periods", "bytes"]

PLANNED_CORRECTIONS: tuple[str, ...] = get_args(PlannedCorrection)
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
DEFAULTS = {"candidates": 1_000, "periods": 1, "bytes": 16}
LIMITS: dict[str, tuple[float, float]] = {
    "share": (1e-9, 1),
    "power": (0.01, 0.999),
    "alpha": (1e-9, 0.5),
    "devices": (1, 1e12),
    "candidates": (1, 1e9),
    "periods": (1, 3650),
    "bytes": (1, 8192),
    "top": (1, 1e6),
    "values": (1, 10_000),
    "epsilon_report": (1e-4, 50),
    "epsilon_year": (1e-4, 1e4),
    "epsilon_life": (1e-4, 1e5),
}


@dataclass(frozen=True)
class PlanRequest:
    """The question. None: not known, or not asked.

    share: the smallest that should be found, with probability `power`, in a list of `candidates`
    decoded with `correction` at level `alpha`.  top: in its place, that so many of the most
    frequent values should be found.  devices: that report.  periods: decoded together.
    bytes: of a report, at most.
    mode: `memo`, where each device sends a report in each period, from a permanent response;
    `once`, where it sends one report for life; `auto`: what shows more.
    epsilon_report, epsilon_year, epsilon_life: nats, at most: of one report, of a year of reports
    of one value, of all `values` that a device of mode `memo` may ever hold.
    complete: the candidates are all values there are, so that each may have a bit of its own.

    Raises PlanError with the bad value.
    """

    share: float | None = None
    top: float | None = None
    devices: float | None = None
    candidates: float | None = None
    periods: float | None = None
    bytes: float | None = None
    epsilon_report: float | None = None
    epsilon_year: float | None = None
    epsilon_life: float | None = None
    power: float = 0.8
    alpha: float = 0.05
    correction: PlannedCorrection = "fdr"
    mode: Mode = "auto"
    values: int = 3
    period: Period = "day"
    kind: KindChoice = "auto"
    complete: bool = False

    def __post_init__(self) -> None:
        """Check each number alone, then the choices together."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in LIMITS and value is not None:
                _check_range(field.name, value)
        for name, choices in (
            ("period", get_args(Period)),
            ("kind", get_args(KindChoice)),
            ("mode", get_args(Mode)),
            ("correction", PLANNED_CORRECTIONS),
        ):
            if getattr(self, name) not in choices:
                raise PlanError(f"{name} = {getattr(self, name)!r} is not one of {choices}")
        self._check_kind()

    def _check_kind(self) -> None:
        if self.single_bit and self.candidates not in (None, 2):
            raise PlanError(
                f"candidates = {self.candidates:g}: a boolean has 2 values; leave it out"
            )
        if self.mode != "once" and self.hashed and self.values < 2:
            raise PlanError(
                f"values = {self.values}: a string has a fallback for values past the cap, which "
                "takes a place of its own; use 2 or more"
            )

    @property
    def encoding(self) -> Encoding | None:
        """The encoding of the kind that was asked for; None where the kind is to be chosen."""
        if self.kind not in kind_names():
            return None
        return encoding_named(kind_named(self.kind).encodings[0])

    @property
    def own_bits(self) -> bool:
        """Whether each value has a bit of its own."""
        return self.complete if self.encoding is None else self.encoding.own_bits

    @property
    def single_bit(self) -> bool:
        """Whether a report is one bit."""
        return self.encoding is not None and self.encoding.single_bit

    @property
    def hashed(self) -> bool:
        """Whether values may be hashed into a Bloom filter."""
        return self.encoding is None or self.encoding.hashed

    @property
    def has_epsilon(self) -> bool:
        """Whether any of the three epsilons is given."""
        return any(
            value is not None
            for value in (self.epsilon_report, self.epsilon_year, self.epsilon_life)
        )

    @property
    def held(self) -> int:
        """Number of values that a device may answer with in its life."""
        if self.mode == "once":
            return 1
        return 2 if self.single_bit else self.values

    @property
    def reports_each(self) -> int:
        """Number of reports that a device sends in the periods that are decoded together."""
        return 1 if self.mode == "once" else int(self.periods or 1)

    def unknown(self) -> Unknown:
        """The one number to solve for.

        Share, devices and epsilon come first; where all three are known it is the one of
        candidates, periods and bytes that is not. With none missing, the share is computed.

        Raises PlanError where two of the first three are missing.
        """
        known = {"share": self.top if self.share is None else self.share, "devices": self.devices}
        missing = [name for name, value in known.items() if value is None]
        if not self.has_epsilon:
            missing.append("epsilon")
        if len(missing) > 1:
            raise PlanError(
                f"{' and '.join(missing)} are not known: one of share, devices and epsilon can be "
                "solved for, give the other two"
            )
        if missing:
            return missing[0]  # type: ignore[return-value]
        for name in ("candidates", "periods", "bytes"):
            if getattr(self, name) is None and not (name == "candidates" and self.single_bit):
                return name
        return "share"


def _check_range(name: str, value: object) -> None:
    least, most = LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        said = f"{value:g}" if isinstance(value, float) else repr(value)
        raise PlanError(f"{name} = {said} is not from {least:g} to {most:g}")
    if name in ("devices", "candidates", "periods", "bytes", "values", "top") and value != int(
        value
    ):
        raise PlanError(f"{name} = {value:g} is not a whole number")
