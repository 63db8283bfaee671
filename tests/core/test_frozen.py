import pickle
from copy import deepcopy

import pytest

from rappor_core.frozen import Frozen


class Pair(Frozen):
    first: int
    second: int = 2

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise ValueError("equal")


class Triple(Pair):
    third: str = "x"


@pytest.mark.parametrize(
    ("values", "named", "wrong"),
    [
        ((), {}, "first"),
        ((1, 3, 4), {}, "4"),
        ((1,), {"first": 3}, "first"),
        ((1,), {"fourth": 3}, "fourth"),
    ],
)
def test_wrong_fields_are_named(values: tuple[int, ...], named: dict[str, int], wrong: str) -> None:
    with pytest.raises(TypeError, match=rf"first, second; wrong or missing: .*{wrong}"):
        Pair(*values, **named)


def test_equal_by_type_and_value() -> None:
    assert Pair(1) == Pair(1, 2)
    assert hash(Pair(1)) == hash(Pair(1, 2))
    assert Pair(1) not in (Pair(3), Triple(1), (1, 2))
    assert deepcopy(Triple(1)) == pickle.loads(pickle.dumps(Triple(1))) == Triple(1)


def test_values_cannot_change_and_copies_are_checked() -> None:
    pair = Pair(1)
    with pytest.raises(AttributeError, match=r"replace\(first=\.\.\.\)"):
        pair.first = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="first stays"):
        del pair.first
    assert pair.replace(first=4) == Pair(4)
    with pytest.raises(ValueError, match="equal"):
        pair.replace(first=2)
    assert pair == Pair(1)
