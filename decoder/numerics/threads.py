"""Limit linear algebra to one thread: the same sums in the same order, and no threads that spin.

The matrices here are small, and where work is large the decoder divides it itself.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:
    """Make a context in which BLAS and OpenMP use one thread; may be nested."""
    return _libraries().limit(limits=1)


@cache
def _libraries() -> ThreadpoolController:
    """The loaded libraries; looking for them takes longer than a small fit."""
    return ThreadpoolController()
