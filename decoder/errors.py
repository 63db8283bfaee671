"""Errors of the decoder, in the product's one tree (`rappor_core.errors`).

RapporError
`-- DecodeError              the question cannot be answered from what was given
    |-- CandidatesError      a list of candidates that cannot be read or used
    |-- CountsError          files of counts that do not fit together (google/rappor's)
    |-- CacheError           a folder for candidate maps that cannot be written
    |-- OutputError          a file or folder of results that cannot be written
    `-- ConvergenceError     an iteration did not reach its tolerance: no zeros are returned
        `-- ImproperError    a covariance that is not positive definite
"""

from rappor_core.errors import RapporError


class DecodeError(RapporError, ValueError):
    """The question cannot be answered from what was given."""


class CandidatesError(DecodeError):
    """A list of candidates that cannot be read or used."""


class CountsError(DecodeError):
    """Files of counts, maps or parameters that cannot be read or do not fit together."""


class CacheError(DecodeError):
    """A folder for candidate maps that cannot be made or written."""


class ConvergenceError(DecodeError):
    """An iteration did not reach its tolerance; a failed fit raises, it never returns zeros."""


class ImproperError(ConvergenceError):
    """A covariance that is none: not positive definite."""


class OutputError(DecodeError):
    """A file or folder of results that cannot be made or written."""
