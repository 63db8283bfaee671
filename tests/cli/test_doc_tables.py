"""Tables of the docs that a command fills."""

import pytest

from docs.tools.doc_tables import BLOCK, DocTableError, fill

PAGE = """Before.

<!-- table: rappor simulate numbers --markdown -->
| b | a |
|---|---|
| old | old |
<!-- /table -->

| b | untouched |
"""
PRINTED = "| a | other | b |\n| --- | --- | --- |\n| 1 | x | 2 |\n| 3 | y | 4 |\n"


def test_a_marked_table_is_filled_by_its_command() -> None:
    asked = []
    filled = fill(PAGE, lambda command: asked.append(command) or PRINTED)
    assert asked == ["rappor simulate numbers --markdown"]
    assert "\n| b | a |\n| --- | --- |\n| 2 | 1 |\n| 4 | 3 |\n<!-- /table -->\n\n| b |" in filled
    assert fill(filled, lambda _: PRINTED) == filled


def test_a_column_that_is_not_printed_is_named() -> None:
    with pytest.raises(DocTableError, match="'a' is not a column of: rappor simulate numbers"):
        fill(PAGE, lambda _: PRINTED.replace("a", "z"))


def test_a_page_without_marks_stays() -> None:
    assert not BLOCK.search("| a |")
    assert fill("| a |", lambda _: "") == "| a |"
