"""`rappor aggregate METRIC`: fetch the counts of closed days."""

from __future__ import annotations

import sys

from decoder.files import claim_file
from decoder.sources.collector_client import fetch_aggregate
from rappor_cli import options as shared
from rappor_cli.numbers import read_day
from rappor_cli.store import need_one, stored_counts
from rappor_core.whole_files import write_whole


def aggregate(
    metric: shared.Metric,
    first: shared.FirstDay = None,
    last: shared.LastDay = None,
    params_id: shared.ParamsId = None,
    collector: shared.Collector = None,
    database: shared.Database = None,
    output: shared.FileOrScreen = None,
) -> None:
    """Write the aggregate of METRIC as JSON: reports and bit counts of each cohort."""
    need_one(collector, database)
    if output is not None:
        claim_file(output)
    days = [read_day(text) for text in (first, last)]
    if collector is not None:
        found = fetch_aggregate(collector, metric, params_id=params_id, first=days[0], last=days[1])
    else:
        found = stored_counts(str(database), metric, days[0], days[1], params_id)
    if output is None:
        print(found.to_json())
        return
    write_whole(output, found.to_json())
    window = f"{found.first_day} to {found.last_day}"
    print(f"{output}: {found.num_reports} reports, {window}", file=sys.stderr)
