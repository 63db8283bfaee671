"""The bounded queue between requests and the single writing thread.

Batches are grouped into commits without a fixed time window: the writer processes all batches that
were queued during the last commit. A request is answered when its batch's commit has finished.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from collector.domain.batch_writer import Outcome, Receipt
from collector.domain.submission import Submission
from collector.errors import CollectorError
from rappor_core.text import counted
from rappor_server.errors import OverloadedError, StorageError, drop_traces

Answer = Receipt | CollectorError


@dataclass(slots=True)
class _Waiting:
    submission: Submission
    future: asyncio.Future[Answer]


class CommitQueue:
    """A queue that passes batches to `write` in groups, on a separate thread."""

    keeps_bodies = False  # only the decoded batch is counted

    def __init__(
        self,
        write: Callable[[Sequence[Submission]], list[Outcome]],
        *,
        max_queued_bytes: int,
        max_group: int,
        on_commit: Callable[[float, bool], None],
        on_crash: Callable[[Exception], None],
    ) -> None:
        """Prepare the queue; write nothing yet.

        Args:
            write: A function that counts a group of batches.
            max_queued_bytes: The maximum total size of waiting batches.
            max_group: The maximum number of reports in one commit.
            on_commit: A function that is called with (seconds, failed) after each group.
            on_crash: A function that is called with the exception after a defect; the group is
                answered with an error.
        """
        self._write, self._max_group = write, max_group
        self._on_commit = on_commit
        self._on_crash = on_crash
        self._queue: deque[_Waiting] = deque()
        self._backlog = Backlog(max_queued_bytes)
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="report-writer", daemon=True)

    @property
    def queued_reports(self) -> int:
        """Return the number of reports that wait for a commit at the moment."""
        return self._backlog.reports

    def start(self) -> None:
        """Start the writing thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting batches, write the queue, and wait for the thread to end."""
        with self._wake:
            self._backlog.is_closed = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    async def submit(self, submission: Submission) -> Receipt:
        """Queue a batch and wait for its commit. Raises the writer's error if that fails.

        All callers share one event loop. A canceled caller (its device hung up) leaves the batch in
        the queue: it is counted, and its id is recognized if it is sent again.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(submission, loop.create_future())
        with self._wake:
            self._backlog.take(submission.batch.num_reports, submission.num_bytes)
            self._queue.append(waiting)
            is_first = len(self._queue) == 1
        if is_first:  # the writer wakes up after concurrent requests are queued, too
            loop.call_soon(self._wake_up)
        answer = await waiting.future
        if isinstance(answer, CollectorError):
            raise answer
        return answer

    def _wake_up(self) -> None:
        with self._wake:
            self._wake.notify()

    def _run(self) -> None:
        while group := self._take():
            futures = [waiting.future for waiting in group]
            deliver(list(zip(futures, self._answers(group), strict=True)))

    def _take(self) -> list[_Waiting]:
        """Return the queued batches, up to the limit of a group; empty if the thread should end."""
        with self._wake:
            while not self._queue and not self._backlog.is_closed:
                self._wake.wait()
            group: list[_Waiting] = []
            size = 0
            while self._queue:
                reports = self._queue[0].submission.batch.num_reports
                if group and size + reports > self._max_group:
                    break
                group.append(self._queue.popleft())
                size += reports
            self._backlog.give(size, sum(waiting.submission.num_bytes for waiting in group))
            return group

    def _answers(self, group: list[_Waiting]) -> Sequence[Answer]:
        started = perf_counter()
        try:
            answers: Sequence[Answer] = self._write([waiting.submission for waiting in group])
        except CollectorError as error:
            drop_traces(error)  # its frames reference all bodies in the group
            answers = [error] * len(group)
        except Exception as error:  # a defect must not leave requests waiting forever
            self._on_crash(error)
            answers = [StorageError("the writer failed; send again later")] * len(group)
        self._on_commit(perf_counter() - started, isinstance(answers[0], StorageError))
        return answers


class Backlog:
    """The number of waiting reports and bytes, with a limit. The caller must hold a lock."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self.reports = 0
        self.is_closed = False

    def take(self, reports: int, size: int) -> None:
        """Add a batch of so many reports and bytes. Raises OverloadedError beyond the limit."""
        if self.is_closed:
            raise OverloadedError("the collector is shutting down; send again later")
        if self.reports and self._bytes + size > self._max_bytes:
            raise OverloadedError(f"{counted(self.reports, 'report')} waiting; send again later")
        self.reports += reports
        self._bytes += size

    def give(self, reports: int, size: int) -> None:
        """Subtract batches that no longer wait, because they were stored or given up."""
        self.reports -= reports
        self._bytes -= size


def deliver(answers: Sequence[tuple[asyncio.Future[Any], object]]) -> None:
    """Set each future's result, on its event loop, from another thread; skip a closed loop."""
    loop = answers[0][0].get_loop()
    try:
        loop.call_soon_threadsafe(_set_results, answers)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _set_results(answers: Sequence[tuple[asyncio.Future[Any], object]]) -> None:
    for future, answer in answers:
        if not future.done():  # the request may have been given up
            future.set_result(answer)
