"""A run laid beside published figures, in their layout: one line a machine and model, one column a batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fleet.analysis.verdict import is_measured
from fleet.model.reference import ReferenceRow, ReferenceSet
from fleet.model.result import CellResult, HostOutcome
from fleet.model.suite import Cell
from fleet.report.wording import count_things, make_line, name_hardware
from fleet.store.reader import StoredRun


@dataclass(frozen=True)
class Place:
    """One machine, model and batch size, images per second."""

    images_per_s: float | None = None
    word: str = ""
    """`OOM`: it did not fit. Empty beside no value: not measured, or not reported."""
    ratio: float | None = None
    """÷ the published figure."""


@dataclass(frozen=True)
class ReferenceLine:
    machine: str
    """A host's name, or the machine as its source names it."""
    published: bool
    model: str
    precision: str
    gpus: int
    places: tuple[Place, ...]
    """By batch size, in the set's order."""


@dataclass(frozen=True)
class ReferenceView:
    id: str
    title: str
    source: str
    run_id: str
    batch_sizes: tuple[int, ...]
    lines: tuple[ReferenceLine, ...]
    """A published line, and below it the hosts that measured the same."""
    count: int
    """Figures that have a counterpart."""
    total: int
    unlike: tuple[str, ...]
    """What is not alike, a sentence each."""
    schema: Literal["fleet.reference-comparison/1"] = "fleet.reference-comparison/1"


def build_reference_view(run: StoredRun, reference: ReferenceSet) -> ReferenceView:
    """Lay the hosts of a run beside the figures of the same model, precision, batch size and number of devices."""
    lines: list[ReferenceLine] = []
    empty: list[ReferenceRow] = []
    for row in reference.rows:
        ours = [line for host in run.plan.hosts if (line := _build_host_line(run, host.alias, row, reference))]
        if ours:
            lines += [_build_published_line(row), *ours]
        else:
            empty.append(row)
    places = [place for line in lines if not line.published for place in line.places]
    return ReferenceView(
        id=reference.id,
        title=make_line(reference.title),
        source=make_line(reference.source),
        run_id=run.plan.run_id,
        batch_sizes=reference.batch_sizes,
        lines=tuple(lines),
        count=sum(place.ratio is not None for place in places),
        total=sum(isinstance(rate, float) for row in reference.rows for rate in row.images_per_s),
        unlike=_list_unlike(run, reference, empty) if lines else (),
    )


def _build_published_line(row: ReferenceRow) -> ReferenceLine:
    places = tuple(Place(rate) if isinstance(rate, float) else Place(word=rate or "") for rate in row.images_per_s)
    return ReferenceLine(make_line(row.device), True, row.model, row.precision, row.gpus, places)


def _build_host_line(run: StoredRun, alias: str, row: ReferenceRow, reference: ReferenceSet) -> ReferenceLine | None:
    outcome = run.outcomes.get(alias)
    found = (
        {cell.measured.batch_size: cell for cell in outcome.cells if _is_like(cell.measured, row)} if outcome else {}
    )
    places = tuple(
        _build_place(found.get(size), published)
        for size, published in zip(reference.batch_sizes, row.images_per_s, strict=True)
    )
    if all(place == Place() for place in places):
        return None
    return ReferenceLine(make_line(alias), False, row.model, row.precision, row.gpus, places)


def _is_like(cell: Cell, row: ReferenceRow) -> bool:
    device, devices = ("gpu", row.gpus) if row.gpus else ("cpu", 1)
    same = (cell.model, cell.precision, cell.device, cell.devices) == (row.model, row.precision, device, devices)
    return same and cell.phase == "train" and not cell.variants


def _build_place(cell: CellResult | None, published: float | str | None) -> Place:
    if cell is None:
        return Place()
    if not is_measured(cell) or cell.throughput is None:
        return Place(word="OOM" if cell.status == "oom" else cell.status.value)
    rate = cell.throughput.images_per_s
    return Place(rate, ratio=rate / published if isinstance(published, float) else None)


def _list_unlike(run: StoredRun, reference: ReferenceSet, empty: Sequence[ReferenceRow]) -> tuple[str, ...]:
    kinds = {(bool(row.gpus), row.device) for row in reference.rows}
    sentences = [
        f"The machines: {_join(device for _, device in sorted(kinds))} there, {_name_machines(run)} here.",
        f"The software: {reference.image} there, {_name_software(run)} here.",
        f"The benchmark: {reference.workload} there; fleet's protocol here, which warms up until it is steady"
        + (" and is cut short by this suite's rules." if run.plan.rules.min_s < 10 else "."),
    ]
    if reference.note:
        sentences.append(f"Of the figures: {' '.join(reference.note.split())}")
    gpus = sum(row.gpus > 0 for row in empty)
    for count, kind in ((gpus, "GPUs"), (len(empty) - gpus, "processors")):
        if count:
            have = "has" if count == 1 else "have"
            sentences.append(f"{count_things(count, 'row')} of {kind} {have} no counterpart in this run.")
    return tuple(make_line(sentence, 600) for sentence in sentences)


def _name_machines(run: StoredRun) -> str:
    return _join(_name_machine(outcome) for outcome in run.outcomes.values() if outcome.facts)


def _name_machine(outcome: HostOutcome) -> str:
    facts = outcome.facts
    threads = outcome.processors or (facts.cpu.threads if facts else None)
    of = f" with {threads:.4g} processor{'' if threads == 1 else 's'}" if threads and facts and not facts.gpus else ""
    return (name_hardware(facts) or "an unknown machine") + of


def _name_software(run: StoredRun) -> str:
    return _join(_name_tensorflow(outcome) for outcome in run.outcomes.values() if outcome.software)


def _name_tensorflow(outcome: HostOutcome) -> str:
    software = outcome.software
    version = software.tensorflow if software else None
    return f"TensorFlow {version}" if version else "an unknown TensorFlow"


def _join(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names)) or "nothing known"
