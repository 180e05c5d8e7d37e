"""A view as JSON, for machines."""

from __future__ import annotations

import json
from dataclasses import asdict

from fleet.report.view_model import Matrix, View

SCHEMA = "fleet.report/1"


def render_json(view: View) -> str:
    """The report as one JSON document (`fleet.report/1`), keys sorted, ASCII, a newline at its end.

    The same view gives the same bytes. Rates are images per second, times and sizes carry their unit in the key;
    unknown is null or an empty string.
    """
    document = {
        "schema": SCHEMA,
        "run": {**vars(view.run), "rules": view.run.rules.model_dump(mode="json")},
        "verdict": {**asdict(view.verdict), "coverage": view.verdict.coverage},
        "matrices": [_describe_matrix(matrix) for matrix in view.matrices],
        "hosts": [asdict(host) for host in view.hosts],
        "failures": [asdict(failure) for failure in view.failures],
        "notes": list(view.notes),
        "to_come": view.to_come,
        "changes": list(view.changes),
        "settings": [asdict(line) for line in view.settings],
    }
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def _describe_matrix(matrix: Matrix) -> dict[str, object]:
    return {
        "device": matrix.device,
        "hosts": list(matrix.hosts),
        "hardware": [asdict(group) for group in matrix.groups],
        "rows": [
            {
                "cell_id": row.cell_id,
                "cell": row.cell.model_dump(mode="json"),
                "results": [asdict(entry) for entry in row.entries],
                "by_hardware": [asdict(entry) for entry in row.groups],
            }
            for row in matrix.rows
        ],
    }
