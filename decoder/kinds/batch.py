"""Decode many metrics as tasks, on this machine or on an engine, with the same bytes."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from operator import methodcaller
from pathlib import Path
from tempfile import TemporaryDirectory

from decoder.errors import DecodeError
from decoder.kinds.interface import has_candidates
from decoder.kinds.result import Question
from decoder.kinds.run import claim, decode_counts, kind_of, replace_files, write_result
from decoder.options import Operation
from decoder.progress import quiet, silent
from decoder.sources.aggregates import AggregateSource
from decoder.sources.windows import Each
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_core.tasks import run_tasks


@dataclass(frozen=True)
class MetricTask:
    """The decoding of one metric, with all that a worker needs: it reads no file and has no key."""

    metric: str
    operation: Operation
    counts: tuple[Aggregate, ...]
    question: Question
    candidates: tuple[str, bytes] | None  # name and content of the metric's own file


@dataclass(frozen=True)
class MetricFiles:
    """The files of a result, its headline, and notes for the analyst."""

    headline: str
    notes: tuple[str, ...]
    files: Mapping[str, bytes]


def decode_metric(task: MetricTask) -> MetricFiles | str:
    """Return the result of a task, or a sentence on why it failed."""
    question, notes = task.question, list[str]()
    with TemporaryDirectory() as folder:
        try:
            if task.candidates:
                path = Path(folder, task.candidates[0])
                path.write_bytes(task.candidates[1])
                choice = replace(question.candidates, file=path)
                question = replace(question, candidates=choice)
            result = decode_counts(task.operation, [task.counts], question, silent, notes.append)
            kind, output = kind_of(task.counts), Path(folder, "result")
            paths = write_result(result, kind, task.operation, output, silent)
        except RapporError as error:
            return str(error).replace(f"{folder}/", "")
        files = {path.name: path.read_bytes() for path in paths}
    return MetricFiles(str(result.summary["headline"]), tuple(notes), files)


def decode_metrics(
    sources: Mapping[str, AggregateSource],
    question: Question,
    output: Path,
    lists: Path | None = None,
    each: Each | None = None,
    executor: Executor | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Decode each metric as a task, and write its result to a folder with its name.

    Args:
        sources: The source of each metric's counts, which is read here, not by a worker.
        question: The question about each metric, with callbacks for progress and notes.
        output: The folder of all results.
        lists: A folder with candidates, such as METRIC.txt.
        each: The length of the windows of a series; None for one window.
        executor: The executor of the tasks; this process if None.

    Returns:
        The headline of each decoded metric, and the error of each failed metric, by name.
    """
    operation: Operation = "series" if each else "decode"
    decoded, failed = dict[str, str](), dict[str, str]()
    progress, note = question.progress, question.note
    plain = replace(question, progress=silent, note=quiet)

    def tasks() -> Iterator[MetricTask]:
        for metric, source in sources.items():
            try:
                counts = source.windows(each, note) if each else source.read(note)
                claim(output / metric, kind_of(counts))
                files = sorted(lists.glob(f"{metric}.*")) if lists else []
                takes = has_candidates(counts[0].definition.get("kind", "string"))
                own = (files[0].name, files[0].read_bytes()) if files and takes else None
                yield MetricTask(metric, operation, tuple(counts), plain, own)
            except RapporError as error:
                failed[metric] = str(error)

    for task, result in run_tasks(decode_metric, tasks(), executor):
        try:
            if isinstance(result, str):
                raise DecodeError(result)
            files = {name: methodcaller("write_bytes", text) for name, text in result.files.items()}
            replace_files(output / task.metric, files, silent)
            decoded[task.metric] = result.headline
            for remark in result.notes:
                note(f"{task.metric}: {remark}")
        except RapporError as error:
            failed[task.metric] = str(error)
        progress("metrics", len(decoded) + len(failed), len(sources))
    return dict(sorted(decoded.items())), dict(sorted(failed.items()))
