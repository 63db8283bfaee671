"""Imports for the process that forks jobs, so that jobs start with the decoder loaded.

That process must not outlive its worker: its own death then ends the jobs (`process_limits`). The
call comes before the slow imports, during which the worker may die. The worker names itself in an
environment variable, so that importing this module elsewhere does nothing."""

import os
import signal

import truststore

from decoder_service.worker.process_limits import PARENT_VARIABLE, die_with_parent
from rappor_core.own_packages import prefer_own_packages

if os.environ.get(PARENT_VARIABLE) == str(os.getppid()):
    die_with_parent()
    os.register_at_fork(after_in_child=die_with_parent)  # Also for jobs, from their first moment
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Sent to all at once: the worker decides
    prefer_own_packages()
    truststore.inject_into_ssl()

import decoder.kinds.location
import decoder.kinds.values  # noqa: F401
import decoder_service.worker.execution  # noqa: F401
