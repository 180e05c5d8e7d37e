"""A run beside published figures, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from fleet.report.reference_view import Place, ReferenceLine, ReferenceView
from fleet.report.terminal_blocks import Column, Ink, print_blocks, print_indented
from fleet.report.wording import format_rate


def render_reference(view: ReferenceView, console: Console) -> None:
    """Print the published table with one's own hosts in it, and what is not alike."""
    ink = Ink.of(console)
    print_indented(console, Text.assemble(ink.text(view.title, "bold")), 0)
    print_indented(console, ink.text(f"{view.source} · beside run {view.run_id}", "dim"), 0)
    console.print()
    if not view.lines:
        print_indented(
            console, ink.text("This run measured nothing that was published. A suite that does: standard."), 0
        )
        return
    head = ink.text("Images per second, higher is better; × is this run ÷ published", "dim")
    print_indented(console, head, 0)
    console.print()
    print_blocks(
        console, _build_keys(view, ink), [_build_column(view, place, ink) for place in range(len(view.batch_sizes))]
    )
    print_indented(console, ink.text(f"{view.count} of {view.total} published figures have a counterpart", "dim"), 0)
    console.print()
    console.print(ink.text("What is not alike", "bold"))
    console.print()
    for sentence in view.unlike:
        print_indented(console, Text.assemble(ink.text("· ", "dim"), ink.text(sentence)), 0)
    console.print()


def _build_keys(view: ReferenceView, ink: Ink) -> list[Column]:
    def write(line: ReferenceLine, text: str) -> Text:
        return ink.text(text if line.published else "", "dim")

    machines = tuple(ink.text(line.machine, "dim" if line.published else "bold") for line in view.lines)
    return [
        Column(ink.text("model"), tuple(write(line, line.model) for line in view.lines)),
        Column(ink.text("precision"), tuple(write(line, line.precision) for line in view.lines)),
        Column(ink.text("GPUs"), tuple(write(line, str(line.gpus or "—")) for line in view.lines), "right"),
        Column(ink.text("machine"), machines),
    ]


def _build_column(view: ReferenceView, place: int, ink: Ink) -> Column:
    cells = tuple(_write_place(line.places[place], line.published, ink) for line in view.lines)
    return Column(ink.text(f"batch {view.batch_sizes[place]}"), cells, "right", numeric=True)


def _write_place(place: Place, published: bool, ink: Ink) -> Text:
    if place.images_per_s is None:
        return ink.text(place.word or "—", "yellow" if place.word and not published else "dim")
    rate = ink.text(format_rate(place.images_per_s), "dim" if published else "")
    if place.ratio is None:
        return rate
    return Text.assemble(rate, ink.text(f"  ×{format_rate(place.ratio)}", "bold"))
