"""The numbers that a plan of a listed metric is given; at most one of them is missing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from decoder.errors import PlanError
from metric_design.kinds import LISTED
from rappor_core.encodings import Encoding, encoding_named
from rappor_core.metrics.kinds import kind_named

Period = Literal["day", "week", "month"]
Mode = Literal["auto", "memo", "once"]
PlannedCorrection = Literal["fdr", "bh", "bonferroni"]
Unknown = Literal["share", "devices", "epsilon", "candidates", "periods"]

PLANNED_CORRECTIONS: tuple[str, ...] = get_args(PlannedCorrection)
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
POWER = 0.8  # probability with which a share that is seen is found
ALPHA = 0.05  # level of the decoding
MAX_BYTES = 16  # of a report
DEFAULTS = {"candidates": 1_000, "periods": 1}
LIMITS: dict[str, tuple[float, float]] = {
    "share": (1e-9, 1),
    "devices": (1, 1e12),
    "candidates": (1, 1e9),
    "periods": (1, 3650),
    "values": (1, 10_000),
    "epsilon_life": (1e-4, 1e5),
}


@dataclass(frozen=True)
class PlanRequest:
    """The question. None: unknown, or not asked.

    share: the smallest that should be found, with probability `POWER`, in a list of `candidates`
    decoded with the default correction at level `ALPHA`.  devices: that report.  periods: decoded
    together.
    mode: `memo`, where each device sends a report in each period, from a permanent response;
    `once`, where it sends one report for life; `auto`: what shows more.
    epsilon_life: nats, at most, of all `values` that a device of mode `memo` may ever hold.

    Raises PlanError with the bad value.
    """

    share: float | None = None
    devices: float | None = None
    candidates: float | None = None
    periods: float | None = None
    epsilon_life: float | None = None
    mode: Mode = "auto"
    values: int = 3
    period: Period = "day"
    kind: str = "string"

    def __post_init__(self) -> None:
        """Check each number alone, then the choices together."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in LIMITS and value is not None:
                _check_range(field.name, value)
        for name, choices in (
            ("period", get_args(Period)),
            ("kind", LISTED),
            ("mode", get_args(Mode)),
        ):
            if getattr(self, name) not in choices:
                raise PlanError(f"{name} = {getattr(self, name)!r} is not one of {choices}")
        if self.single_bit and self.candidates not in (None, 2):
            raise PlanError(
                f"candidates = {self.candidates:g}: a boolean has 2 values; leave it out"
            )
        if self.mode != "once" and self.encoding.hashed and self.values < 2:
            raise PlanError(
                f"values = {self.values}: a string has a fallback for values past the cap, which "
                "takes a place of its own; use 2 or more"
            )

    @property
    def encoding(self) -> Encoding:
        """The encoding of the kind."""
        return encoding_named(kind_named(self.kind).encodings[0])

    @property
    def single_bit(self) -> bool:
        """Whether a report is one bit."""
        return self.encoding.single_bit

    @property
    def held(self) -> int:
        """Number of values that a device may answer with in its life."""
        if self.mode == "once":
            return 1
        return 2 if self.single_bit else self.values

    def unknown(self) -> Unknown:
        """Return the one number to solve for.

        Share, devices and epsilon come first; if all three are given it is candidates or periods.
        With none missing, the share is computed.

        Raises:
            PlanError: If two of the first three are missing.
        """
        known = {"share": self.share, "devices": self.devices, "epsilon": self.epsilon_life}
        missing = [name for name, value in known.items() if value is None]
        if len(missing) > 1:
            raise PlanError(
                f"{' and '.join(missing)} are not known: one of share, devices and epsilon can be "
                "solved for, give the other two"
            )
        if missing:
            return missing[0]  # type: ignore[return-value]
        if self.candidates is None and not self.single_bit:
            return "candidates"
        return "periods" if self.periods is None else "share"


def _check_range(name: str, value: object) -> None:
    least, most = LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        said = f"{value:g}" if isinstance(value, float) else repr(value)
        raise PlanError(f"{name} = {said} is not from {least:g} to {most:g}")
    if name in ("devices", "candidates", "periods", "values") and value != int(value):
        raise PlanError(f"{name} = {value:g} is not a whole number")
