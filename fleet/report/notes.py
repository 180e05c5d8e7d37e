"""What a reader of the numbers should know: differences between hosts that are no failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fleet.model.facts import HostFacts
from fleet.model.result import CellStatus, HostOutcome, HostStatus
from fleet.report.view_model import Matrix
from fleet.report.wording import (
    count_things,
    format_duration,
    join_names,
    make_line,
    say_cell,
    shorten_digest,
)
from fleet.store.reader import StoredRun

_CLOCK_TOLERANCE_S = 5.0
_DISTURBED_NAMED = 4

FEW_STEPS = 6
"""Of fewer values not even the lowest and the highest hold the median in 95 % of cases: 1 − 2 ÷ 2ⁿ."""


def find_notes(run: StoredRun, matrices: tuple[Matrix, ...]) -> Iterator[str]:
    """One sentence per difference, the most important first."""
    yield from _note_same_machine(run)
    yield from _note_digests(run)
    yield from _note_difference(
        run,
        "TensorFlow differs",
        lambda outcome: make_line(outcome.software.tensorflow, 40) if outcome.software else "",
        "numbers compare the software too",
    )
    yield from _note_difference(
        run,
        "The NVIDIA driver differs",
        lambda outcome: make_line(outcome.facts.driver, 40) if outcome.facts else "",
        "numbers compare the driver too",
    )
    yield from _note_limits(run)
    yield from _note_unsupported(run)
    yield from _note_disturbed(matrices)
    yield from _note_unsteady(run, matrices)
    yield from _note_few_steps(matrices)
    yield from _note_clocks(run)
    yield from _note_skipped(run)


def _group(run: StoredRun, read: Callable[[HostOutcome], str]) -> dict[str, list[str]]:
    """What `read` finds → the hosts it finds it on. Hosts where it finds nothing are left out."""
    found: dict[str, list[str]] = {}
    for host in run.plan.hosts:
        outcome = run.outcomes.get(host.alias)
        value = read(outcome) if outcome else ""
        if value:
            found.setdefault(value, []).append(make_line(host.alias))
    return found


def _note_difference(run: StoredRun, title: str, read: Callable[[HostOutcome], str], meaning: str) -> Iterator[str]:
    found = _group(run, read)
    if len(found) > 1:
        parts = [f"{value} on {join_names(names, 4)}" for value, names in sorted(found.items())]
        yield f"{title}: {'; '.join(parts)}; {meaning}."


def _note_digests(run: StoredRun) -> Iterator[str]:
    images = _group(run, lambda outcome: make_line(outcome.software.image, 200) if outcome.software else "")
    for image, members in images.items():
        digests = _group(
            run,
            lambda outcome: shorten_digest(outcome.software.image_digest) if outcome.software else "",
        )
        here = {digest: [name for name in names if name in members] for digest, names in digests.items()}
        here = {digest: names for digest, names in here.items() if names}
        if len(here) > 1:
            parts = [f"{digest} on {join_names(names, 4)}" for digest, names in sorted(here.items())]
            yield f"{image} was not the same image everywhere: {'; '.join(parts)}. Pull it again, or name it by digest."


def _note_same_machine(run: StoredRun) -> Iterator[str]:
    machines = _group(run, lambda outcome: (outcome.facts.machine_id_sha256 or "") if outcome.facts else "")
    boots = _group(run, lambda outcome: (outcome.facts.boot_id or "") if outcome.facts else "")
    for names in (names for names in machines.values() if len(names) > 1):
        if any(set(names) <= set(together) for together in boots.values()):
            yield f"{join_names(names)} are one machine under several names (one machine-id, one boot)."
        else:
            said = "cloned disks; give each its own, with systemd-machine-id-setup"
            yield f"{join_names(names)} have one machine-id: {said}."


def _note_limits(run: StoredRun) -> Iterator[str]:
    found = _group(run, _describe_limits)
    if found:
        parts = [f"{limits} on {join_names(names, 4)}" for limits, names in found.items()]
        yield f"Less than the machine was to be used (fleet_runtime_args, control groups): {'; '.join(parts)}."


def _describe_limits(outcome: HostOutcome) -> str:
    """What the payload was kept from, e.g. `0.5 of 2 logical processors, 3.0 of 23.5 GiB memory`; empty for nothing."""
    facts = outcome.facts or HostFacts()
    cpus, threads = outcome.processors, facts.cpu.threads
    limit, memory = outcome.memory_limit_bytes, facts.memory_bytes
    parts = []
    if cpus is not None and threads is not None and cpus < threads:
        parts.append(f"{cpus:.3g} of {threads} logical processors")
    if limit is not None and memory is not None and limit < memory:
        parts.append(f"{limit / 2**30:,.1f} of {memory / 2**30:,.1f} GiB memory")
    return ", ".join(parts)


def _note_unsupported(run: StoredRun) -> Iterator[str]:
    """What a machine or its TensorFlow lacks, and what to do: a matrix has room for the word alone."""
    found: dict[str, list[tuple[str, str]]] = {}
    for host in run.plan.hosts:
        outcome = run.outcomes.get(host.alias)
        for cell in outcome.cells if outcome else ():
            if cell.status is CellStatus.UNSUPPORTED and not cell.failed:
                said = make_line(cell.message, 600) or "It gave no reason."
                found.setdefault(say_cell(cell), []).append((make_line(host.alias), said))
    for word, told in found.items():
        names, sentences = (list(dict.fromkeys(texts)) for texts in zip(*told, strict=True))
        more = f" And {len(sentences) - 1} more like it, in fleet report --json." if len(sentences) > 1 else ""
        yield f"{word}, {count_things(len(told), 'cell')} on {join_names(names)}: {sentences[0]}{more}"


def _note_disturbed(matrices: tuple[Matrix, ...]) -> Iterator[str]:
    entries = [entry for matrix in matrices for row in matrix.rows for entry in row.entries]
    disturbed = [entry for entry in entries if entry.disturbed]
    if disturbed:
        share = f"{len(disturbed)} of {count_things(sum(entry.kind == 'value' for entry in entries), 'value')}"
        verb = "was" if len(disturbed) == 1 else "were"
        first: dict[str, str] = {}
        for entry in disturbed:
            first.setdefault(entry.alias, entry.disturbed)
        named = [f"{alias} ({took})" for alias, took in list(first.items())[:_DISTURBED_NAMED]]
        more = f" and {len(first) - len(named)} more" if len(first) > len(named) else ""
        yield (
            f"{share} {verb} measured while others used the host: {', '.join(named)}{more}. "
            "Measure again when it is idle, with --wait-idle 10m."
        )


def _note_unsteady(run: StoredRun, matrices: tuple[Matrix, ...]) -> Iterator[str]:
    entries = [entry for matrix in matrices for row in matrix.rows for entry in row.entries]
    unsteady = [entry.alias for entry in entries if entry.steady is False]
    if unsteady:
        share = f"{len(unsteady)} of {count_things(sum(entry.kind == 'value' for entry in entries), 'value')}"
        names = join_names(list(dict.fromkeys(unsteady)))
        longer = f"a suite whose min_s is above {run.plan.rules.min_s:g}"
        if run.plan.suite == "smoke":
            longer = "--suite quick"
        verb = "was" if len(unsteady) == 1 else "were"
        yield (
            f"{share} {verb} not steady (second half over 1 % off the first), on {names}: "
            f"see what else runs there, or measure longer, with {longer}."
        )


def _note_few_steps(matrices: tuple[Matrix, ...]) -> Iterator[str]:
    values = [entry for matrix in matrices for row in matrix.rows for entry in row.entries if entry.kind == "value"]
    few = [entry for entry in values if entry.steps is not None and entry.steps < FEW_STEPS]
    if few:
        counts = sorted({entry.steps for entry in few if entry.steps is not None})
        steps = count_things(counts[0], "step") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} steps"
        verb = "rests" if len(few) == 1 else "rest"
        names = join_names(list(dict.fromkeys(entry.alias for entry in few)))
        yield (
            f"{len(few)} of {count_things(len(values), 'value')} {verb} on {steps}, on {names}: too few to say how "
            "sure it is, or whether it was steady. Measure longer, with a suite whose max_s is larger."
        )


def _note_clocks(run: StoredRun) -> Iterator[str]:
    for host in run.plan.hosts:
        outcome = run.outcomes.get(host.alias)
        offset = outcome.facts.clock_offset_s if outcome and outcome.facts else None
        if offset is not None and abs(offset) > _CLOCK_TOLERANCE_S:
            side = "ahead of" if offset > 0 else "behind"
            apart = format_duration(abs(offset))
            yield f"{make_line(host.alias)}: its clock is {apart} {side} the control node's; set it by NTP."


def _note_skipped(run: StoredRun) -> Iterator[str]:
    skipped = [
        make_line(host.alias)
        for host in run.plan.hosts
        if not host.cells and (outcome := run.outcomes.get(host.alias)) and outcome.status is HostStatus.SKIPPED
    ]
    if skipped:
        yield f"Suite {make_line(run.plan.suite, 80)} has no cells for {join_names(skipped)}."
