"""The page of a result that shows its tables, for kinds without pictures of their own."""

from __future__ import annotations

from decoder.kinds.result import PageParts, StoredResult
from decoder.tables.format import count
from decoder.tables.paging import TableQuery, page_of_parquet
from decoder.tables.table import columns_of, read_schema

MAX_ROWS = 50  # of a table that is not the main one


def table_parts(stored: StoredResult, query: TableQuery, main_table: str) -> PageParts:
    """Every table of a result, the main one first and with search, sort and pages."""
    found, shown = stored.json(), []
    names = sorted(name.removesuffix(".parquet") for name in stored.files
                   if name.endswith(".parquet"))  # fmt: skip
    for name in sorted(names, key=lambda one: one != main_table):
        content = stored.read(f"{name}.parquet")
        asked = query if name == main_table else TableQuery(rows=MAX_ROWS)
        schema = read_schema(content)
        columns = [column for column in columns_of(schema) if column.shown]
        page = page_of_parquet(content, asked, [column.name for column in columns])
        shown.append((schema.metadata[b"table"].decode(), columns, page))
    lead = f"{count(found['num_reports'])} reports" if "num_reports" in found else ""
    view = {"shown": shown, "warnings": found.get("warnings", [])}
    return PageParts("result_tables.html.j2", view, lead)
