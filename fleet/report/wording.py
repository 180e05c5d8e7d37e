"""Numbers, names and statuses as people read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from fleet.analysis.verdict import NO_OUTCOME
from fleet.model.facts import HostFacts
from fleet.model.result import CellResult, CellStatus
from fleet.model.suite import Rules
from fleet.model.text import make_inert


def make_line(text: str | None, limit: int = 300) -> str:
    """Foreign text as one inert line of at most `limit` characters; empty for None."""
    return " ".join(make_inert(text, limit).split()) if text else ""


def count_things(number: int, thing: str) -> str:
    """`1 host`, `3 hosts`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def format_rate(value: float) -> str:
    """A rate with three or four significant digits: `0.123`, `1.23`, `12.3`, `123`, `1,234`, `12,340`, `1e+20`."""
    if value >= 1e15:
        return f"{value:.3g}"
    if value >= 1000:
        digits = len(str(int(value))) - 4
        return f"{round(value, -digits):,.0f}"
    for least, decimals in ((99.95, 0), (9.995, 1), (0.9995, 2)):
        if value >= least:
            return f"{value:,.{decimals}f}"
    return f"{value:.3g}"


def format_spread(ratio: float) -> str:
    """A relative spread in per cent: `±0.4%`, `±12%`."""
    percent = ratio * 100
    if percent >= 1e6:
        return f"±{percent:.0e}%"
    return f"±{percent:.1f}%" if percent < 9.95 else f"±{percent:.0f}%"


def format_duration(seconds: float) -> str:
    """`42 s`, `6 min 03 s`, `25 min`, `1 h 02 min`; below zero it is `0 s`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def format_time(stamp: str) -> str:
    """An ISO 8601 time to the minute, `2026-12-01 02:30 UTC`; what cannot be read is returned as one inert line."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return make_line(stamp, 40)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def shorten_digest(digest: str | None) -> str:
    """`sha256:0123456789ab…` without the ellipsis: twelve digits, as docker prints them."""
    line = make_line(digest, 100)
    return line.removeprefix("sha256:")[:12]


def say_status(status: str) -> str:
    """A host's status as words: `host key unknown`."""
    return "no outcome" if status == NO_OUTCOME else make_line(status, 40).replace("_", " ")


def say_sentence(text: str, alias: str = "") -> str:
    """What an outcome says as a sentence: a capital where it begins with a word, a full stop.

    Names, addresses and file names keep their case, the host's own `alias` among them.
    """
    first = re.match(r"[a-z]+(?=[ ,;]|$)", text)
    if first and first[0] != alias:
        text = text[0].upper() + text[1:]
    return text if not text or text[-1] in ".!?…" else f"{text}."


def say_end(status: str, stage: str, reason: str, message: str) -> str:
    """How a host or cell ended, without what its message says as well: `preflight failed at probe (docker_missing)`."""
    words = say_status(status)
    if message.lower().startswith(words):
        return words
    known = set(reason.lower().split("_")) <= set(words.split())
    return f"{words}{f' at {stage}' if stage else ''}{f' ({reason})' if reason and not known else ''}"


def say_cell(cell: CellResult) -> str:
    """Why a cell has no value, in a word or two: `OOM`, `host OOM` where it was not the GPU's memory, `no gpu`."""
    if cell.status is CellStatus.OOM:
        return "host OOM" if cell.cell.device == "gpu" and cell.reason == "host_memory" else "OOM"
    if cell.status is CellStatus.UNSUPPORTED and cell.reason:
        return make_line(cell.reason, 24).replace("_", " ")
    return cell.status.value


def say_found(cell: CellResult) -> str:
    """What a cell left open and its host filled in: `batch 208`, `4 GPUs`; empty for most."""
    found = [f"batch {cell.measured.batch_size}"] if cell.cell.batch_size == 0 else []
    if cell.cell.devices == 0:
        found.append(count_things(cell.measured.devices, "GPU"))
    return ", ".join(found)


def say_rules(rules: Rules) -> str:
    """How long each cell is measured, and every rule that changes the number and is not as usual."""
    parts = [
        f"{_say_length(rules.warmup_steps, rules.warmup_s)} of warm-up",
        f"then {_say_length(rules.steps, rules.min_s)}, {rules.max_s:g} s at most",
    ]
    if rules.ci_target:
        parts.append(f"until the median is sure to {rules.ci_target:.2%}")
    if rules.compat:
        parts.append("compat: as tf_cnn_benchmarks to the letter")
    for name, number in (("intra", rules.intra_threads), ("inter", rules.inter_threads)):
        if number:
            parts.append(f"{name}_threads {number}")
    if rules.numa_node is not None:
        parts.append(f"numa_node {rules.numa_node}")
    return ", ".join(parts)


def _say_length(steps: int, seconds: float) -> str:
    return count_things(steps, "step") + (f" and {seconds:g} s" if seconds else "")


def name_hardware(facts: HostFacts | None) -> str:
    """What a host is, in a few words: `8× A100-SXM4-80GB`, or its CPU; empty when not known."""
    return (name_gpus(facts) or shorten_cpu(facts.cpu.model)) if facts else ""


def name_gpus(facts: HostFacts) -> str:
    """The GPUs by name, `8× A100-SXM4-80GB`; empty when there are none."""
    counts = Counter(make_line(gpu.name, 60).removeprefix("NVIDIA ") or "GPU" for gpu in facts.gpus)
    return " + ".join(f"{count}× {name}" for name, count in counts.items())


def shorten_cpu(model: str | None) -> str:
    """A CPU's name without marks and clock: `Intel Xeon Gold 6338`."""
    name = re.sub(r"\((R|TM|tm)\)|\bCPU\b|\bProcessor\b|@.*$|\b\d+-Core\b|\bwith Radeon.*$", " ", make_line(model, 80))
    return " ".join(name.split())


def join_names(names: Sequence[str], limit: int = 6) -> str:
    """`a, b and 5 more`; numbered neighbours are folded first."""
    folded = fold_names(names)
    if len(folded) <= limit:
        return ", ".join(folded)
    return f"{', '.join(folded[:limit])} and {len(folded) - limit} more"


def fold_names(names: Iterable[str]) -> list[str]:
    """Numbered neighbours as an inventory range: gpu01, gpu02, gpu03, x → `gpu[01:03]`, `x`.

    The number may stand before a domain: `gpu[01:03].lab.example.org`.
    """
    folded: list[str] = []
    run: list[_Numbered] = []
    for name in [*names, ""]:
        match = re.fullmatch(r"(.*?)([0-9]{1,9})((?:\.[A-Za-z].*)?)", name)
        here = (match[1], match[2], match[3]) if match else None
        if run and here and _follows(run[-1], here):
            run.append(here)
            continue
        folded += _fold_run(run)
        run = [here] if here else []
        if name and not here:
            folded.append(name)
    return folded


_Numbered = tuple[str, str, str]
"""What stands before the number, the number, what stands after it."""


def _follows(last: _Numbered, here: _Numbered) -> bool:
    same = (last[0], last[2]) == (here[0], here[2])
    return same and f"{int(last[1]) + 1:0{len(last[1])}d}" == here[1]


def _fold_run(run: list[_Numbered]) -> list[str]:
    if len(run) < 3:
        return ["".join(parts) for parts in run]
    before, first, after = run[0]
    return [f"{before}[{first}:{run[-1][1]}]{after}"]
