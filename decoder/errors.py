"""The decoder's errors, which extend the hierarchy of `rappor_core.errors`."""

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import RapporError


class RemoteError(RapporError):
    """A collector that rejects a request, fails or is unreachable."""

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem = problem or {}


class DecodeError(RapporError, ValueError):
    """A question that the given data cannot answer."""


class CandidatesError(DecodeError):
    """A list of candidates that cannot be read or used."""


class CountsError(DecodeError):
    """Files of counts, maps or parameters that cannot be read or do not belong together."""


class TableFileError(DecodeError):
    """An error at a line and column in a table; the caller adds the file's name."""


class MissingColumnError(TableFileError):
    """A header that lacks a required column."""


class ConvergenceError(DecodeError):
    """An iteration that did not reach its tolerance, so that there is no estimate."""


class ImproperError(ConvergenceError):
    """A covariance that is not positive definite."""


class OutputError(DecodeError):
    """A result file or folder that cannot be created or written."""


class PlanError(DecodeError):
    """Raised if a plan contradicts itself or cannot be met."""
