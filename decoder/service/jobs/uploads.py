"""Reading what people upload: a large file in a process of its own, bounded as those of jobs are.

Python reads JSON and CSV under its one lock, so that a large file would hold up everybody else.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from decoder.service.errors import RequestError, ServiceError
from decoder.service.jobs.platform import check_platform
from decoder.service.jobs.process_limits import (
    die_with_parent,
    limit_processor,
    limit_resources,
)
from rappor_core.errors import RapporError

SMALL_BYTES = 256 << 10  # read in the process of the service
SECONDS = 60  # of processor time
_FILE_BYTES = 1 << 30
_WALL_SECONDS = 600
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads files within bounds. memory: bytes that a process may take.  seconds: of processor."""

    memory: int = 2 << 30
    seconds: int = SECONDS

    def read(self, function: Callable[..., Read], content: bytes, *given: Any) -> Read:
        """What a function of a module gives for a file and more arguments.

        Raises what it raises of the product's errors, and RequestError of a file over the bounds.
        """
        if len(content) <= SMALL_BYTES:
            return function(content, *given)
        check_platform(f"a file of more than {SMALL_BYTES >> 10} KiB is not read here")
        asked = pickle.dumps((self.memory, self.seconds, function, (content, *given)))
        command = [sys.executable, "-m", "decoder.service.jobs.uploads"]
        try:
            done = subprocess.run(  # noqa: S603 (this module)
                command, input=asked, stdout=subprocess.PIPE, check=False, timeout=_WALL_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise RequestError("the file could not be read in time; send it again later") from None
        if done.returncode == -signal.SIGXCPU:
            raise RequestError(
                f"the file takes more than {self.seconds} seconds to read; send it in parts"
            )
        if done.returncode:
            raise ServiceError(f"the process that reads a file ended with {done.returncode}")
        answer: Read | RapporError = pickle.loads(done.stdout)  # noqa: S301 (of our own process)
        if isinstance(answer, RapporError):
            raise answer
        return answer


def _answer(memory: int, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        return function(*given)
    except MemoryError:
        return RequestError(
            f"the file takes more than {memory >> 20:,} MiB of memory to read; send it in parts"
        )
    except RapporError as error:
        return error


def main() -> None:
    """Read one file, which comes through standard input, and write what it gives."""
    die_with_parent()
    memory, seconds, function, given = pickle.load(sys.stdin.buffer)  # noqa: S301 (our parent's)
    limit_resources(memory, _FILE_BYTES)
    limit_processor(seconds)
    sys.stdout.buffer.write(pickle.dumps(_answer(memory, function, given)))


if __name__ == "__main__":
    main()
