"""The report as one HTML file that opens anywhere, without a network and without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.report.details_model import Details
from fleet.report.failure_groups import FailureGroup, group_failures
from fleet.report.html_hosts import build_host_sections, build_host_table, link_hosts
from fleet.report.html_page import Section, render_page
from fleet.report.html_sections import build_sections
from fleet.report.setting_lines import SIGNS, name_place
from fleet.report.view_model import View
from fleet.report.wording import fold_names, format_duration, format_time, say_end, say_rules


@dataclass(frozen=True)
class Folded:
    """Hosts that failed in the same way, as the page says it."""

    names: str
    count: int
    end: str
    cells: tuple[str, ...]
    messages: tuple[tuple[str, str], ...]
    """Whom a sentence is about, where it is not all of them, and the sentence."""
    hint: str


def render_html(view: View, details: Details, *, run_href: str = "", plotly_href: str | None = None) -> str:
    """The whole page. The same run gives the same bytes.

    Args:
        run_href: address of the run's directory as seen from the page, with a `/` at its end; empty: the page's own.
        plotly_href: where plotly.js lies as seen from the page; None: it is part of the page.
    """
    links = link_hosts(view.hosts)
    sections = tuple(build_sections(view, details, links))
    return render_page(
        "report.html.j2",
        sections,
        plotly_href,
        view=view,
        failures=_fold_failures(view),
        settings=[(line, name_place(line)) for line in view.settings],
        signs=SIGNS,
        host_table=build_host_table(view.hosts, links),
        hosts=build_host_sections(view.hosts, details.hosts, view.failures, run_href),
        omissions=_say_omissions(details, sections),
        head=_describe_run(view),
        rules=say_rules(view.run.rules),
    )


def _fold_failures(view: View) -> tuple[Folded, ...]:
    planned = [host.alias for host in view.hosts]
    return tuple(_fold(group) for group in group_failures(view.failures, planned, view.run.limit))


def _fold(group: FailureGroup) -> Folded:
    alone = len(group.messages) == 1
    return Folded(
        names=", ".join(fold_names(group.aliases)),
        count=len(group.aliases),
        end=say_end(group.status, group.stage, group.reason, group.messages[0][1]),
        cells=group.cells,
        messages=tuple(
            ("" if alone or message.startswith(names[0]) else ", ".join(fold_names(names)), message)
            for names, message in group.messages
        ),
        hint=group.hint,
    )


_VIEWS = {
    "standing": "Who is fast",
    "batch": "Batch size",
    "scaling": "Scaling over GPUs",
    "precision": "Precision",
    "devices": "CPU against GPU",
    "steps": "Step times",
    "energy": "Energy",
}


def _say_omissions(details: Details, sections: Sequence[Section]) -> tuple[tuple[str, str], ...]:
    """Title and reason of each view that is not there."""
    there = {section.name for section in sections}
    return tuple(
        (_VIEWS[omission.view], omission.reason) for omission in details.omissions if omission.view not in there
    )


def _describe_run(view: View) -> tuple[tuple[str, str], ...]:
    run = view.run
    parts = (
        ("run", run.run_id),
        ("suite", run.suite),
        ("inventory", run.inventory),
        ("limit", run.limit or ""),
        ("began", format_time(run.created)),
        ("took", format_duration(run.took_s) if run.took_s is not None else ""),
        ("fleet", run.fleet_version),
    )
    return tuple((name, value) for name, value in parts if value)
