"""The view of a run: totals, words, and nothing a host could act with."""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path

import pytest
from rich.console import Console

from fleet.model.facts import Cpu, Gpu, HostFacts
from fleet.model.result import CellStatus, HostStatus, Stage
from fleet.report.details import build_details
from fleet.report.document import make_document
from fleet.report.json_form import write_document
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from fleet.report.wording import (
    fold_names,
    format_duration,
    format_rate,
    format_spread,
    format_time,
    name_hardware,
    shorten_cpu,
)
from fleet.store.reader import StoredRun
from fleet.store.rundir import Store
from tests.documents import check_document
from tests.run_builder import DIGEST, RUN_ID, Ending, make_cells, make_facts, make_plan, store_run

CELLS = make_cells("cpu", 3)
HOSTILE = "\x1b[31mred\x1b]8;;http://x\x07\x9b2J\u202eevil\u200b[/red][bold]<script>alert(1)</script>\r\nTWO\u2028=1+1"


def render_json(run: StoredRun) -> str:
    view = build_view(run)
    return write_document(make_document(view, build_details(run, view, whole=True)))


def test_json_is_the_same_every_time_and_finite(tmp_path: Path) -> None:
    plan = make_plan({"a": CELLS, "b": CELLS})
    store_run(tmp_path, plan, {"a": Ending(), "b": Ending(50, words={1: (CellStatus.OOM, "oom")})})
    first = render_json(Store(tmp_path).load())
    assert first == render_json(Store(tmp_path).load())
    assert first.endswith("}\n")
    document = json.loads(first, parse_constant=lambda name: pytest.fail(f"{name} is no number"))
    assert document["schema"] == "fleet.report/1"
    assert document["verdict"]["coverage"] == "2/2 hosts, 5/6 cells"
    rows = document["matrices"][0]["rows"]
    assert [[result["best"] for result in row["results"]] for row in rows] == [
        [True, False],
        [False, False],
        [True, False],
    ]
    assert rows[1]["results"][1]["word"] == "OOM"
    assert rows[0]["results"][0]["images_per_s"] == 100
    assert rows[0]["results"][0]["step_us"] == pytest.approx(320_000)
    assert json.dumps(document, indent=2, sort_keys=True) + "\n" == first


def test_hostile_strings_come_out_inert(tmp_path: Path) -> None:
    facts = HostFacts(
        cpu=Cpu(model=HOSTILE),
        gpus=(Gpu(name=HOSTILE),),
        driver=HOSTILE,
        runtime_version=HOSTILE,
        os=HOSTILE,
        kernel=HOSTILE,
    )
    plan = make_plan({"a": CELLS, "b": CELLS})
    words = {0: (CellStatus.CRASH, HOSTILE), 1: (CellStatus.UNSUPPORTED, HOSTILE)}
    evil = Ending(facts=facts, tensorflow=HOSTILE, digest=HOSTILE, words=words, status=HostStatus.PARTIAL)
    down = Ending(
        status=HostStatus.FAILED, stage=Stage.RUN, reason=HOSTILE, message=HOSTILE * 100, hint=HOSTILE, facts=facts
    )
    run = store_run(tmp_path, plan, {"a": evil, "b": down})
    view = build_view(run)
    file = io.StringIO()
    render_terminal(view, Console(file=file, width=80))
    for text in [file.getvalue(), render_json(run), *_collect(json.loads(render_json(run)))]:
        bad = {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}} - {"\n"}
        assert not bad
    shown = "".join(file.getvalue().split())
    assert "[/red][bold]<script>alert(1)</script>" in shown  # as it stands: neither markup nor HTML
    assert max(len(text) for text in _collect(json.loads(render_json(run)))) <= 601


def _collect(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for child in children for text in _collect(child)]


def test_a_run_that_was_cut_short_says_so(tmp_path: Path) -> None:
    plan = make_plan({"a": CELLS, "b": CELLS})
    run = store_run(tmp_path, plan, {"a": Ending()})
    view = build_view(run)
    assert (view.verdict.word, view.verdict.coverage, view.run.state) == (
        "INCOMPLETE",
        "1/2 hosts, 3/6 cells",
        "incomplete",
    )
    assert [entry.word for entry in view.matrices[0].rows[0].entries] == ["", "no outcome"]
    assert view.verdict.remarks == ("to come: 1 host", "the run is not complete: its controller was stopped")
    # Nothing failed.
    assert view.failures == ()
    assert view.to_come.startswith("Still to come: b (")
    assert view.to_come.endswith(f"never begun). Take it up with: fleet resume {RUN_ID}")
    file = io.StringIO()
    render_terminal(view, Console(file=file, width=90))
    assert "✖" not in file.getvalue()
    assert file.getvalue().rstrip().endswith(f"fleet resume {RUN_ID}")  # on one line, to be copied
    # A host that failed did, and an outcome that cannot be read is no outcome to come.
    lost = Ending(status=HostStatus.FAILED, message="It failed.")
    run = store_run(tmp_path / "other", plan, {"a": lost})
    (run.path / "hosts" / "b").mkdir()
    (run.path / "hosts" / "b" / "host.json").write_text("{")
    view = build_view(Store(tmp_path / "other").load(RUN_ID))
    assert [failure.status for failure in view.failures] == ["failed", "no_outcome"]
    assert view.to_come == ""


def test_a_run_that_goes_on_has_hosts_to_come_and_no_failures(tmp_path: Path) -> None:
    with Store(tmp_path).create(make_plan({"a": CELLS, "b": CELLS})):
        view = build_view(Store(tmp_path).load(RUN_ID))
    assert (view.verdict.word, view.verdict.remarks) == ("RUNNING", ("to come: 2 hosts", "still running"))
    assert view.failures == ()
    assert view.to_come == f"Still to come: a, b. See how it gets on with: fleet status {RUN_ID}"


def test_a_damaged_outcome_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    run = store_run(tmp_path, make_plan({"a": CELLS, "b": CELLS}), {"a": Ending(), "b": Ending()})
    (run.path / "hosts" / "b" / "host.json").write_text("{}")
    view = build_view(Store(tmp_path).load())
    assert (view.verdict.word, view.verdict.exit_code) == ("FAILED", 3)
    assert "host.json cannot be read" in view.failures[0].message


def test_an_interrupted_run_and_one_that_measured_nothing(tmp_path: Path) -> None:
    plan = make_plan({"a": CELLS, "b": CELLS})
    cancelled = Ending(status=HostStatus.CANCELLED, stage=Stage.RUN, message="Stopped by Ctrl-C.")
    view = build_view(store_run(tmp_path, plan, {"a": Ending(), "b": cancelled}, exit_code=130, interrupted=True))
    assert (view.verdict.word, view.verdict.exit_code, view.run.state) == ("INTERRUPTED", 130, "interrupted")
    other = make_plan({"a": CELLS}, "20260102T000000Z-aaaa")
    view = build_view(store_run(tmp_path, other, {"a": cancelled}, exit_code=6))
    assert (view.verdict.word, view.verdict.exit_code) == ("NOTHING MEASURED", 6)


def test_cells_that_fail_alike_share_a_line(tmp_path: Path) -> None:
    words = {0: (CellStatus.TIMEOUT, "slow"), 1: (CellStatus.CRASH, "signal"), 2: (CellStatus.TIMEOUT, "slow")}
    plan = make_plan({"a": CELLS})
    view = build_view(store_run(tmp_path, plan, {"a": Ending(status=HostStatus.PARTIAL, words=words)}))
    assert [(failure.status, failure.cells) for failure in view.failures] == [
        ("timeout", (CELLS[0].id, CELLS[2].id)),
        ("crash", (CELLS[1].id,)),
    ]


def test_notes_tell_what_differs_between_hosts(tmp_path: Path) -> None:
    plan = make_plan(dict.fromkeys(["a", "b", "c"], CELLS) | {"d": ()})
    late = make_facts().model_copy(update={"clock_offset_s": -75.0, "machine_id_sha256": "m"})
    same = make_facts().model_copy(update={"machine_id_sha256": "m"})
    endings = {
        "a": Ending(),
        "b": Ending(digest="sha256:" + "f" * 64, facts=late),
        "c": Ending(facts=same),
        "d": Ending(status=HostStatus.SKIPPED, stage=Stage.CONNECT, reason="no_cells"),
    }
    notes = build_view(store_run(tmp_path, plan, endings)).notes
    assert notes[0] == "b, c have one machine-id: cloned disks; give each its own, with systemd-machine-id-setup."
    assert f"{DIGEST[7:19]} on a, c; ffffffffffff on b" in notes[1]
    assert notes[2] == "b: its clock is 1 min 15 s behind the control node's; set it by NTP."
    assert notes[3] == "Suite quick has no cells for d."


def test_two_names_of_one_machine_are_told_from_clones(tmp_path: Path) -> None:
    plan = make_plan(dict.fromkeys(["a", "b"], CELLS))
    same = make_facts().model_copy(update={"machine_id_sha256": "m", "boot_id": "1"})
    (note,) = build_view(store_run(tmp_path, plan, dict.fromkeys(["a", "b"], Ending(facts=same)))).notes
    assert note == "a, b are one machine under several names (one machine-id, one boot)."


def test_values_measured_beside_others_are_marked_and_told(tmp_path: Path) -> None:
    plan = make_plan(dict.fromkeys(["a", "b", "c"], CELLS))
    endings = {
        "a": Ending(others={0: 0.31, 1: 0.1, 2: 0.099}),
        "b": Ending(unsteady=(1,), others={1: 0.5}),
        "c": Ending(),
    }
    view = build_view(store_run(tmp_path, plan, endings))
    taken = [[entry.disturbed for entry in row.entries] for row in view.matrices[0].rows]
    assert taken == [
        ["31 % of its processors", "", ""],
        ["10 % of its processors", "50 % of its processors", ""],
        ["", "", ""],
    ]
    assert view.notes[0] == (
        "3 of 9 values were measured while others used the host: "
        "a (31 % of its processors), b (50 % of its processors). Measure again when it is idle, with --wait-idle 10m."
    )
    file = io.StringIO()
    render_terminal(view, Console(file=file, width=120))
    lines = [" ".join(line.split()) for line in file.getvalue().splitlines()]
    assert any("100! ±0.6%" in line and line.count("!") == 1 for line in lines)
    assert any("66.7! ±0.6%" in line and "66.7~! ±0.6%" in line for line in lines)
    assert "! others used the host meanwhile: from 10 % of its processors on, or 5 % of a GPU" in " · ".join(lines)


def test_hosts_that_may_use_a_part_of_their_machine_are_named(tmp_path: Path) -> None:
    plan = make_plan(dict.fromkeys("abcd", CELLS))
    run = store_run(tmp_path, plan, dict.fromkeys("abcd", Ending()))
    # The machine has 128 logical processors and 251.4 GiB.
    limits = {"a": (128, None, None), "b": (2, 2.5, 3 << 30), "c": (128, None, 300 << 30), "d": (1, 0.08, None)}
    for alias, (cpus, quota, limit) in limits.items():
        file = run.path / "hosts" / alias / "host.json"
        seen = {"cpus_usable": cpus, "cpu_quota": quota, "memory_limit_bytes": limit}
        document = json.loads(file.read_text()) | seen
        file.write_text(json.dumps(document))
    (note,) = (note for note in build_view(Store(tmp_path).load()).notes if note.startswith("Less than"))
    assert note.endswith(
        ": 2 of 128 logical processors, 3.0 of 251.4 GiB memory on b; 0.08 of 128 logical processors on d."
    )


def test_what_machines_lack_is_told_once_with_what_to_do(tmp_path: Path) -> None:
    plan = make_plan({"a": make_cells("gpu"), "b": make_cells("gpu"), "c": make_cells("gpu")})
    lacking = Ending(words={0: (CellStatus.UNSUPPORTED, "no_bf16"), 1: (CellStatus.UNSUPPORTED, "no_bf16")})
    without_gpu = Ending(status=HostStatus.PARTIAL, words={0: (CellStatus.UNSUPPORTED, "no_gpu")})
    view = build_view(store_run(tmp_path, plan, {"a": lacking, "b": lacking, "c": without_gpu}))
    # A missing GPU is a failure, which says its sentence there.
    assert [note for note in view.notes if "no " in note] == [
        "no bf16, 4 cells on a, b: The cell ended as unsupported. Look at its log."
    ]
    assert [failure.alias for failure in view.failures] == ["c"]


def test_a_gpus_memory_is_told_from_its_hosts(tmp_path: Path) -> None:
    words = {0: (CellStatus.OOM, "device_memory"), 1: (CellStatus.OOM, "host_memory"), 2: (CellStatus.SKIPPED, "")}
    shown: dict[str, list[str]] = {}
    for number, cells in enumerate((make_cells("gpu"), make_cells("cpu"))):
        plan = make_plan({"a": cells}, f"20260101T02300{number}Z-k3x9")
        view = build_view(store_run(tmp_path, plan, {"a": Ending(words=words)}))
        shown[cells[0].device] = [row.entries[0].word for row in view.matrices[0].rows]
        assert set(view.legend) == set(shown[cells[0].device])
    assert shown == {"gpu": ["OOM", "host OOM", "skipped"], "cpu": ["OOM", "OOM", "skipped"]}


def test_numbers_keep_three_or_four_digits() -> None:
    rates = [0.12345, 0.9996, 1.234, 9.996, 12.34, 99.96, 123.4, 999.7, 1234.4, 12344, 1234567]
    shown = ["0.123", "1.00", "1.23", "10.0", "12.3", "100", "123", "1,000", "1,234", "12,340", "1,235,000"]
    assert [format_rate(rate) for rate in rates] == shown
    assert [format_spread(ratio) for ratio in [0, 0.004, 0.0994, 0.0996, 1.5]] == [
        "±0.0%",
        "±0.4%",
        "±9.9%",
        "±10%",
        "±150%",
    ]
    assert (format_time("2026-01-01T02:30:59.1Z"), format_time("\x1bx")) == ("2026-01-01 02:30 UTC", "\ufffdx")


def test_durations_are_words() -> None:
    spans = (-3, 0.4, 59.4, 59.6, 200, 599.6, 1500, 3599, 3725, 7520)
    assert [format_duration(s) for s in spans] == [
        *(
            "0 s",
            "0 s",
            "59 s",
            "1 min 00 s",
            "3 min 20 s",
            "10 min",
            "25 min",
            "1 h 00 min",
            "1 h 02 min",
            "2 h 05 min",
        )
    ]


def test_names_are_short_and_folded() -> None:
    assert fold_names(["g08", "g09", "g10", "x", "a1", "a2", "g11"]) == ["g[08:10]", "x", "a1", "a2", "g11"]
    assert fold_names(["n9", "n10", "n11"]) == ["n[9:11]"]
    assert fold_names(["h099", "h100", "h0101"]) == ["h099", "h100", "h0101"]
    assert shorten_cpu("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz") == "Intel Xeon Gold 6338"
    assert shorten_cpu("AMD EPYC 7763 64-Core Processor") == "AMD EPYC 7763"
    assert name_hardware(make_facts("NVIDIA A100-SXM4-80GB", 8)) == "8× A100-SXM4-80GB"
    assert name_hardware(None) == ""


@pytest.mark.parametrize("value", [1.79e308, -1.79e308, 5e-324, 0.0, -1.0])
def test_no_stored_number_breaks_a_report(value: float, tmp_path: Path) -> None:
    plan = make_plan({"a": CELLS[:1], "b": CELLS[:1], "c": CELLS[:1], "d": CELLS[:1]})
    run = store_run(tmp_path, plan, {host.alias: Ending() for host in plan.hosts})
    for alias, changed in {"a": "timing", "b": "throughput", "c": "throughput", "d": "quantiles"}.items():
        file = run.path / "hosts" / alias / "host.json"
        document = json.loads(file.read_text())
        cell = document["cells"][0]
        figures = cell["timing"]["quantiles_us"] if changed == "quantiles" else cell[changed]
        figures.update({key: value for key, old in figures.items() if isinstance(old, float)})
        if changed == "timing":
            figures["ci95_us"] = [value, value]
        document["job_s"] = value
        file.write_text(json.dumps(document))
    run = Store(tmp_path).load()
    view = build_view(run)
    document = check_document(render_json(run))
    assert document["verdict"]["coverage"] == "4/4 hosts, 4/4 cells"
    text = io.StringIO()
    render_terminal(view, Console(file=text, width=120))
    assert "4/4 hosts" in text.getvalue()
    assert max(map(len, text.getvalue().splitlines())) <= 120
