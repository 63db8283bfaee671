"""What each k loses, and which to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from publication.errors import TableError
from publication.k_anonymity.anonymise import anonymise
from publication.k_anonymity.columns import Columns


def loss_by_k(
    table: Mapping[str, Sequence[str]], columns: Columns, ks: Sequence[int]
) -> dict[int, float]:
    """The mean height loss, in [0, 1], of the greedy algorithm at each k."""
    return {k: anonymise(table, columns, k).height_loss for k in ks}


def choose_k(losses: Mapping[int, float], *, smallest: int, max_loss: float) -> int:
    """The smallest k of `smallest` or more whose loss is at most `max_loss`.

    Raises TableError if there is none: accept a greater loss, a smaller k, or fewer columns.
    """
    admissible = [k for k, loss in losses.items() if k >= smallest and loss <= max_loss]
    if not admissible:
        raise TableError(f"no k of {smallest} or more loses {max_loss} or less: {dict(losses)}")
    return min(admissible)
