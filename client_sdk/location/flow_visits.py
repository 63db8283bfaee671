"""One flow metric on one device, which reduces fixes to one answer about two usual cells.

The main path is the same as in `Visits`. The device draws from its secret the period for which it
answers, so fixes in other periods are not even added up. When the drawn period is over, the pair of
its usual cells is reported, and all data about it is forgotten. With a lag, the first cell stays in
the state until the second cell is known.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from client_sdk.location.dwell_time import Dwell
from client_sdk.location.period_visits import Visits
from client_sdk.randomization.key_derivation import draw
from rappor_core.calendar import last_day
from rappor_core.errors import ParameterError
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.metrics.flow import Flow
from rappor_core.metrics.metric import Metric


class FlowVisits(Visits):
    """The state of one flow metric on a device during a period. All of it is private.

    `_known` contains the first usual cell of each pair whose second cell is still unknown.
    """

    _since: int | None = None  # the first period that this device has seen
    _turn: Callable[[int], int]  # maps a block of periods to the answered period
    _every: int  # the number of periods in a block

    def _settings(self, metric: Metric) -> Flow:
        if not isinstance(metric.details, Flow):
            raise ParameterError(f"metric {metric.name!r} is not of kind 'flow'")
        self._flow: Flow = metric.details
        return metric.details

    def _draw(self, secret: bytes, parts: Sequence[Metric]) -> None:
        """Draw the answered periods from the secret.

        In mode `once`, this is one of every `spread` periods, fixed for the device's lifetime. In
        mode `window`, it is one period per block of `window` periods, drawn again for each block.
        """
        name = parts[0].name
        self._every = self._flow.window or self._flow.spread
        self._turn = partial(_drawn_turn, secret, name, self._flow)

    def _restore(self, saved: dict[str, Any]) -> None:
        if saved.get("of", ("", ""))[0] == self._metric.period:
            self._since = saved["since"]
        super()._restore(saved)

    def _saved(self) -> dict[str, Any]:
        return {**super()._saved(), "since": self._since}

    def _begin(self, period: int) -> None:
        self._since = period if self._since is None else min(self._since, period)
        super()._begin(period)

    @property
    def _answered_for_life(self) -> bool:
        answers: int = sum(last - first + 1 for first, last in self._reported.runs())
        return answers >= (self._metric.max_reports or 1)

    def _is_first(self, period: int, present: int) -> bool:
        """Return whether the device will report the pair whose first cell is from `period`.

        In mode `once`, only the first drawn period that can still be answered in `present` counts.
        """
        earliest = max(self._since or 0, present - self._flow.lag)
        if period < earliest or period % self._every != self._turn(period // self._every):
            return False
        return self._flow.mode != "once" or period - earliest < self._every

    def _to_come(self, latest: int) -> list[tuple[int, str]]:
        """Return (period, slot) of each pending answer that uses a cell from period `latest`."""
        if self._period is None or self._answered_for_life:
            return []
        flow, present = self._flow, self._period
        sides = (latest, flow.origin), (latest - flow.lag, flow.destination)
        return [
            (first + flow.lag, slot.name)
            for first, slot in sides
            if self._is_first(first, present)
            and first + flow.lag >= present
            and first + flow.lag not in self._reported
        ]

    def _forget_known(self, period: int) -> None:
        lag = self._flow.lag
        self._known = {
            key: (since, place)
            for key, (since, place) in self._known.items()
            if since < period and any(turn == since + lag for turn, _ in self._to_come(since))
        }

    def _learn(self, period: int) -> None:
        place = self._dwell.usual(self._flow.origin.name)
        is_needed = any(turn == period + self._flow.lag for turn, _ in self._to_come(period))
        if self._flow.lag and is_needed and place is not None:
            self._known[str(period)] = period, place

    def _report(self, period: int) -> None:
        """Send the answer that is due at the end of a period; it is never sent again."""
        flow = self._flow
        first = period - flow.lag
        if period in self._reported or self._answered_for_life or not self._is_first(first, period):
            return
        dwell = self._dwell if period == self._period else Dwell()
        origin = dwell.usual(flow.origin.name)
        if flow.lag:
            _, origin = self._known.get(str(first), (first, None))
        sides = origin, dwell.usual(flow.destination.name)
        value = PAIR_SEPARATOR.join(map(self._value, sides))
        self._send(self._metric.name, value, last_day(self._metric.period, period))
        self._reported.add(period)


def _drawn_turn(secret: bytes, name: str, flow: Flow, block: int) -> int:
    """Draw from the secret which period of a block is answered; return its index, from 0."""
    if flow.mode == "once":
        return draw(secret, b"phase", name, flow.spread)
    return draw(secret, b"turn", name, flow.window, block.to_bytes(8, "big"))
