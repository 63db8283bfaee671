"""Errors of an audit that cannot be carried out; a broken claim is no error."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rappor_core.errors import RapporError

MOST_CHARS = 300


class AuditError(RapporError):
    """The audit cannot be run: the program under audit failed, or nothing can be audited."""


class AuditedClientError(AuditError):
    """The audited client raised an exception, or gave an answer that cannot be read."""


@contextmanager
def client_errors() -> Iterator[None]:
    """Turn every exception of the client within the block into an AuditedClientError, which can
    leave a worker.

    Its message has the exception, and the line of the innermost call.
    """
    try:
        yield
    except AuditError as error:
        raise AuditedClientError(str(error)) from error
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"[:MOST_CHARS]
        raise AuditedClientError(
            f"{text} ({Path(where.filename).name}, line {where.lineno})"
        ) from error
