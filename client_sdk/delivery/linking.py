"""Linked reports: which queued reports of an association travel together, and when.

Reports are recorded, randomised and charged one by one as ever. Two of one day that an association
links leave in one batch of version 2. One that has no other yet waits until its day is over, and
then leaves alone. Loaded only where associations are declared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import NamedTuple, cast

from client_sdk.delivery.batches import gzip_padded
from client_sdk.delivery.options import Delivery
from client_sdk.delivery.queue import ReportQueue
from client_sdk.randomisation.randomness import Randomness
from client_sdk.storage.sqlite import SqliteState
from rappor_core.calendar import SECONDS_A_DAY, day_of
from rappor_core.metrics.association import Association
from rappor_core.wire.linked import encode_linked_binary
from rappor_core.wire.report import Report

WAITING = """
    SELECT queue.id, metric, params_id, cohort, day
        FROM queue JOIN sources ON sources.id = source
"""


class Queued(NamedTuple):
    """Data of a queued report other than its bits. day: since 1970-01-01."""

    number: int
    metric: str
    params_id: str
    cohort: int
    day: int


class Sorted(NamedTuple):
    """Queued reports sorted by how they may travel. free: by themselves. linked: pairs that go
    together. The rest waits."""

    free: list[Queued]
    linked: list[tuple[int, int]]


class LinkedQueue(ReportQueue):
    """A queue of which some reports travel together. clock: seconds since 1970, UTC."""

    def __init__(
        self,
        state: SqliteState,
        delivery: Delivery,
        randomness: Randomness,
        associations: Sequence[object],
        clock: Callable[[], float],
    ) -> None:
        """associations: `Association`s; each metric is in one."""
        super().__init__(state, delivery, randomness)
        self._clock = clock
        self._sides = {
            (metric.name, metric.params_id): (one, side)
            for one in cast(Sequence[Association], associations)
            for side, metric in enumerate(one.metrics)
        }

    def compose(self) -> None:
        """Turn the reports that may be sent into batches; each two linked reports have a batch
        of their own.

        So no batch tells what a device answered on several days, and none has to be split.
        """
        found = self._sort_out()
        for numbers in self._partition([(one.metric, one.number) for one in found.free]):
            self._compose_one(numbers)
        for pair in found.linked:
            self._compose_one(list(pair), self._make_linked)

    def has_waiting(self) -> bool:
        """Whether any report may be sent now; a linked one waits for its other until its day is
        over."""
        return super().has_waiting() and bool(self._num_stored() or any(self._sort_out()))

    def waiting(self) -> int:
        """Number of batches that wait, each for a random time of its own; 1 where they leave
        together."""
        if not self._delivery.isolate_metrics:
            return 1
        found = self._sort_out()
        names = {one.metric for one in found.free}
        return max(1, self._num_stored() + len(names) + len(found.linked))

    def _num_stored(self) -> int:
        return int(self._state.rows("SELECT count(*) FROM batches")[0][0])

    def _sort_out(self) -> Sorted:
        """Which reports go alone, and which together; one of today that lacks its other waits."""
        today = int(self._clock() // SECONDS_A_DAY)
        found = Sorted([], [])
        waiting: dict[tuple[str, int], tuple[list[Queued], list[Queued]]] = {}
        for report in starmap(Queued, self._state.rows(WAITING)):
            association, side = self._sides.get((report.metric, report.params_id), (None, 0))
            if association is None or report.day > day_of(association.expires):
                found.free.append(report)
            else:
                waiting.setdefault((association.name, report.day), ([], []))[side].append(report)
        for (_, day), (firsts, seconds) in waiting.items():
            while firsts and seconds and self._fit(firsts[-1], seconds[-1]):
                found.linked.append((firsts.pop().number, seconds.pop().number))
            if day != today or (firsts and seconds):
                found.free.extend([*firsts, *seconds])
        return found

    def _fit(self, first: Queued, second: Queued) -> bool:
        """Whether they share a cohort; not of reports made before the metrics were linked."""
        association, _ = self._sides[first.metric, first.params_id]
        alone = [metric.params.num_cohorts == 1 for metric in association.metrics]
        return any(alone) or first.cohort == second.cohort

    def _make_linked(
        self, batch_id: bytes, reports: Sequence[Report], *, pad_to: int, json: bool
    ) -> bytes:
        """As `make_body`, of two linked reports."""
        first, second = sorted(reports, key=lambda one: self._sides[one.metric, one.params_id][1])
        encode = encode_linked_binary
        if json:  # the device's own wheel has the binary form alone
            from rappor_core.wire.linked_json import encode_linked_json as encode
        return gzip_padded(encode(batch_id, [(first, second)]), pad_to)
