"""Pages and files of maps as `rappor density -o` writes them, from maps in memory."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decoder.density.areas import AreaShares
from decoder.density.maps import Density
from decoder.kinds.location import KIND, MAP, Maps, map_result
from decoder.kinds.result import MANIFEST, RESULTS, Question, Result, StoredResult
from decoder.kinds.run import render_page, write_result
from decoder.output.basemap import BaseLayer
from decoder.output.density_html import map_data
from decoder.progress import silent
from rappor_core.aggregate import Aggregate
from rappor_core.grid.box import Point
from rappor_core.metrics.metric import Metric


def render_maps(
    maps: Sequence[Density],
    points: Sequence[Point] = (),
    notes: Sequence[str] = (),
    base: BaseLayer | None = None,
    areas: Sequence[AreaShares] = (),
) -> str:
    """The page of maps. Arguments as of `map_data`."""
    return render_drawn(maps[0].metric, map_data(maps, points, notes, base, areas))


def render_drawn(metric: Metric, drawn: dict[str, Any]) -> str:
    return render_page(KIND, stored_map(metric, drawn))


def stored_map(metric: Metric, drawn: dict[str, Any], address: str = "") -> StoredResult:
    """The result of what `map_data` gives; address: of a service that serves its data."""
    documents = {
        RESULTS: {"metric": metric.base_name, "num_reports": 1, "warnings": []},
        MANIFEST: {"definition": metric.to_dict(), "params_id": metric.params_id},
        MAP: drawn,
    }
    return StoredResult("decode", frozenset(documents), lambda _: b"", False, address, documents)


def result_of_maps(maps: Sequence[Density], areas: Sequence[AreaShares] = ()) -> Result:
    """What `rappor density` prints and writes of maps."""
    metric = maps[0].metric
    cohorts, bits = metric.params.num_cohorts, metric.params.num_bits
    counts = Aggregate(metric.name, metric.params, (0,) * cohorts, ((0,) * bits,) * cohorts,
                       definition=metric.to_dict())  # fmt: skip
    return map_result(Maps(list(maps), areas=list(areas)), Question(), counts)


def write_maps(
    maps: Sequence[Density], folder: Path, areas: Sequence[AreaShares] = ()
) -> tuple[Path, ...]:
    """Write the files of maps; the tables first."""
    return write_result(result_of_maps(maps, areas), KIND, "decode", folder, silent)


def data_of(page: str) -> dict[str, Any]:
    """What the scripts of a page read."""
    found: dict[str, Any] = json.loads(page.split('id="data">')[1].split("</script>")[0])
    return found


def markup(page: str) -> str:
    """A page without its scripts, whose text has addresses that are never asked for."""
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
