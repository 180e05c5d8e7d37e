"""Settings that cost speed: each check on a host that has it, and on one that has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleet.analysis.misconfiguration import Misconfiguration, find_misconfigurations
from fleet.model.facts import Cpu, Gpu, HostFacts, Software
from fleet.model.result import CellStatus, Execution, HostOutcome
from fleet.model.telemetry import GpuApp, GpuTelemetry
from tests.run_builder import Ending, make_cells, make_outcome, make_plan, make_telemetry

PLAN = make_plan({"gpu01": make_cells("gpu", 2)})
SOUND = {
    "name": "NVIDIA A100",
    "memory_bytes": 80 << 30,
    "power_limit_w": 400.0,
    "power_default_w": 400.0,
    "ecc": "Enabled",
    "mig": "Disabled",
    "persistence": "Enabled",
    "pcie_gen_max": 4,
    "pcie_width_max": 16,
    "rows_pending": False,
    "rows_failed": False,
}
BUSY = {
    "pcie_gen": 4,
    "pcie_width": 16,
    "ecc_uncorrected_delta": 0,
    "pcie_replays_delta": 3,
    "throttle_s": {"sw_power_cap": 9.0, "hw_slowdown": 0.05},  # of two cells of 10 s
    "others_before": (),
}
CPU = Cpu(model="a CPU", governor="performance", vector_extensions=("avx", "avx2", "fma"))


def make(
    card: Mapping[str, Any] | None = None, did: Mapping[str, Any] | None = None, cpu: Cpu = CPU, **changed: Any
) -> HostOutcome:
    """A host with two A100s, of which the second is as `card` says and did as `did` says in both cells."""
    cards = [Gpu(index=place, uuid=f"u{place}", **{**SOUND, **(card or {} if place else {})}) for place in range(2)]
    seen = [
        GpuTelemetry(uuid=f"u{place}", pci_bus_id="0", samples=9, **{**BUSY, **(did or {} if place else {})})
        for place in range(2)
    ]
    outcome = make_outcome(PLAN.hosts[0], PLAN, Ending(facts=HostFacts(cpu=cpu, gpus=tuple(cards))))
    cells = [cell.model_copy(update={"telemetry": make_telemetry(gpus=tuple(seen))}) for cell in outcome.cells]
    return outcome.model_copy(update={"cells": tuple(cells), **changed})


def find(outcome: HostOutcome, **others: HostOutcome) -> list[Misconfiguration]:
    return [one for one in find_misconfigurations({"gpu01": outcome, **others}) if one.alias == "gpu01"]


def test_a_sound_host_has_nothing_to_look_at() -> None:
    assert find_misconfigurations({name: make() for name in ("gpu01", "gpu02", "gpu03")}) == ()
    bare = make_outcome(PLAN.hosts[0], PLAN, Ending(facts=None))
    assert find_misconfigurations({"gpu01": bare}) == ()


@pytest.mark.parametrize(
    ("card", "check", "severity", "evidence", "remedy"),
    [
        (
            {"power_limit_w": 250.0},
            "power_limit",
            "warning",
            "power limit 250 W, and the card's default is 400 W",
            "until the next boot: nvidia-smi -i 1 -pl 400",
        ),
        (
            {"rows_failed": True},
            "rows_failed",
            "fault",
            "rows of its memory could not be replaced by spare ones",
            "have the card replaced; see: nvidia-smi -i 1 -q -d ROW_REMAPPER",
        ),
        (
            {"rows_pending": True},
            "rows_pending",
            "warning",
            "rows of its memory wait for a reset to be replaced",
            "when nobody uses it: nvidia-smi -i 1 -r, or reboot",
        ),
        (
            {"persistence": "Disabled"},
            "persistence",
            "note",
            "persistence mode is off",
            "systemctl enable --now nvidia-persistenced, or nvidia-smi -i 1 -pm 1",
        ),
    ],
)
def test_how_a_card_is_set(card: dict[str, Any], check: str, severity: str, evidence: str, remedy: str) -> None:
    (found,) = find(make(card))
    assert (found.check, found.severity, found.gpus) == (check, severity, (1,))
    assert tuple(found.said) == (evidence, remedy)


@pytest.mark.parametrize(
    ("did", "check", "evidence"),
    [
        ({"pcie_gen": 3, "pcie_width": 8}, "pcie_link", "PCIe generation 3 of 4 and width 8 of 16 under load"),
        ({"pcie_width": 4}, "pcie_link", "PCIe width 4 of 16 under load"),
        ({"ecc_uncorrected_delta": 2}, "memory_errors", "4 memory errors that ECC could not correct while it was"),
        ({"pcie_replays_delta": 5}, "pcie_replays", "10 PCIe packets were sent anew in 1 min"),
        ({"throttle_s": {"hw_slowdown": 2.0, "hw_thermal": 1.2, "sw_thermal": 0.1}}, "throttling", (
            "slowed down by heat (hardware) 12 %, by heat (driver) 1 % of the timed steps"
        )),
        ({"throttle_s": {"hw_slowdown": 5.0}}, "throttling", "slowed down by the hardware 50 % of the timed steps"),
        ({"throttle_s": {"hw_power_brake": 0.5}}, "throttling", "slowed down by the power brake 5 % of the timed"),
        ({"throttle_s": {"applications_clocks": 9.0}}, "clocks_set", "held to clocks that somebody has set, 90 %"),
        (
            {"others_before": (GpuApp(pid=7, name="/opt/bin/python3", memory_bytes=9 << 30),)},
            "other_processes",
            "used by python3 (pid 7) while it was measured",
        ),
    ],
)  # fmt: skip
def test_what_a_card_did(did: dict[str, Any], check: str, evidence: str) -> None:
    (found,) = find(make(did=did))
    assert (found.check, found.gpus) == (check, (1,))
    assert found.said.evidence.startswith(evidence)
    assert "nvidia-smi -q" not in found.said.remedy  # always of the one card


def test_a_link_of_which_the_most_is_not_known_is_not_judged() -> None:
    assert find(make({"pcie_gen_max": None, "pcie_width_max": None}, {"pcie_gen": 1})) == []
    assert find(make({}, {"pcie_gen": None, "pcie_width": 0})) == []


@pytest.mark.parametrize("field", ["ecc", "mig"])
def test_a_mode_is_held_against_most_hosts_with_the_same_card(field: str) -> None:
    value = {"ecc": "Disabled", "mig": "Enabled"}[field]
    # ECC takes memory from some cards: other hardware by its size.
    odd = make({field: value, "memory_bytes": 75 << 30})
    (found,) = find(odd, gpu02=make(), gpu03=make())
    assert found.said.evidence == f"{field.upper()} {value}, and {SOUND[field]} on most hosts with this card"
    command = {"ecc": "then reboot: nvidia-smi -i 1 -e 1", "mig": "when nobody uses it: nvidia-smi -i 1 -mig 0"}
    assert found.said.remedy == command[field]
    assert find(odd, gpu02=make()) == []
    assert find(odd, gpu02=odd, gpu03=make(), gpu04=make(), gpu05=odd) == []


def test_persistence_is_told_with_what_others_have() -> None:
    off = Gpu(index=0, name="NVIDIA A100", persistence="Disabled")
    host = make_outcome(PLAN.hosts[0], PLAN, Ending(facts=HostFacts(gpus=(off,))))
    (found,) = find(host, gpu02=make(), gpu03=make(), gpu04=make())
    assert found.said.evidence == "persistence mode is off, and on for most hosts with this card"
    assert found.said.remedy == "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1"


@pytest.mark.parametrize(
    ("cpu", "found"),
    [
        (Cpu(), []),
        (Cpu(governor="powersave"), [("note", "governor", "CPU governor powersave")]),
        (
            Cpu(vector_extensions=()),
            [("fault", "no_avx", "the CPU has no AVX, without which TensorFlow does not start")],
        ),
        (Cpu(vector_extensions=("avx",)), [("warning", "no_avx2", "the CPU has AVX, but no AVX2 and no FMA")]),
        (Cpu(vector_extensions=("avx", "avx2", "fma", "avx512f")), []),
    ],
)
def test_processors(cpu: Cpu, found: list[tuple[str, str, str]]) -> None:
    assert [(one.severity, one.check, one.said.evidence) for one in find(make(cpu=cpu))] == found


def test_tf32_where_fp32_was_asked_for() -> None:
    first, second = make().cells
    refused = first.model_copy(update={"status": CellStatus.UNSUPPORTED, "reason": "fp32_rounded"})
    measured = second.model_copy(
        update={"execution": Execution(intra_threads=1, inter_threads=1, multiply_bits=10, tf32_allowed=True)}
    )
    (found,) = find(make(cells=(refused, measured)))
    assert (found.check, found.severity) == ("tf32", "warning")
    assert f"in 2 of 2 cells, {first.cell_id} the first" in found.said.evidence
    whole = second.model_copy(update={"execution": Execution(intra_threads=1, inter_threads=1, multiply_bits=23)})
    asked = measured.model_copy(update={"cell": measured.cell.model_copy(update={"precision": "tf32"})})
    assert find(make(cells=(whole, asked))) == []


@pytest.mark.parametrize(
    ("name", "value", "check"),
    [
        ("TF_XLA_FLAGS", "--tf_xla_auto_jit=2", "xla"),
        ("TF_XLA_FLAGS", "--tf_xla_auto_jit=0", None),
        ("TF_XLA_FLAGS", "--tf_xla_min_cluster_size=4", None),
        ("TF_ENABLE_AUTO_MIXED_PRECISION", "1", "mixed_precision"),
        ("TF_ENABLE_AUTO_MIXED_PRECISION", "0", None),
    ],
)
def test_variables_of_the_image(name: str, value: str, check: str | None) -> None:
    found = find(make(software=Software(environment={name: value})))
    assert [one.check for one in found] == ([check] if check else [])
    assert all(f"by {name}={value}; fleet measures without it" in one.said.evidence for one in found)


def test_what_is_broken_comes_first_and_all_cards_of_a_host_need_no_choice() -> None:
    host = make({"rows_failed": True}, cpu=Cpu(governor="ondemand"))
    facts = host.facts or HostFacts()
    cards = tuple(card.model_copy(update={"power_limit_w": 300.0}) for card in facts.gpus)
    found = find(host.model_copy(update={"facts": facts.model_copy(update={"gpus": cards})}))
    assert [(one.severity, one.check, one.gpus) for one in found] == [
        ("fault", "rows_failed", (1,)),
        ("warning", "power_limit", (0, 1)),
        ("note", "governor", ()),
    ]
    assert found[1].said.remedy == "until the next boot: nvidia-smi -pl 400"


def test_any_number_of_a_host_is_told() -> None:
    huge = 10**4000
    did = {"ecc_uncorrected_delta": huge, "pcie_replays_delta": huge, "throttle_s": {"hw_thermal": 1e308}}
    found = {one.check: one.said.evidence for one in find(make(did=did))}
    assert found["memory_errors"].startswith("1000000000 memory errors")
    assert found["throttling"] == "slowed down by heat (hardware) 100 % of the timed steps"
    negative = {"ecc_uncorrected_delta": -5, "pcie_replays_delta": -huge, "throttle_s": {"hw_thermal": -1.0}}
    assert find(make(did=negative)) == []
