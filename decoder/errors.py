"""Errors of the decoder, subclasses of the product's `rappor_core.errors`."""

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import RapporError


class RemoteError(RapporError):
    """A collector rejects the request, fails or cannot be reached."""

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem = problem or {}


class DecodeError(RapporError, ValueError):
    """The question cannot be answered from the given data."""


class CandidatesError(DecodeError):
    """A list of candidates that cannot be read or used."""


class CountsError(DecodeError):
    """Files of counts, maps or parameters that cannot be read or do not belong together."""


class TableFileError(DecodeError):
    """An error at a line and column of a table; the caller adds the file's name."""


class MissingColumnError(TableFileError):
    """A required column is missing from a header."""


class ConvergenceError(DecodeError):
    """An iteration did not reach its tolerance; no estimate is returned."""


class ImproperError(ConvergenceError):
    """A covariance is not positive definite."""


class OutputError(DecodeError):
    """A file or folder of results cannot be created or written."""


class PlanError(DecodeError):
    """A plan that contradicts itself, or requires more than its numbers allow."""
