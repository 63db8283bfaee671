"""`rappor association`: the joint table of two variables of google/rappor's linked reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decoder.formats.google_association import AssociationFiles
from decoder.options import DecodeOptions
from decoder.workflows.associations import AssociationJob, run_association
from rappor_cli.decode_tables import print_answer


def association(
    reports: Annotated[Path, typer.Option(help="client,cohort,VARIABLE,...", exists=True)],
    schema: Annotated[Path, typer.Option(help="metric,var,var_type,params", exists=True)],
    params_dir: Annotated[Path, typer.Option(help="Folder of PARAMS.csv.", exists=True)],
    metric: Annotated[str, typer.Option(help="Metric of the schema.")],
    var1: Annotated[str, typer.Option(help="First variable.")],
    var2: Annotated[str, typer.Option(help="Second variable.")],
    map1: Annotated[Path | None, typer.Option(help="map.csv of a string.", exists=True)] = None,
    map2: Annotated[Path | None, typer.Option(help="map.csv of a string.", exists=True)] = None,
    em: Annotated[bool, typer.Option(help="Also the table of most likelihood.")] = True,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Level of the test.")] = 0.05,
    level: Annotated[float, typer.Option(min=0, max=1, help="Level of the intervals.")] = 0.95,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results as JSON.")] = False,
) -> None:
    """Decode how two variables of google/rappor's association files go together."""
    files = AssociationFiles(reports, schema, params_dir, metric, (var1, var2), (map1, map2))
    options = DecodeOptions(alpha=alpha, level=level)
    print_answer(run_association(AssociationJob(files, options, em, output)), output, as_json)
