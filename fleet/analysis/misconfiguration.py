"""How hosts are set, as far as it costs speed or makes numbers hard to compare: checks that need no statistics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from fleet.analysis.examined import Examined, examine
from fleet.model.disturbance import list_others, name_app
from fleet.model.facts import Gpu, Software
from fleet.model.result import HostOutcome

Severity = Literal["fault", "warning", "note"]
"""`fault`: something is broken. `warning`: it costs speed, or the numbers are another thing's. `note`: it may."""

_THROTTLED = 0.01
"""The part of the timed steps from which on throttling counts: one sample of a minute is less."""

_CLOCKS_SET = 0.5
"""The part of the timed steps from which on clocks that somebody has set count: they are the rule then."""

_REPLAYS_PER_MINUTE = 8
"""The most that NVIDIA takes for a sound link (DCGM, `DCGM_LIMIT_MAX_PCIREPLAY_RATE`)."""

_MOST = 1_000_000_000
"""Whatever a host counted, it is told as no more."""


class Said(NamedTuple):
    """What one check says."""

    evidence: str
    """What was seen. Words of hosts are in it as they came."""
    remedy: str
    """What to do. Its commands are for the host, and no word of a host is in them."""


@dataclass(frozen=True)
class Misconfiguration:
    """One thing that somebody should look at, on one host."""

    check: str
    """Which of the checks found it."""
    severity: Severity
    alias: str
    gpus: tuple[int, ...]
    """By their indexes; empty: it is of the host itself."""
    said: Said


def find_misconfigurations(outcomes: Mapping[str, HostOutcome]) -> tuple[Misconfiguration, ...]:
    """What of these hosts somebody should look at, what is broken first, then in the order of the checks.

    Args:
        outcomes: by alias, all of one run.
    """
    examined = examine(outcomes)
    found: list[Misconfiguration] = []
    for name, (severity, look) in _HOST_CHECKS.items():
        told = ((alias, look(host)) for alias, host in examined.items())
        found += [Misconfiguration(name, severity, alias, (), said) for alias, said in told if said]
    for name, (severity, see) in _CARD_CHECKS.items():
        for alias, host in examined.items():
            found += [Misconfiguration(name, severity, alias, *rest) for rest in _see_cards(host, see)]
    order: tuple[Severity, ...] = ("fault", "warning", "note")
    return tuple(sorted(found, key=lambda one: order.index(one.severity)))


def _see_cards(host: Examined, see: Callable[[Examined, Gpu], Said | None]) -> Iterator[tuple[tuple[int, ...], Said]]:
    """What is said of the cards, each once, with the indexes of those it is said of; so are its commands."""
    cards = host.facts.gpus
    told: dict[Said, list[int]] = {}
    for place, card in enumerate(cards):
        if said := see(host, card):
            told.setdefault(said, []).append(place if card.index is None else card.index)
    for said, indexes in told.items():
        these = "" if len(indexes) == len(cards) else f" -i {','.join(map(str, indexes))}"
        yield tuple(indexes), said._replace(remedy=said.remedy.replace("nvidia-smi", f"nvidia-smi{these}"))


def _count(numbers: Iterable[int | None]) -> int:
    return min(sum(max(0, number or 0) for number in numbers), _MOST)


def _see_failed_rows(host: Examined, card: Gpu) -> Said | None:
    remedy = "have the card replaced; see: nvidia-smi -q -d ROW_REMAPPER"
    return Said("rows of its memory could not be replaced by spare ones", remedy) if card.rows_failed else None


def _see_pending_rows(host: Examined, card: Gpu) -> Said | None:
    remedy = "when nobody uses it: nvidia-smi -r, or reboot"
    return Said("rows of its memory wait for a reset to be replaced", remedy) if card.rows_pending else None


def _see_memory_errors(host: Examined, card: Gpu) -> Said | None:
    count = _count(gpu.ecc_uncorrected_delta for _, gpu in host.watch(card))
    remedy = "reset it, and have it replaced when they come again; see: nvidia-smi -q -d ECC"
    return Said(f"{count} memory errors that ECC could not correct while it was measured", remedy) if count else None


def _see_power_limit(host: Examined, card: Gpu) -> Said | None:
    limit, default = card.power_limit_w, card.power_default_w
    if limit is None or default is None or limit >= default:
        return None
    evidence = f"power limit {limit:g} W, and the card's default is {default:g} W"
    return Said(evidence, f"until the next boot: nvidia-smi -pl {default:g}")


def _see_pcie_link(host: Examined, card: Gpu) -> Said | None:
    """Links slow down when idle: only what was seen under load counts, and of it the best."""
    seen = [gpu for _, gpu in host.watch(card)]
    links = (
        ("generation", [gpu.pcie_gen for gpu in seen], card.pcie_gen_max),
        ("width", [gpu.pcie_width for gpu in seen], card.pcie_width_max),
    )
    best = [(name, max((value for value in values if value), default=0), most) for name, values, most in links]
    slow = [f"{name} {value} of {most}" for name, value, most in best if most is not None and 0 < value < most]
    remedy = "seat the card anew, and see the slot's settings in the BIOS; to look: nvidia-smi -q"
    return Said(f"PCIe {' and '.join(slow)} under load", remedy) if slow else None


def _see_pcie_replays(host: Examined, card: Gpu) -> Said | None:
    seen = host.watch(card)
    count, minutes = _count(gpu.pcie_replays_delta for _, gpu in seen), max(1.0, sum(s for s, _ in seen) / 60)
    evidence = f"{count} PCIe packets were sent anew in {minutes:.0f} min"
    remedy = "seat the card, its riser and its cables anew"
    return Said(evidence, remedy) if count > _REPLAYS_PER_MINUTE * minutes else None


def _see_throttling(host: Examined, card: Gpu) -> Said | None:
    shares = _sum_throttling(host, card)
    told = {words: shares.get(reason, 0.0) for reason, words in _BRAKES.items()}
    told = {words: share for words, share in told.items() if share >= _THROTTLED}
    if not told and shares.get("hw_slowdown", 0.0) >= _THROTTLED:
        told = {"by the hardware": shares["hw_slowdown"]}
    parts = [f"{words} {share * 100:.0f} %" for words, share in told.items()]
    remedy = "see to its cooling and its power supply; to look: nvidia-smi -q -d PERFORMANCE,TEMPERATURE"
    return Said(f"slowed down {', '.join(parts)} of the timed steps", remedy) if parts else None


_BRAKES = {"hw_thermal": "by heat (hardware)", "sw_thermal": "by heat (driver)", "hw_power_brake": "by the power brake"}
"""hw_slowdown comes with the first and the last of these, which say why. sw_power_cap is usual under load."""


def _sum_throttling(host: Examined, card: Gpu) -> dict[str, float]:
    """By reason, the part of the timed steps, 0 to 1."""
    seen = [(seconds, gpu.throttle_s) for seconds, gpu in host.watch(card) if gpu.throttle_s is not None]
    whole, reasons = sum(seconds for seconds, _ in seen), {reason for _, of in seen for reason in of}
    sums = {reason: sum(of.get(reason, 0.0) for _, of in seen) for reason in reasons}
    return {reason: min(1.0, seconds / whole) for reason, seconds in sums.items()} if whole > 0 else {}


def _see_clocks(host: Examined, card: Gpu) -> Said | None:
    share = _sum_throttling(host, card).get("applications_clocks", 0.0)
    evidence = f"held to clocks that somebody has set, {share * 100:.0f} % of the timed steps"
    return Said(evidence, "nvidia-smi -rac, and nvidia-smi -rgc") if share >= _CLOCKS_SET else None


def _compare_mode(host: Examined, card: Gpu, field: str, name: str, switch: str) -> Said | None:
    value, usual = getattr(card, field), host.usual.get((card.name, field))
    if not value or not usual or value == usual:
        return None
    number = {"Enabled": " 1", "Disabled": " 0"}.get(usual)
    return Said(f"{name} {value}, and {usual} on most hosts with this card", switch + number if number else "")


def _see_no_persistence(host: Examined, card: Gpu) -> Said | None:
    """Without it the driver is set up anew for every process, and forgets what was set."""
    if card.persistence != "Disabled":
        return None
    unlike = ", and on for most hosts with this card" if host.usual.get((card.name, "persistence")) == "Enabled" else ""
    return Said(f"persistence mode is off{unlike}", "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1")


def _see_others(host: Examined, card: Gpu) -> Said | None:
    apps = [app for _, gpu in host.watch(card) for app in list_others(gpu, host.outcome)]
    names = {app.pid: f"{name_app(app)}{'' if app.pid is None else f' (pid {app.pid})'}" for app in apps}
    evidence = f"used by {', '.join(names.values())} while it was measured"
    return Said(evidence, "measure when it is idle: fleet run --wait-idle 10m") if names else None


def _find_no_avx(host: Examined) -> Said | None:
    known = host.facts.cpu.vector_extensions
    if known is None or "avx" in known:
        return None
    return Said("the CPU has no AVX, without which TensorFlow does not start", _TYPE)


def _find_no_avx2(host: Examined) -> Said | None:
    known = host.facts.cpu.vector_extensions
    lacking = [name.upper() for name in ("avx2", "fma") if name not in (known or ())]
    if known is None or "avx" not in known or not lacking:
        return None
    return Said(f"the CPU has AVX, but no {' and no '.join(lacking)}", _TYPE)


_TYPE = "in a virtual machine: give it the CPU type of its host"


def _find_governor(host: Examined) -> Said | None:
    governor = host.facts.cpu.governor
    remedy = "until the next boot: cpupower frequency-set -g performance"
    return Said(f"CPU governor {governor}", remedy) if governor and governor != "performance" else None


def _find_tf32(host: Examined) -> Said | None:
    """A cell that the payload refused for it, or measured all the same because it was an older one."""
    asked = [cell for cell in host.outcome.cells if cell.cell.precision == "fp32"]
    bits = [(cell.cell_id, cell.reason, cell.execution and cell.execution.multiply_bits) for cell in asked]
    rounded = [cell_id for cell_id, reason, kept in bits if reason == "fp32_rounded" or (kept or 23) < 23]
    if not rounded:
        return None
    cells = f"in {len(rounded)} of {len(asked)} cells, {rounded[0]} the first"
    evidence = f"float32 is rounded as in TF32 where fp32 was asked for, {cells}"
    return Said(evidence, "see what sets NVIDIA_TF32_OVERRIDE or the like in the image, or ask for tf32")


def _find_variable(host: Examined, name: str, pattern: str, meaning: str) -> Said | None:
    """fleet keeps it from its cells, but nobody keeps it from other programs in that image."""
    value = (host.outcome.software or Software()).environment.get(name, "")
    evidence = f"{meaning} by {name}={value}; fleet measures without it"
    found = re.search(pattern, value)
    return Said(evidence, f"leave {name} out of the image and of fleet_runtime_args") if found else None


_XLA = partial(_find_variable, name="TF_XLA_FLAGS", pattern=r"tf_xla_auto_jit=(?!0|-1)", meaning="XLA is on")
_MIXED = partial(
    _find_variable, name="TF_ENABLE_AUTO_MIXED_PRECISION", pattern=r"^(1|true)$", meaning="fp32 becomes fp16"
)
_ECC = partial(_compare_mode, field="ecc", name="ECC", switch="then reboot: nvidia-smi -e")
_MIG = partial(_compare_mode, field="mig", name="MIG", switch="when nobody uses it: nvidia-smi -mig")


_HOST_CHECKS: Mapping[str, tuple[Severity, Callable[[Examined], Said | None]]] = {
    "no_avx": ("fault", _find_no_avx),
    "no_avx2": ("warning", _find_no_avx2),
    "tf32": ("warning", _find_tf32),
    "governor": ("note", _find_governor),
    "xla": ("note", _XLA),
    "mixed_precision": ("note", _MIXED),
}

_CARD_CHECKS: Mapping[str, tuple[Severity, Callable[[Examined, Gpu], Said | None]]] = {
    "rows_failed": ("fault", _see_failed_rows),
    "memory_errors": ("fault", _see_memory_errors),
    "rows_pending": ("warning", _see_pending_rows),
    "power_limit": ("warning", _see_power_limit),
    "pcie_link": ("warning", _see_pcie_link),
    "pcie_replays": ("warning", _see_pcie_replays),
    "throttling": ("warning", _see_throttling),
    "other_processes": ("warning", _see_others),
    "ecc": ("warning", _ECC),
    "mig": ("warning", _MIG),
    "persistence": ("note", _see_no_persistence),
    "clocks_set": ("note", _see_clocks),
}
