"""A batch that the collector found too large goes on as two."""

from __future__ import annotations

from client_sdk.delivery.batches import make_body, read_body, shuffled
from client_sdk.delivery.options import Delivery
from client_sdk.delivery.queue import BATCH_ID_BYTES, StoredBatch
from client_sdk.randomisation.randomness import Randomness
from client_sdk.storage.sqlite import SqliteState
from rappor_core.calendar import day_of
from rappor_core.wire.report import Report


def split(
    state: SqliteState, batch: StoredBatch, delivery: Delivery, randomness: Randomness
) -> bool:
    """Replace a stored batch by two batches of half its reports, in one commit. Return False for
    a batch of one report.

    The collector has refused the whole one, by its size: nothing of it was counted. (It would have
    been, if an answer was lost before the operator lowered the limit on the size.)
    Raises WireFormatError for a stored batch that is damaged.
    """
    if batch.reports < 2:
        return False
    reports = read_body(batch.body, json=batch.json).ungrouped().reports
    order = [reports[index] for index in shuffled(range(len(reports)), randomness)]
    parts = order[: len(order) // 2], order[len(order) // 2 :]
    halves = [_half(part, batch, delivery, randomness) for part in parts]
    with state.transaction() as database:
        cursor = database.execute("SELECT * FROM batches WHERE id = ?", (batch.number,))
        row = cursor.fetchone()
        if row is None:
            return True  # trimmed or wiped meanwhile
        whole = dict(zip((column[0] for column in cursor.description), row, strict=True))
        database.execute("DELETE FROM batches WHERE id = ?", (batch.number,))
        for half in halves:
            fields = {**whole, **half, "id": None}
            names, marks = ", ".join(fields), ", ".join("?" * len(fields))
            # the names are the table's own columns
            insert = f"INSERT INTO batches ({names}) VALUES ({marks})"  # noqa: S608
            database.execute(insert, tuple(fields.values()))
    return True


def _half(
    reports: list[Report], batch: StoredBatch, delivery: Delivery, randomness: Randomness
) -> dict[str, object]:
    """What differs from the whole, by column."""
    batch_id = randomness(BATCH_ID_BYTES)
    return {
        "batch_id": batch_id,
        "reports": len(reports),
        "last_day": max(day_of(report.day) for report in reports),
        "body": make_body(batch_id, reports, pad_to=delivery.pad_to, json=batch.json),
    }
