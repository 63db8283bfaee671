"""Work that kills the process that does it; a module of its own, quick to load in a worker."""

import os
import signal

from collector.archive.parts import PartCounts
from collector.archive.sums import SpanTask


def die(task: SpanTask) -> PartCounts:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
