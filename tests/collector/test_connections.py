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
