"""A page as one HTML file that opens anywhere: its frame, what may run in it, and what draws its charts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from fleet.report.html_charts import Chart
from fleet.report.html_table import Table

PLOTLY = "plotly-basic-4.1.1.min.js"
"""plotly.js, the bundle with lines and bars alone: a quarter of the whole, and it evaluates no text as a program.

A newer one is in npm's `plotly.js-basic-dist-min`, with its licence; what the tests say of the file they say anew then.
"""

_EMPTY_STYLE = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
"""SHA-256 of nothing: plotly.js makes an empty style element and adds its rules by script."""

_STRICT_DYNAMIC = "'strict-dynamic'"


@dataclass(frozen=True)
class Block:
    """A chart, a table, or both: then the table folds up below what it says."""

    table: Table | None = None
    chart: Chart | None = None
    note: str = ""


@dataclass(frozen=True)
class Section:
    name: str
    """A word of ours; the section's fragment."""
    title: str
    lead: str
    blocks: tuple[Block, ...]
    wide: bool = True
    """Whether each block takes the whole width."""


def render_page(template: str, sections: Sequence[Section], plotly_href: str | None, **values: object) -> str:
    """The whole page. The same values give the same bytes.

    Args:
        template: one of those beside the style sheet, which fills the frame's blocks.
        plotly_href: where plotly.js lies as seen from the page; None: it is part of the page.
        values: what the template names beyond the sections.
    """
    charts = [block.chart for section in sections for block in section.blocks if block.chart is not None]
    style, script = _read_asset("page.css"), _read_asset("page.js")
    plotly = _read_asset(PLOTLY) if charts and plotly_href is None else ""
    return _load_template(template).render(
        policy=_build_policy(style, [script, *([plotly] if plotly else [])], shared=bool(charts) and not plotly),
        style=style,
        script=script,
        plotly=plotly,
        plotly_href=plotly_href if charts and not plotly else "",
        data=_encode_charts(charts),
        sections=sections,
        **values,
    )


def read_plotly() -> bytes:
    """plotly.js, for a file of its own beside several pages."""
    return _read_asset(PLOTLY).encode()


@cache
def _read_asset(name: str) -> str:
    return files("fleet.report").joinpath("page", name).read_text(encoding="utf-8")


@cache
def _load_template(name: str) -> Template:
    """Everything is escaped in it but what it calls safe: our style and scripts, and JSON without a sign of HTML."""
    environment = Environment(
        loader=PackageLoader("fleet.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


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


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _encode_charts(charts: Sequence[Chart]) -> str:
    """As JSON that ends no element and begins none, wherever it stands in a page."""
    document = [{"data": chart.data, "layout": chart.layout} | ({"x": chart.x} if chart.x else {}) for chart in charts]
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
