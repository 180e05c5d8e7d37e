"""The tables of the further views: every figure that a chart draws is in one of them."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.report.details_model import (
    BatchCurve,
    BatchLine,
    BatchPoint,
    DeviceRatios,
    Energy,
    EnergyReading,
    PrecisionGain,
    ScalingCurve,
    ScalingLine,
    ScalingPoint,
    Standings,
    StepTraces,
)
from fleet.report.html_table import (
    Head,
    Table,
    TableCell,
    choose_bar,
    format_percent,
    write_number,
    write_rate,
    write_ratio,
    write_word,
)
from fleet.report.wording import count_things, format_rate

_UNPLANNED = TableCell("—", style="n unplanned")

_IDLE = 1.2
"""A GPU that gains less than this by fp16 or bf16 hardly uses its tensor cores."""


def build_standing_table(standings: Standings, links: Mapping[str, str]) -> Table:
    many = any(len(line.aliases) > 1 for line in standings.lines)
    heads = [
        Head("hardware" if many else "host", numeric=False),
        Head("relative"),
        Head("cells"),
        Head("behind", "in so many of them it can be told from the best"),
    ]
    heads += [Head("slowest", numeric=False)] if many else []
    rows = []
    for line in standings.lines:
        name = TableCell(line.label, href=links.get(line.aliases[0], "") if not many else "")
        bar = TableCell(format_percent(line.relative), value=line.relative, style=f"n {choose_bar(line.relative)}")
        cells = TableCell(f"{line.cells} of {standings.cells}", value=line.cells, style="n")
        slowest = TableCell(f"{line.slowest}, {format_percent(line.lowest)}" if line.slowest else "—")
        behind = TableCell(str(line.behind), value=line.behind, style="n")
        rows.append((name, bar, cells, behind, *([slowest] if many else [])))
    what = "medians of identical hosts" if many else "hosts"
    caption = (
        f"{standings.device.upper()}: {what} beside the best of each cell, "
        "geometric mean over the cells that each has; 100 % is best everywhere"
    )
    return Table(f"standing-{standings.device}", caption, tuple(heads), tuple(rows), filtered=len(rows) > 16)


def build_batch_table(curve: BatchCurve, number: int) -> Table:
    sizes = sorted({point.batch_size for line in curve.lines for point in line.points})
    heads = (
        Head("host", numeric=False),
        *(Head(f"batch {size}") for size in sizes),
        Head("95 % from", "the smallest batch with 95 % of the best rate"),
        Head("memory ends"),
    )
    rows = tuple(_write_batch_line(line, sizes) for line in curve.lines)
    return Table(f"batch-{number}", f"{curve.workload}: images per second by batch size per device", heads, rows)


def _write_batch_line(line: BatchLine, sizes: list[int]) -> tuple[TableCell, ...]:
    points = {point.batch_size: _write_point(point, best=point.batch_size == line.best) for point in line.points}
    ends = f"at {line.memory_ends}" if line.memory_ends else "not reached"
    return (
        TableCell(line.label),
        *(points.get(size, _UNPLANNED) for size in sizes),
        write_number(line.enough),
        TableCell(ends, value=line.memory_ends, style="n"),
    )


def build_scaling_table(curve: ScalingCurve, number: int) -> Table:
    counts = sorted({point.devices for line in curve.lines for point in line.points})
    heads = (Head("host", numeric=False), *(Head(count_things(count, "GPU")) for count in counts))
    rows = tuple(_write_scaling_line(line, counts) for line in curve.lines)
    caption = f"{curve.workload}: images per second, and efficiency (rate per GPU ÷ rate per GPU of the fewest)"
    return Table(f"scaling-{number}", caption, heads, rows)


def _write_scaling_line(line: ScalingLine, counts: list[int]) -> tuple[TableCell, ...]:
    points = {point.devices: _write_point(point, share=point.efficiency) for point in line.points}
    return (TableCell(line.label), *(points.get(count, _UNPLANNED) for count in counts))


def _write_point(point: BatchPoint | ScalingPoint, *, best: bool = False, share: float | None = None) -> TableCell:
    """The rate, with the share of it said below; else the word for why there is none."""
    if point.images_per_s is None:
        return write_word(point.word, point.kind)
    return write_rate(
        point.images_per_s, best=best, share=share, small=format_percent(share) if share is not None else ""
    )


def build_precision_table(gain: PrecisionGain) -> Table:
    heads = (
        Head("cell", numeric=False),
        Head("precision", numeric=False),
        *(Head(label) for label in gain.labels),
    )
    rows = []
    for row in gain.rows:
        cells = [write_ratio(ratio) for ratio in row.ratios]
        if gain.device == "gpu" and row.precision in {"fp16", "bf16"}:
            cells = [_flag_idle(cell) for cell in cells]
        rows.append((TableCell(row.workload), TableCell(row.precision), *cells))
    caption = f"{gain.device.upper()}: rate ÷ rate in fp32 on the same host"
    return Table(f"precision-{gain.device}", caption, heads, tuple(rows))


def _flag_idle(cell: TableCell) -> TableCell:
    if cell.value is None or cell.value >= _IDLE:
        return cell
    return TableCell(f"▲ {cell.text}", "tensor cores idle?", cell.value, "n result")


def build_device_table(ratios: DeviceRatios) -> Table:
    heads = (
        Head("cell", numeric=False),
        Head("CPU host", numeric=False),
        Head("its images/s", "all its processors"),
        *(Head(label, "one GPU") for label in ratios.labels),
    )
    rows = tuple(
        (
            TableCell(row.workload, row.batches),
            TableCell(row.cpu),
            write_rate(row.cpu_images_per_s),
            *(write_ratio(ratio) for ratio in row.ratios),
        )
        for row in ratios.rows
    )
    return Table("devices-table", "How many times as fast as a CPU host one GPU is", heads, rows)


def build_step_table(steps: StepTraces, links: Mapping[str, str]) -> Table:
    heads = (
        Head("host", numeric=False),
        Head("cell", numeric=False),
        Head("5 %", "of steps are faster, ms"),
        Head("median", "ms"),
        Head("95 %", "of steps are faster, ms"),
        Head("warm-up", "before the first timed step", numeric=False),
        Head("dropped", "timed, and warm-up still"),
        Head("steady", numeric=False),
    )
    rows = tuple(
        (
            TableCell(trace.alias, href=links.get(trace.alias, "")),
            TableCell(trace.cell_id),
            *(write_number(time / 1000) for time in (trace.p05_us, trace.median_us, trace.p95_us)),
            TableCell(f"{count_things(trace.warmup_steps, 'step')}, {format_rate(trace.warmup_s)} s"),
            TableCell(f"{trace.dropped_steps} of {trace.steps}", value=trace.dropped_steps, style="n"),
            TableCell("✔ yes") if trace.steady else TableCell("~ no", style="result"),
        )
        for trace in steps.traces
    )
    return Table("steps-table", "Step times of the cells drawn here", heads, rows)


def build_energy_table(energy: Energy) -> Table:
    heads = (Head("cell", numeric=False), *(Head(label) for label in energy.labels))
    best = [max((r.images_per_j for r in row.readings if r and r.images_per_j), default=0.0) for row in energy.rows]
    rows = tuple(
        (TableCell(row.workload), *(_write_energy(reading, top) for reading in row.readings))
        for row, top in zip(energy.rows, best, strict=True)
    )
    basis = (
        "the cards that took part, without their host; power is one card's, and part of its limit in force"
        if energy.device == "gpu"
        else "all processor packages (RAPL), without memory and the rest of the host"
    )
    return Table(f"energy-{energy.device}", f"Images per joule of {basis}", heads, rows)


def _write_energy(reading: EnergyReading | None, top: float) -> TableCell:
    if reading is None:
        return _UNPLANNED
    said = [f"{format_rate(reading.power_w)} W"] if reading.power_w is not None else []
    said += [format_percent(reading.limit_share)] if reading.limit_share is not None else []
    if reading.images_per_j is None:
        return TableCell("—", " = ".join(said), style="n")
    share = reading.images_per_j / top if top > 0 else None
    return write_rate(reading.images_per_j, share=share, small=" = ".join(said))
