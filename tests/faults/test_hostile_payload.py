"""A payload, or whoever is root in its container, that writes what it likes in the place of results."""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.model.result import HostOutcome
from tests.conftest import RunFleet
from tests.faults import hostile_payload
from tests.faults.conftest import FleetRun
from tests.faults.hostile_payload import CUT_OFF, EVIL, damage
from tests.faults.traces import find_traces
from tests.lab.hosts import LabHost
from tests.lab.inventory import write_inventory
from tests.lab.lab import Lab

pytestmark = [pytest.mark.needs("ssh", "docker"), pytest.mark.timeout(300)]

CELLS = 20
SUITE = f"""
name: hostile
rules: {{warmup_steps: 1, steps: 2, max_s: 5, cell_timeout_s: 120}}
cells:
  - {{models: [alexnet_conv], phases: [forward], batch_sizes: {[*range(1, CELLS + 1)]}, on: [cpu]}}
"""
DAMAGED = {
    1: "Unterminated string|delimiter|Expecting",
    2: "empty",
    3: "NaN is not a number",
    4: "1e999 is too large",
    5: "-Infinity is not a number",
    6: "nested too deep",
    7: "too large|Expecting|delimiter",
    8: "a key stands twice",
    9: "BOM",
    10: "hex escape",
    11: "not UTF-8",
    12: "another job or cell",
    13: "index: Input should be",
    17: "Expecting value",
}
"""By the place of the cell, what is said of its document: one of these."""

ABSENT = (14, 15, 16)
"""A pipe, a link and a directory: nothing of them is taken."""

NAMES = ("lies", "dies", "good")


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str
    peak_bytes: int
    outcomes: Mapping[str, HostOutcome]
    hosts: Mapping[str, LabHost]
    kept: Path
    """What the run keeps of the host that lies."""


@pytest.fixture(scope="module")
def finished(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    here = tmp_path_factory.mktemp("hostile")
    (here / "plant").mkdir()
    shutil.copy(hostile_payload.__file__, here / "plant" / "sitecustomize.py")
    machines = lab.add_hosts(len(NAMES))
    hosts = dict(zip(NAMES, machines, strict=True))
    plant = ["--env", "PYTHONPATH=/plant", "--volume", f"{here}/plant:/plant:ro"]
    overrides = {
        hosts[name].alias: {"fleet_runtime_args": [*plant, "--env", f"HOSTILE={name}"]} for name in ("lies", "dies")
    }
    inventory = write_inventory(here / "lab.yaml", machines, overrides=overrides)
    (here / "suite.yaml").write_text(SUITE)
    run = FleetRun(here, inventory, here / "suite.yaml")
    try:
        code, out, err = run.wait()
        stored = run.load()
        outcomes = {name: stored.outcomes[host.alias] for name, host in hosts.items()}
        kept = stored.path / "hosts" / hosts["lies"].alias
        yield Finished(code, out, err, run.peak_bytes, outcomes, hosts, kept)
    finally:
        run.kill()
        lab.remove_hosts(machines)


def test_each_lie_costs_its_own_cell(finished: Finished) -> None:
    outcome = finished.outcomes["lies"]

    assert (outcome.status, outcome.reason) == ("result_invalid", "document"), outcome.message
    for place, cell in enumerate(outcome.cells):
        if place in DAMAGED:
            assert (cell.status, cell.reason) == ("lost", "document_invalid"), place
            assert any(words in (cell.message or "") for words in DAMAGED[place].split("|")), (place, cell.message)
        elif place in ABSENT:
            assert (cell.status, cell.reason) == ("lost", "no_document"), place
        else:
            assert cell.status == ("crash" if place == 18 else "ok"), place
    assert len(outcome.cells) == CELLS


def test_what_came_is_kept_byte_for_byte_and_no_more_of_it(finished: Finished) -> None:
    cells = finished.kept / "cells"
    kept = {path.name: path.read_bytes() for path in cells.iterdir()}

    assert sorted(kept) == [f"{place:03d}.json" for place in range(CELLS) if place not in ABSENT]
    assert kept["002.json"] == b""
    assert kept["017.json"] == bytes(CUT_OFF)
    assert len(kept["007.json"]) == CUT_OFF
    good = kept["019.json"].decode()
    for place in (6, 8, 9, 10, 11):
        assert len(kept[f"{place:03d}.json"]) == pytest.approx(len(damage(good)[place]), abs=40)
    assert kept["009.json"].startswith(b"\xef\xbb\xbf{")
    assert sum(map(len, kept.values())) < 4 << 20
    assert finished.peak_bytes < 300 << 20


def test_others_are_measured_and_told(finished: Finished) -> None:
    dead = finished.outcomes["dies"]

    assert finished.code == 3, finished.err
    assert (dead.status, dead.reason) == ("failed", "payload_failed"), dead.message
    assert "[/red]<script>alert(1)</script>" in dead.message
    good = finished.outcomes["good"]
    assert (good.status, {cell.status for cell in good.cells}) == ("ok", {"ok"})


def test_what_it_says_is_text_everywhere(finished: Finished, run_fleet: RunFleet) -> None:
    reports = ("--reports", str(finished.kept.parents[3]))
    document = run_fleet("report", "--json", *reports).stdout
    shown = [finished.out, finished.err, document, run_fleet("report", *reports, env={"COLUMNS": "500"}).stdout]
    assert json.loads(document)["schema"] == "fleet.report/1"
    for text in shown:
        assert "Traceback" not in text
        assert not {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n"}
    assert EVIL.rpartition("\u200b")[2] in shown[-1]


def test_nothing_is_left_on_the_hosts(finished: Finished) -> None:
    left = {name: found for name, host in finished.hosts.items() if (found := find_traces(host))}
    assert not left, left
