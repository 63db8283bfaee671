"""Structured logs to stderr: JSON lines without addresses, headers, bodies or keys."""

import logging
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Any, Literal, TextIO

import structlog

LogLevel = Literal["debug", "info", "warning", "error"]


class Log:
    """The server's own log: one JSON object per line, without data from requests."""

    def __init__(self, logger: Any, seconds: Callable[[], float]) -> None:
        self._logger = logger
        self._seconds = seconds
        self._last: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()

    def info(self, event: str, **fields: str | int | float) -> None:
        """Log an expected event."""
        self._logger.info(event, **fields)

    def warning(self, event: str, **fields: str | int | float) -> None:
        """Log an event that may need an operator; at most one line per second."""
        now = self._seconds()
        if now - self._last.get(event, float("-inf")) < 1.0:
            self._left_out[event] += 1
            return
        self._last[event] = now
        self._logger.warning(event, **fields, more_before=self._left_out.pop(event, 0))

    def notice(self, event: str, **fields: str | int | float) -> None:
        """Log a rare warning, without a rate limit."""
        self._logger.warning(event, **fields)

    def crash(self, error: BaseException) -> None:
        """Log a defect by type and location only, because its message may reveal a request."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-8:]]
        self._logger.error("defect", kind=type(error).__name__, where=where)


_LIBRARIES = ("uvicorn", "uvicorn.error", "asyncio", "psycopg", "sqlalchemy", "alembic")


class _Redirect(logging.Handler):
    """A handler for a library's logs, without exception messages, which may reveal requests."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log the library's message template, without the values that fill it."""
        if record.exc_info and record.exc_info[1] is not None:
            self._log.crash(record.exc_info[1])
        else:
            self._log.warning("library", name=record.name, message=str(record.msg)[:200])


def redirect_libraries(log: Log) -> None:
    """Send the logs of libraries only to `log`, so that no plain lines appear on stderr."""
    for name in _LIBRARIES:
        logger = logging.getLogger(name)
        logger.handlers[:] = [_Redirect(log)]
        logger.propagate = False


def make_log(
    level: LogLevel, stream: TextIO | None = None, seconds: Callable[[], float] = monotonic
) -> Log:
    """Return a log that writes one JSON object per line; nothing global is configured.

    `stream` is stderr if None. `seconds` is a clock.
    """
    logger = structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True),
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    return Log(logger, seconds)
