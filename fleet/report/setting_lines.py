"""Settings to look at: what the checks found, a line for all hosts of which it is the same, made inert."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.analysis.misconfiguration import Misconfiguration, Severity, find_misconfigurations
from fleet.report.view_model import SettingLine
from fleet.report.wording import fold_names, make_line
from fleet.store.reader import StoredRun

SIGNS: Mapping[Severity, str] = {"fault": "✖", "warning": "▲", "note": "·"}


def build_settings(run: StoredRun) -> tuple[SettingLine, ...]:
    """What of the run's hosts somebody should look at, what is broken first."""
    planned = {host.alias: outcome for host in run.plan.hosts if (outcome := run.outcomes.get(host.alias))}
    alike: dict[tuple[object, ...], list[Misconfiguration]] = {}
    for one in find_misconfigurations(planned):
        alike.setdefault((one.check, one.gpus, one.said), []).append(one)
    return tuple(_build_line(some) for some in alike.values())


def _build_line(alike: list[Misconfiguration]) -> SettingLine:
    one = alike[0]
    return SettingLine(
        check=one.check,
        severity=one.severity,
        hosts=tuple(make_line(each.alias) for each in alike),
        gpus=one.gpus,
        evidence=make_line(one.said.evidence),
        remedy=make_line(one.said.remedy),
    )


def name_place(line: SettingLine) -> str:
    """`gpu[01:03]`, or `gpu07, GPU 0, 2` where it is about GPUs, many of which are `GPU [0:7]`."""
    gpus = f", GPU {', '.join(fold_names(map(str, line.gpus)))}" if line.gpus else ""
    return f"{', '.join(fold_names(line.hosts))}{gpus}"
