"""Errors of the decoder, in the product's one tree (`rappor_core.errors`)."""

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import RapporError


class RemoteError(RapporError):
    """A collector that refuses, fails or cannot be reached.

    problem: the members of its problem document, empty where there is none.
    """

    def __init__(self, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.problem = problem or {}


class DecodeError(RapporError, ValueError):
    """The question cannot be answered from what was given."""


class CandidatesError(DecodeError):
    """A list of candidates that cannot be read or used."""


class CountsError(DecodeError):
    """Files of counts, maps or parameters that cannot be read or do not fit together."""


class TableFileError(DecodeError):
    """A table that is not as it must be, at a line and column; the file is named by the caller."""


class MissingColumnError(TableFileError):
    """A header without a wanted column."""


class ConvergenceError(DecodeError):
    """An iteration did not reach its tolerance; a failed fit raises, it never returns zeros."""


class ImproperError(ConvergenceError):
    """A covariance is not positive definite."""


class OutputError(DecodeError):
    """A file or folder of results that cannot be made or written."""


class PlanError(DecodeError):
    """A plan that contradicts itself, or asks for more than its numbers can give."""
