"""The connections of a process, bounded together."""

from __future__ import annotations

from rappor_server.connections import Connections


class Line:
    """A connection of which it is noted that it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def abort(self) -> None:
        self.is_closed = True


def held(connections: Connections, address: str, count: int) -> list[Line]:
    lines = [Line() for _ in range(count)]
    for line in lines:
        connections.begin(line, address)
    return lines


def closed(lines: list[Line]) -> list[int]:
    return [number for number, line in enumerate(lines) if line.is_closed]


def test_the_longest_silent_of_the_greedy_goes() -> None:
    connections = Connections(10)
    honest = held(connections, "honest", 2)
    silent = held(connections, "greedy", 8)
    late = held(connections, "late", 3)
    assert (closed(honest), closed(silent), closed(late)) == ([], [0, 1, 2], [])
    assert len(connections) == 10


def test_one_that_works_is_not_closed() -> None:
    connections = Connections(4)
    lines = held(connections, "a", 4)
    connections.work(lines[0])
    held(connections, "b", 1)
    assert closed(lines) == [1]
    connections.wait(lines[0])  # the last that began to wait
    held(connections, "b", 1)
    assert closed(lines) == [1, 2]


def test_where_all_work_the_new_one_is_closed() -> None:
    connections = Connections(2)
    for line in (lines := held(connections, "a", 2)):
        connections.work(line)
    new = held(connections, "b", 1)
    assert (closed(lines), closed(new), len(connections)) == ([], [0], 2)
    connections.end(lines[0])
    assert closed(held(connections, "b", 1)) == []
