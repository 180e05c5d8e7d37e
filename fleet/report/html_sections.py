"""The page's sections on what was measured: each a question, its charts and its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from fleet.report.columns import GROUP_ABOVE
from fleet.report.details_model import Details
from fleet.report.html_charts import MOST_SERIES, Chart, draw_batches, draw_energy, draw_precision, draw_scaling
from fleet.report.html_charts import draw_steps as draw_step_trace
from fleet.report.html_matrix import build_matrix_tables, list_shared
from fleet.report.html_page import Block, Section
from fleet.report.html_table import Table
from fleet.report.html_views import (
    build_batch_table,
    build_device_table,
    build_energy_table,
    build_precision_table,
    build_scaling_table,
    build_standing_table,
    build_step_table,
)
from fleet.report.legend import explain_symbols
from fleet.report.view_model import View

_MOST_BARS = 50


Build = Callable[[View, Details, Mapping[str, str]], Section | None]


def build_sections(view: View, details: Details, links: Mapping[str, str]) -> Iterator[Section]:
    """The sections that have something to show, in the order of the page.

    Args:
        links: alias → where on the page its own section is.
    """
    builders: tuple[Build, ...] = (
        _build_standing,
        _build_matrices,
        _build_batches,
        _build_scaling,
        _build_precision,
        _build_devices,
        _build_steps,
        _build_energy,
    )
    for build in builders:
        section = build(view, details, links)
        if section is not None:
            yield section


def _build_standing(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    if not details.standings:
        return None
    blocks = tuple(Block(build_standing_table(standings, links)) for standings in details.standings)
    alike = not any(line.behind for standings in details.standings for line in standings.lines)
    lead = (
        "Nobody can be told from the best in any cell (95 % intervals; 0.5 %): the order says nothing." if alike else ""
    )
    return Section("standing", "Who is fast", lead, blocks, wide=False)


def _build_matrices(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    entries = (entry for matrix in view.matrices for row in matrix.rows for entry in row.entries)
    if not any(entry.kind in {"value", "result"} for entry in entries):
        return None  # the failures above say as much
    standings = {standings.device: standings for standings in details.standings}
    blocks = []
    for matrix in view.matrices:
        shared = list_shared(matrix)
        tables = list(build_matrix_tables(matrix, standings.get(matrix.device), links))
        blocks += [Block(table, note=f"All cells: {shared}." if shared else "") for table in tables]
    lead = "The bar below a value is its part of the best of its cell."
    legend = [
        *explain_symbols(view.matrices, each_host=True),
        *(f"{word} = {meaning}" for word, meaning in view.legend.items()),
    ]
    blocks.append(Block(note=" · ".join(legend)))
    return Section("matrix", "Across machines", lead, tuple(blocks))


def _say_left_out(chart: Chart) -> str:
    return f"The chart has the first {MOST_SERIES}; {chart.left_out} more are in the table." if chart.left_out else ""


def _pair(table: Table, chart: Chart) -> Block:
    return Block(table, chart, _say_left_out(chart))


def _is_wide(blocks: Sequence[Block]) -> bool:
    """Whether one of the charts has too many bars for half of the page."""
    return any(block.chart is not None and block.chart.bars > _MOST_BARS for block in blocks)


def _say_groups(view: View) -> str:
    many = any(len(matrix.hosts) > GROUP_ABOVE for matrix in view.matrices)
    return " Identical hosts are one line: their median." if many else ""


def _build_batches(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    pairs = [_pair(build_batch_table(curve, n), draw_batches(curve)) for n, curve in enumerate(details.batches)]
    lead = f"Up to what does not fit any more.{_say_groups(view)}"
    return Section("batch", "Batch size", lead, tuple(pairs), wide=False) if pairs else None


def _build_scaling(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    pairs = [_pair(build_scaling_table(curve, n), draw_scaling(curve)) for n, curve in enumerate(details.scaling)]
    lead = f"Do N GPUs give N times one? The batch is per GPU (weak scaling).{_say_groups(view)}"
    return Section("scaling", "Scaling over GPUs", lead, tuple(pairs), wide=False) if pairs else None


def _build_precision(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    pairs = [_pair(build_precision_table(gain), draw_precision(gain)) for gain in details.precision]
    lead = f"How many times as fast as fp32 a precision is, on the same host.{_say_groups(view)}"
    return Section("precision", "Precision", lead, tuple(pairs), wide=_is_wide(pairs)) if pairs else None


def _build_devices(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    if details.devices is None:
        return None
    lead = "One GPU against all processors of a CPU host; medians of identical hosts."
    return Section("devices", "CPU against GPU", lead, (Block(build_device_table(details.devices)),))


def _build_steps(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    if details.steps is None:
        return None
    shown, measured = len(details.steps.traces), details.steps.measured
    chosen = f"{shown} of {measured} cells: " if shown < measured else ""
    lead = f"{chosen}those that are not steady first, then those with warm-up among their timed steps, then by scatter."
    blocks = [Block(chart=draw_step_trace(trace)) for trace in details.steps.traces]
    return Section("steps", "Step times", lead, (*blocks, Block(build_step_table(details.steps, links))), wide=False)


def _build_energy(view: View, details: Details, links: Mapping[str, str]) -> Section | None:
    pairs = [
        _pair(build_energy_table(energy), draw_energy(energy))
        for energy in details.energy
        if any(reading and reading.images_per_j for row in energy.rows for reading in row.readings)
    ]
    bare = [
        Block(build_energy_table(energy))
        for energy in details.energy
        if not any(reading and reading.images_per_j for row in energy.rows for reading in row.readings)
    ]
    lead = f"Only where the machine tells its power.{_say_groups(view)}"
    return Section("energy", "Energy", lead, (*pairs, *bare), wide=_is_wide(pairs)) if pairs or bare else None
