"""Jobs of kind `density`: maps of a location metric, by slot and window."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder.comparison.differences import Differences
from decoder.density.maps import Density
from decoder.files import write_json
from decoder.output.density_html import map_data, view_of
from decoder.output.map_changes import map_changes
from decoder.progress import Note, Progress, quiet
from decoder.sources.density_windows import LocationWindows, SplitName
from decoder.workflows.maps import MapJob, Maps, run_maps, write_maps
from decoder_service.job_kinds.of_values import MOST_SHOWN, level_words
from decoder_service.jobs.kinds import JobInputs, JobKind, StoredResult
from decoder_service.jobs.known_counts import KnownCounts
from decoder_service.lists.contents import file_name
from decoder_service.lists.rows import ListKind
from rappor_core.aggregate import Aggregate

if TYPE_CHECKING:
    from decoder.output.tables import TableQuery
    from decoder_service.jobs.specs import JobSpec, WindowSpec

MAP, CHANGES = "map.json", "map_changes.json"
_OPTIONS = {"method": "map_method", "alpha": "alpha", "level": "level", "repeats": "repeats"}


@dataclass(frozen=True)
class _PlaceCounts:
    """Aggregates of places that are there already."""

    aggregates: tuple[Aggregate, ...]

    def read(self, metric: str, note: Note = quiet) -> Iterator[Aggregate]:
        """All of them."""
        del metric, note
        return iter(self.aggregates)


class DensityJob(JobKind):
    """Maps of a location."""

    name = "density"
    title = "Maps"
    purpose = "maps of a location metric, by slot and window"
    template = "result_density.html.j2"
    members = frozenset({"map", "areas"})
    tables = ("density.json", "density.csv", "density.parquet", "density.gpkg", "density.geojson")
    metric_kind = "location"
    of_places = True
    metric_is_argument = True
    published = ("density.csv", "density.geojson")
    compared = True
    has_map_changes = True

    def check(self, spec: JobSpec, counts: Sequence[Sequence[KnownCounts] | None]) -> None:
        """Nothing: slots, levels and windows are many metrics."""

    def in_parts(self, spec: JobSpec) -> bool:
        """Whether there is a map for each part of the window."""
        return spec.map.split != SplitName.WHOLE

    def fetch(
        self, spec: JobSpec, window: WindowSpec, collector: str, note: Note
    ) -> Iterable[Aggregate]:
        """Those of every slot and level, by the parts of the window."""
        days = (window.first, window.last)
        return LocationWindows(collector, days, spec.map.split).read(window.metric, note)

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Map every slot and window."""
        choices = inputs.spec.map
        source = _PlaceCounts(inputs.groups[0])
        job = MapJob(inputs.metric, source, choices.slots, choices.options(), areas=inputs.areas)
        maps = run_maps(job, progress)
        progress("writing files", 0, 1)
        write_maps(maps, inputs.folder, inputs.notes, every_window=True)
        return _write(maps, inputs.folder, inputs.notes)

    def in_list(self, summary: Mapping[str, Any]) -> str:
        """The result in a list of results: how many maps, of how many cells."""
        return f"{summary['num_maps']} maps of {summary['num_cells']:,} cells"

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """The variables of the page before its script draws the maps."""
        del query
        if MAP not in result.files:  # of pairs of places there are tables alone
            return {"has_map": False}
        shown = {"has_map": True, "data_url": f"/results/{result.id}/map.json"}
        return shown | view_of(json.loads(result.read(MAP)))

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """`rappor density` with the options of the job."""
        choices, words = spec.map, ["--method", spec.map.method]
        if spec.source.collector:  # a file is a window of its own
            words += ["--by", choices.split.value]
        words += level_words(choices.alpha, choices.level, choices.repeats)
        words += [word for slot in choices.slots for word in ("--slot", slot)]
        if spec.areas is not None:
            words += ["--areas", file_name(ListKind.AREAS, spec.areas.list, spec.areas.version)]
        # Every window in the GeoJSON, as a job writes it.
        return ["rappor", "density", metric, *sources[0], *words, "--every-window"]

    def comparing(
        self, spec: Mapping[str, Any], before: Sequence[str], after: Sequence[str]
    ) -> list[tuple[str, str]]:
        """One series of maps of both."""
        choices = spec["map"]
        fields = [("kind", self.name)]
        fields += [("aggregates", sha) for sha in dict.fromkeys([*before, *after])]
        fields += [("slots", slot) for slot in choices["slots"]]
        fields.append(("split", choices["split"]))
        if spec.get("areas"):
            fields.append(("areas", f"{spec['areas']['list']}:{spec['areas']['version']}"))
        return fields + [
            (field, str(choices[name]))
            for name, field in _OPTIONS.items()
            if choices.get(name) is not None
        ]


def _write(maps: Maps, folder: Path, notes: Sequence[str]) -> dict[str, Any]:
    """Add density.json, with what changed between windows, map.json and map_changes.json; the
    summary.

    The last two are what pages of the service draw; there are none of pairs of places, and no
    changes where no slot has two windows.
    """
    listed = [_map(one) for one in maps.densities]
    found = {slot: (one.cells, one.since_first) for slot, one in maps.last().items()}
    changes = {slot: _moved(cells, one) for slot, (cells, one) in found.items() if one}
    write_json({"maps": listed, "changes": changes}, folder / "density.json", indent=1)
    if not maps.densities[0].places.pairs:
        _write_drawn(
            map_data(
                maps.densities, maps.points, [*maps.area_notes, *notes], maps.base, maps.areas
            ),
            folder / MAP,
        )
        moved = map_changes(maps.densities)
        if moved is not None:
            _write_drawn(moved, folder / CHANGES)
    warnings = [text for one in listed for text in one["warnings"]]
    return {
        "num_maps": len(listed),
        "num_cells": maps.densities[0].num_cells,
        "num_reports": sum(one["num_reports"] for one in listed),
        "slots": list(dict.fromkeys(one["slot"] for one in listed)),
        "warnings": list(dict.fromkeys(warnings))[:MOST_SHOWN],
    }


def _write_drawn(content: dict[str, Any], path: Path) -> None:
    """Write what a script draws, without blanks."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    path.write_text(text, encoding="utf-8")


def _map(one: Density) -> dict[str, Any]:
    return {
        "slot": one.location.slot,
        "first_day": str(one.first_day) if one.first_day else None,
        "last_day": str(one.last_day) if one.last_day else None,
        "num_reports": one.num_reports,
        "detectable_share": one.detectable_share,
        "unlisted": one.unlisted,
        "source": one.source,
        "check": asdict(one.check) if one.check else None,
        "warnings": list(one.warnings),
    }


def _moved(cells: Sequence[str], change: Differences) -> dict[str, Any]:
    """From the first window of a slot to its last."""
    return {"cells": list(cells), **{name: part.tolist() for name, part in vars(change).items()}}


KIND = DensityJob()
