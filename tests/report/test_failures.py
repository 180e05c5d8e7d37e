"""Failures as people read them: alike ones once, as sentences, with one thing to do."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from fleet.model.result import CellStatus, HostStatus, Stage
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from fleet.report.wording import say_end, say_sentence
from fleet.store.reader import StoredRun
from tests.run_builder import Ending, make_cells, make_plan, store_run

CELLS = make_cells("cpu", 6)
NO_IMAGE = Ending(
    status=HostStatus.PREFLIGHT_FAILED,
    stage=Stage.PULL,
    reason="image_not_found",
    message="the image lab:1 is not on the host and no registry gives it",
    hint="Check fleet_image.",
)


def distrust(alias: str) -> Ending:
    return Ending(
        status=HostStatus.HOST_KEY_UNKNOWN,
        stage=Stage.CONNECT,
        reason="unknown",
        message=f"{alias}:22 showed the host key SHA256:of-{alias}.",
        hint=f"Compare it, then `fleet hosts trust -i lab.yaml --limit {alias}`.",
        facts=None,
    )


def print_run(run: StoredRun, width: int = 200) -> str:
    file = io.StringIO()
    render_terminal(build_view(run), Console(file=file, width=width))
    return file.getvalue()


def test_alike_failures_are_told_once_with_one_hint(tmp_path: Path) -> None:
    plan = make_plan({f"srv{i:02d}": CELLS for i in range(1, 8)})
    endings = {f"srv{i:02d}": NO_IMAGE for i in (1, 2, 3)}
    endings |= {alias: distrust(alias) for alias in ("srv05", "srv06")}
    endings |= {"srv04": Ending(), "srv07": Ending()}
    lines = print_run(store_run(tmp_path, plan, endings)).splitlines()
    start = lines.index("Failures (5)")
    assert lines[start + 2 : start + 9] == [
        "✖ srv[01:03]  preflight failed at pull (image_not_found)",
        "    The image lab:1 is not on the host and no registry gives it. → Check fleet_image.",
        "✖ srv05, srv06  host key unknown at connect",
        "    srv05: srv05:22 showed the host key SHA256:of-srv05.",
        "    srv06: srv06:22 showed the host key SHA256:of-srv06.",
        "    → Compare it, then `fleet hosts trust -i lab.yaml --limit srv05:srv06`.",
        "",
    ]


@pytest.mark.parametrize(("limit", "said"), [(None, "-i lab.yaml`."), ("gpu:!x", "-i lab.yaml --limit 'gpu:!x'`.")])
def test_a_hint_for_all_hosts_has_the_runs_own_limit(tmp_path: Path, limit: str | None, said: str) -> None:
    aliases = [f"srv{i:03d}" for i in range(100)]
    plan = make_plan(dict.fromkeys(aliases, CELLS)).model_copy(update={"limit": limit})
    text = print_run(store_run(tmp_path, plan, {alias: distrust(alias) for alias in aliases}))
    assert f"fleet hosts trust {said}" in text
    assert text.count("showed the host key") == 8
    assert "    And 92 more, in fleet report --json.\n" in text
    assert "images per second" not in text  # nothing was measured: a matrix would say the same again
    assert len(text.splitlines()) < 30


def test_other_cells_and_other_remedies_stay_apart(tmp_path: Path) -> None:
    crash = Ending(status=HostStatus.PARTIAL, words=dict.fromkeys(range(4), (CellStatus.CRASH, "signal")))
    less = Ending(status=HostStatus.PARTIAL, words={0: (CellStatus.CRASH, "signal")})
    plan = make_plan(dict.fromkeys(["a", "b", "c"], CELLS))
    text = print_run(store_run(tmp_path, plan, {"a": crash, "b": crash, "c": less}))
    assert "✖ a, b  crash at measure (signal)\n" in text
    assert f"{CELLS[2].id} and 1 more cell: The cell ended as crash. Look at its log." in text
    assert "✖ c  crash at measure (signal)\n" in text


def test_what_is_said_is_a_sentence() -> None:
    said = {
        "the job was ended after 60 s": "The job was ended after 60 s.",
        "cancelled while it ran": "Cancelled while it ran.",
        "docker does not answer (exit status 1)": "Docker does not answer (exit status 1).",
        "gpu04:22 refused the connection.": "gpu04:22 refused the connection.",
        "exit.json is of another job": "exit.json is of another job.",
        "alice has no shell": "alice has no shell.",
        "Why?": "Why?",
        "cut off…": "Cut off…",
        "": "",
    }
    assert {text: say_sentence(text, "alice") for text in said} == said


def test_an_end_says_nothing_twice() -> None:
    assert say_end("host_key_unknown", "connect", "unknown", "It is new.") == "host key unknown at connect"
    assert say_end("cancelled", "run", "cancelled", "Cancelled while it ran.") == "cancelled"
    assert say_end("timed_out", "run", "deadline", "Ended after 60 s.") == "timed out at run (deadline)"
    assert say_end("no_outcome", "", "no_outcome", "Nothing.") == "no outcome"


def test_a_domain_that_all_names_share_is_said_once(tmp_path: Path) -> None:
    aliases = [f"rack-a-node{i:02d}.cluster.example.org" for i in range(1, 5)]
    plan = make_plan(dict.fromkeys(aliases, CELLS))
    text = print_run(store_run(tmp_path, plan, dict.fromkeys(aliases[:3], Ending()) | {aliases[3]: NO_IMAGE}), 80)
    tables, failures = text.split("Failures (1)")
    assert tables.count(".cluster.example.org") == 1
    assert "all hosts: their names end in .cluster.example.org" in tables
    assert re.search(r"^rack-a-node04 +preflight failed +0/6 .* —$", tables, re.MULTILINE)  # the job never started
    assert f"✖ {aliases[3]}  preflight failed" in failures
    assert all(line == line.rstrip() for line in text.splitlines())
