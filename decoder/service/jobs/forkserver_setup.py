"""Imported once by the process that forks the jobs of a worker: it holds the decoder ready.

That process must not outlive its worker: its own death then ends the jobs (`process_limits`).
The worker names itself in an environment variable, so that an import elsewhere does nothing.
"""

from __future__ import annotations

import os

import decoder.service.jobs.child
import decoder.workflows.decoding
import decoder.workflows.maps  # noqa: F401
from decoder.service.jobs.process_limits import die_with_parent
from decoder.service.settings import PARENT_VARIABLE

if os.environ.get(PARENT_VARIABLE) == str(os.getppid()):
    die_with_parent()
