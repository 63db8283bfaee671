"""Errors that the archive of raw reports raises.

ArchiveError
|-- ArchiveDamagedError  a file of the archive is missing, cut, edited, or holds other reports
`-- NotArchivedError     a window that the archive does not hold, or must not give
"""

from rappor_core.errors import RapporError


class ArchiveError(RapporError):
    """Base class of the archive's errors."""


class ArchiveDamagedError(ArchiveError):
    """A file of the archive is not what its manifest entry says."""


class NotArchivedError(ArchiveError):
    """The archive does not hold the window, or its parts must not be separated."""
