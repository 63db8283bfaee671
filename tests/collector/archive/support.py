"""Archives without a collector, and a source that represents one."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from collector.archive.parquet import read_group, reading
from collector.archive.parts import PartCounts
from collector.archive.store import Store, open_store
from collector.archive.sums import SpanTask, aggregate, choose_parts, count_part
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from rappor_core.tasks import open_executor, run_tasks
from tests.collector.support import make_metric

DAY = date(2026, 11, 18)
TODAY = date(2026, 11, 26)
KEPT = make_metric("kept", keep_raw_days=30)


@dataclass(frozen=True)
class FakeBlock:
    """A block as the collector gives it."""

    metric: Metric
    first_day: date
    last_day: date
    rows: dict[int, list[bytes]]
    damage: str = ""

    @property
    def num_raw(self) -> int:
        return sum(map(len, self.rows.values()))

    @property
    def reports_per_cohort(self) -> tuple[int, ...]:
        return tuple(len(self.rows.get(c, [])) for c in range(self.metric.params.num_cohorts))

    @property
    def bit_counts(self) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(bit_sums(self.rows.get(c, []), self.metric.params.num_bits))
            for c in range(self.metric.params.num_cohorts)
        )


@dataclass
class FakeSource:
    """Blocks that are there until they are forgotten."""

    held: list[FakeBlock]
    forgotten: list[FakeBlock] = field(default_factory=list)

    def blocks(self) -> Iterator[FakeBlock]:
        return iter([block for block in self.held if block not in self.forgotten])

    def reports(self, block: FakeBlock, cohort: int) -> Iterator[bytes]:
        rows = block.rows.get(cohort, [])
        for start in range(0, len(rows), 7):
            yield b"".join(rows[start : start + 7])

    def forget(self, block: FakeBlock) -> int:
        self.forgotten.append(block)
        return block.num_raw


def bit_sums(rows: list[bytes], num_bits: int) -> list[int]:
    """How often each bit is set, bit by bit."""
    return [sum(row[i // 8] >> (i % 8) & 1 for row in rows) for i in range(num_bits)]


def make_block(
    metric: Metric = KEPT, day: date = DAY, count: int = 60, last: date | None = None, seed: int = 3
) -> FakeBlock:
    """Reports of a seed, over all cohorts but the last."""
    rng = random.Random(f"{seed} {day}")
    rows: dict[int, list[bytes]] = {}
    for _ in range(count):
        bits = rng.getrandbits(metric.params.num_bits)
        cohort = rng.randrange(metric.params.num_cohorts - 1)
        rows.setdefault(cohort, []).append(bits.to_bytes(metric.params.report_bytes, "little"))
    return FakeBlock(metric, day, last or day, rows)


def expected(*blocks: FakeBlock) -> Aggregate:
    """The collector's aggregate of whole blocks."""
    metric = blocks[-1].metric
    return Aggregate(
        metric=metric.name,
        params=metric.params,
        params_id=metric.params_id,
        definition=metric.to_dict(),
        first_day=blocks[0].first_day,
        last_day=blocks[-1].last_day,
        reports_per_cohort=tuple(
            np.sum([block.reports_per_cohort for block in blocks], axis=0).tolist()
        ),
        bit_counts=tuple(
            map(tuple, np.sum([block.bit_counts for block in blocks], axis=0).tolist())
        ),
    )


def summed(
    url: str | Path,
    name: str = "kept",
    *,
    work: Callable[[SpanTask], PartCounts] = count_part,
    on: str | None = None,
    window: tuple[date | None, date | None] = (None, None),
    **more: Any,
) -> Aggregate:
    """What `rappor archive sum` gives."""
    parts = choose_parts(open_store(str(url)), name, more.pop("params_id", None), *window)
    if on is None:
        return aggregate(parts, str(url), partial(run_tasks, work), **more)
    with open_executor(on) as executor:
        run = partial(run_tasks, work, executor=executor)
        return aggregate(parts, str(url), run, **more)


def stored_rows(store: Store, file: str) -> list[tuple[int, bytes]]:
    """(cohort, bits) of a file, in its order."""
    found: list[tuple[int, bytes]] = []
    with store.open(file) as raw, reading(raw, file) as opened:
        for group in range(opened.num_row_groups):
            cohorts, rows = read_group(opened, group)
            found += zip(cohorts.tolist(), (bytes(row) for row in rows), strict=True)
    return found
