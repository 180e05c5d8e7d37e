"""The report as one HTML file that opens anywhere, without a network and without a server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from fleet.report.details_model import Details
from fleet.report.failure_groups import FailureGroup, group_failures
from fleet.report.html_charts import Chart
from fleet.report.html_hosts import build_host_sections, build_host_table, link_hosts
from fleet.report.html_sections import Section, build_sections
from fleet.report.setting_lines import SIGNS, name_place
from fleet.report.view_model import View
from fleet.report.wording import fold_names, format_duration, format_time, say_end, say_rules

PLOTLY = "plotly-basic-4.1.1.min.js"
"""plotly.js, the bundle with lines and bars alone: a quarter of the whole, and it evaluates no text as a program.

A newer one is in npm's `plotly.js-basic-dist-min`, with its licence; what the tests say of the file they say anew then.
"""

_EMPTY_STYLE = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
"""SHA-256 of nothing: plotly.js makes an empty style element and adds its rules by script."""


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
    charts = [block.chart for section in sections for block in section.blocks if block.chart is not None]
    style, script = _read_asset("page.css"), _read_asset("page.js")
    plotly = _read_asset(PLOTLY) if charts and plotly_href is None else ""
    return _load_template().render(
        view=view,
        policy=_build_policy(style, [script, *([plotly] if plotly else [])], shared=bool(charts) and not plotly),
        style=style,
        script=script,
        plotly=plotly,
        plotly_href=plotly_href if charts and not plotly else "",
        data=_encode_charts(charts),
        sections=sections,
        failures=_fold_failures(view),
        settings=[(line, name_place(line)) for line in view.settings],
        signs=SIGNS,
        host_table=build_host_table(view.hosts, links),
        hosts=build_host_sections(view.hosts, details.hosts, view.failures, run_href),
        omissions=_say_omissions(details, sections),
        head=_describe_run(view),
        rules=say_rules(view.run.rules),
    )


def read_plotly() -> bytes:
    """plotly.js, for a file of its own beside several pages."""
    return _read_asset(PLOTLY).encode()


@cache
def _read_asset(name: str) -> str:
    return files("fleet.report").joinpath("page", name).read_text(encoding="utf-8")


@cache
def _load_template() -> Template:
    """Everything is escaped in it but what it calls safe: our style and scripts, and JSON without a sign of HTML."""
    environment = Environment(
        loader=PackageLoader("fleet.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _build_policy(style: str, scripts: Sequence[str], *, shared: bool) -> str:
    """Nothing is loaded and nothing runs but what is here by its hash, and what such a script loads where `shared`."""
    allowed = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {allowed}{' ' + _STRICT_DYNAMIC if shared else ''}",
            f"style-src 'sha256-{_hash(style)}' 'sha256-{_EMPTY_STYLE}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


_STRICT_DYNAMIC = "'strict-dynamic'"


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _encode_charts(charts: Sequence[Chart]) -> str:
    """As JSON that ends no element and begins none, wherever it stands in a page."""
    document = [{"data": chart.data, "layout": chart.layout} for chart in charts]
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


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
