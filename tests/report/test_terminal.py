"""The report on terminals of every width, with few hosts and many."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from fleet.model.result import BatchSearch, CellStatus, Execution, HostOutcome, HostStatus, Stage
from fleet.report.json_form import write_document
from fleet.report.runs import RunList, describe_runs
from fleet.report.terminal import render_terminal
from fleet.report.terminal_runs import render_runs
from fleet.report.view import build_view
from fleet.report.view_model import View
from fleet.store.rundir import Store
from tests.run_builder import RUN_ID, Ending, make_cells, make_facts, make_plan, store_run

GPU = make_cells("gpu", 9)
CPU = make_cells("cpu", 4)
A100 = make_facts("NVIDIA A100-SXM4-80GB", 8)
H100 = make_facts("NVIDIA H100 80GB HBM3", 8)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Six hosts: two good ones, an out-of-memory, a missing GPU, an unknown host key, a CPU host."""
    unknown = Ending(
        status=HostStatus.HOST_KEY_UNKNOWN,
        stage=Stage.CONNECT,
        reason="not_in_known_hosts",
        message="gpu04 has no line in known_hosts.",
        hint="Accept it with: fleet hosts trust --limit gpu04",
        facts=None,
    )
    plan = make_plan({**{f"gpu0{i}": GPU for i in range(1, 6)}, "cpu01": CPU})
    blind = dict.fromkeys(range(9), (CellStatus.UNSUPPORTED, "no_gpu"))
    endings = {
        "gpu01": Ending(2480.2, facts=A100),
        "gpu02": Ending(4612.4, facts=H100, unsteady=(0,)),
        "gpu03": Ending(2490, facts=A100, words={8: (CellStatus.OOM, "oom")}),
        "gpu04": unknown,
        "gpu05": Ending(facts=A100, status=HostStatus.PARTIAL, words=blind),
        "cpu01": Ending(41.23, tensorflow="2.16.1"),
    }
    return build_view(store_run(tmp_path_factory.mktemp("lab"), plan, endings, exit_code=3))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> View:
    """A hundred hosts of two kinds, one slow, one out of reach."""
    aliases = [f"gpu{i:03d}" for i in range(1, 101)]
    endings = {
        alias: Ending(2500 if i < 60 else 4600, facts=A100 if i < 60 else H100) for i, alias in enumerate(aliases)
    }
    endings["gpu017"] = Ending(2110, facts=A100)
    endings["gpu018"] = Ending(2500, facts=A100, words={0: (CellStatus.OOM, "oom")})
    endings["gpu060"] = Ending(
        status=HostStatus.UNREACHABLE, stage=Stage.CONNECT, message="Nobody listens.", facts=None
    )
    plan = make_plan(dict.fromkeys(aliases, GPU))
    return build_view(store_run(tmp_path_factory.mktemp("crowd"), plan, endings, exit_code=4))


def print_view(view: View, width: int, *, encoding: str = "utf-8", colour: bool = False, no_color: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="")
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        no_color=no_color,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
    )
    render_terminal(view, console)
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", ["lab", "crowd"])
def test_everything_fits_and_nothing_is_cut(request: pytest.FixtureRequest, width: int, name: str) -> None:
    view: View = request.getfixturevalue(name)
    text = print_view(view, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert "\x1b" not in text
    words = " ".join(text.split())
    for note in view.notes:
        assert note in words
    for failure in view.failures:
        assert f"{failure.alias} {failure.status.replace('_', ' ')}" in words


@pytest.mark.parametrize("width", [80, 200])
def test_every_value_and_word_is_there_and_the_best_is_marked(lab: View, width: int) -> None:
    text = print_view(lab, width)
    assert text.startswith("✖ FAILED  4/6 hosts, 30/49 cells")
    train = [line for line in text.splitlines() if re.match(r"resnet50 +train", line)]
    row = " ".join(train)
    for value in ["2,480 ±0.6%", "★ 4,612~ ±0.6%", "2,490 ±0.6%", "host key unknown", "no gpu", "41.2 ±0.6%"]:
        assert value in row
    assert row.count("★") == 1
    conv = [line for line in text.splitlines() if re.match(r" +forward backward", line)]
    assert sum("OOM" in line for line in conv) == 1
    words = " ".join(text.split())
    assert "→ Accept it with: fleet hosts trust --limit gpu04" in words
    assert "OOM = out of memory, a result and no failure" in words
    assert "all cells: fp32, batch 32 per device, 1 GPU, NHWC" in words
    assert "TensorFlow differs: 2.16.1 on cpu01; 2.17.0 on gpu[01:03], gpu05" in words
    assert (
        "1 of 30 values was not steady (second half over 1 % off the first), on gpu02: see what else runs there"
        in words
    )


@pytest.mark.parametrize("count", [2, 20])
def test_no_star_where_nobody_can_be_told_from_the_best(tmp_path: Path, count: int) -> None:
    # Every median is known to 1 %, and the second kind of machine is 1.5 % faster.
    plan = make_plan({f"gpu{i:02d}": GPU[:1] for i in range(count)})
    endings = {
        host.alias: Ending(203 if i % 2 else 200, facts=(A100, H100)[i % 2]) for i, host in enumerate(plan.hosts)
    }
    text = print_view(build_view(store_run(tmp_path, plan, endings)), 120)
    assert text.count("★") == 1
    assert "no ★: nothing here can be told from the best of its row" in text


def test_values_stand_below_each_other_whatever_their_scatter(tmp_path: Path) -> None:
    plan = make_plan({"a": CPU})
    run = store_run(tmp_path, plan, {"a": Ending(3.94, unsteady=(1,))})
    view = build_view(run)
    (matrix,) = view.matrices
    wild = replace(matrix.rows[2], entries=(replace(matrix.rows[2].entries[0], spread=0.33),))
    text = print_view(replace(view, matrices=(replace(matrix, rows=(*matrix.rows[:2], wild)),)), 80)
    lines = re.findall(r"\S+ +±[0-9.]+%$", text, re.MULTILINE)
    assert lines == ["3.94  ±0.6%", "2.63~ ±0.6%", "1.75   ±33%"]


def test_a_long_name_is_whole_where_there_is_room(tmp_path: Path) -> None:
    names = [f"{name}-measures-images-in-the-basement" for name in ("first", "second")]
    view = build_view(store_run(tmp_path, make_plan(dict.fromkeys(names, CPU)), dict.fromkeys(names, Ending())))
    text = print_view(view, 120)
    assert text.count(names[1]) == 2  # in the matrix and in the host table
    assert all(
        " ".join(line.split()).startswith(f"{names[0]} ok 4/4") for line in text.splitlines() if line[:5] == "first"
    )


def test_blocks_repeat_their_keys_and_hold_each_host_once(tmp_path: Path) -> None:
    plan = make_plan({f"node{i:02d}": GPU for i in range(12)})
    view = build_view(store_run(tmp_path, plan, {host.alias: Ending() for host in plan.hosts}))
    text = print_view(view, 80)
    matrix = text[: text.index("all cells")]
    heads = [line for line in matrix.splitlines() if line.startswith("model")]
    assert len(heads) > 1
    assert sorted(re.findall(r"node\d\d", " ".join(heads))) == [f"node{i:02d}" for i in range(12)]
    assert len([line for line in matrix.splitlines() if line.startswith("resnet50")]) == len(heads)


def test_a_crowd_is_grouped_by_hardware(crowd: View) -> None:
    text = print_view(crowd, 200)
    words = " ".join(text.split())
    assert "✖ UNREACHABLE 99/100 hosts, 890/900 cells · unreachable: 1 host, OOM: 1 cell" in words
    assert "59 hosts 40 hosts 1 host" in words
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if re.match(r"resnet50 +train", line))
    assert re.search(r"2,500 of 58 +★ 4,600 +1 unreachable", lines[start])
    assert re.search(r"2,110–2,500 +4,600–4,600", lines[start + 1])
    assert re.search(r"▼ gpu017 +▼ gpu061", lines[start + 2])
    assert "1 OOM" in lines[start + 3]
    assert "8× A100-SXM4-80GB: gpu[001:059]" in text
    assert len(lines) < 80


def test_colour_never_says_it_alone(lab: View) -> None:
    view = lab
    coloured = print_view(view, 80, colour=True)
    assert "\x1b[1;32m★ 4,612" in coloured
    bare = print_view(view, 80, colour=True, no_color=True)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", bare)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == print_view(view, 80)


def test_an_output_without_unicode_gets_other_signs(lab: View) -> None:
    text = print_view(lab, 80, encoding="ascii")
    assert "* 4,612~ +-0.6%" in text
    assert "x FAILED" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_what_was_not_planned_is_a_dash_with_a_legend(tmp_path: Path) -> None:
    plan = make_plan({"a": CPU, "b": CPU[:2]})
    view = build_view(store_run(tmp_path, plan, {"a": Ending(), "b": Ending()}))
    text = print_view(view, 80)
    assert [entry.kind for entry in view.matrices[0].rows[2].entries] == ["value", "unplanned"]
    assert "— not planned for this host" in text
    assert "6/6 cells" in text


def test_runs_are_listed(tmp_path: Path) -> None:
    plan = make_plan({"a": CPU})
    store_run(tmp_path, plan, {"a": Ending()})
    broken = tmp_path / "runs" / "20250101T000000Z-dead"
    broken.mkdir()
    (broken / "plan.json").write_text("\x1b[31m")
    lines = describe_runs(Store(tmp_path).runs())
    for width in [80, 200]:
        file = io.StringIO()
        render_runs(lines, Console(file=file, width=width))
        words = " ".join(file.getvalue().split())
        assert f"{RUN_ID} 2026-01-01 02:30 quick 1/1 4/4 exit 0" in words
        assert "20250101T000000Z-dead ? ? ?/? ?/? damaged" in words
        assert "cannot be read" in words
    assert write_document(RunList(lines)) == write_document(RunList(describe_runs(Store(tmp_path).runs())))
    file = io.StringIO()
    render_runs((), Console(file=file, width=80))
    assert "no runs yet" in file.getvalue()


def test_cells_that_differ_only_in_a_variant_are_told_apart(tmp_path: Path) -> None:
    plain = GPU[0]
    cells = (plain, plain.model_copy(update={"optimizer": "adam", "steps_per_call": 10}))
    compiled = tuple(cell.model_copy(update={"xla": True}) for cell in cells)
    text = print_view(build_view(store_run(tmp_path, make_plan({"gpu01": cells}), {"gpu01": Ending(9)})), 100)
    assert re.search(r"^ *model +variant +gpu01", text, re.M) and "adam, steps10" in text
    (tmp_path / "xla").mkdir()
    view = build_view(store_run(tmp_path / "xla", make_plan({"gpu01": compiled[:1]}), {"gpu01": Ending(9)}))
    assert re.search(r"all cells: .*NCHW, xla$|all cells: .*NHWC, xla$", print_view(view, 100), re.M)


@pytest.mark.parametrize("width", [80, 200])
def test_what_a_cell_left_open_is_told_with_its_value(tmp_path: Path, width: int) -> None:
    both = GPU[0].model_copy(update={"batch_size": 0, "devices": 0, "device": "gpu"})
    plan = make_plan({"gpu01": (both,), "gpu02": (both,)})
    run = store_run(tmp_path, plan, {"gpu01": Ending(900), "gpu02": Ending(400)})
    found = {"gpu01": (208, 4), "gpu02": (96, 1)}
    outcomes = {alias: _open(outcome, *found[alias]) for alias, outcome in run.outcomes.items()}
    text = print_view(build_view(replace(run, outcomes=outcomes)), width)
    assert "batch auto per device" in text and "all GPU" in text
    assert "batch 208, 4 GPUs" in text and "batch 96, 1 GPU" in text


def _open(outcome: HostOutcome, batch_size: int, devices: int) -> HostOutcome:
    search = BatchSearch(batch_size=batch_size, attempts=7)
    execution = Execution(intra_threads=1, inter_threads=1, devices=devices)
    cells = tuple(c.model_copy(update={"batch_search": search, "execution": execution}) for c in outcome.cells)
    return outcome.model_copy(update={"cells": cells})
