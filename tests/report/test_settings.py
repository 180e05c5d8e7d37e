"""Settings to look at, in every form of a report."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fleet.model.facts import Cpu, Gpu, HostFacts
from fleet.report.details import build_details
from fleet.report.document import make_document
from fleet.report.html import render_html
from fleet.report.json_form import write_document
from fleet.report.markdown import render_markdown
from fleet.report.setting_lines import name_place
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from fleet.report.view_model import SettingLine
from fleet.store.reader import StoredRun
from tests.conftest import RunFleet
from tests.run_builder import Ending, make_cells, make_plan, store_run

QUIET = HostFacts(cpu=Cpu(model="a CPU", governor="performance"))
SLOW = HostFacts(cpu=Cpu(model="a CPU", governor="powersave"))
REMEDY = "until the next boot: cpupower frequency-set -g performance"


def store(root: Path, *facts: HostFacts) -> StoredRun:
    names = [f"cpu{place:02d}" for place in range(1, len(facts) + 1)]
    endings = {name: Ending(facts=of) for name, of in zip(names, facts, strict=True)}
    return store_run(root, make_plan(dict.fromkeys(names, make_cells())), endings)


def show(run: StoredRun, width: int = 160) -> dict[str, str]:
    view = build_view(run)
    out = StringIO()
    render_terminal(view, Console(file=out, width=width, color_system=None, legacy_windows=False))
    details = build_details(run, view)
    return {
        "terminal": out.getvalue(),
        "json": write_document(make_document(view, details)),
        "markdown": render_markdown(view),
        "html": render_html(view, details),
    }


def test_what_is_the_same_on_several_hosts_is_told_once(tmp_path: Path) -> None:
    limited = SLOW.model_copy(
        update={"gpus": tuple(Gpu(index=n, power_default_w=300.0, power_limit_w=200.0 + 100 * n) for n in range(2))}
    )
    shown = show(store(tmp_path, SLOW, SLOW, limited, QUIET))

    document = json.loads(shown["json"])["settings"]
    assert [(line["check"], line["severity"], line["hosts"], line["gpus"]) for line in document] == [
        ("power_limit", "warning", ["cpu03"], [0]),
        ("governor", "note", ["cpu01", "cpu02", "cpu03"], []),
    ]
    assert (document[1]["evidence"], document[1]["remedy"]) == ("CPU governor powersave", REMEDY)
    first = "▲ cpu03, GPU 0  power limit 200 W, and the card's default is 300 W → until the next boot: nvidia-smi -i 0"
    lines = shown["terminal"].splitlines()
    begin = lines.index("Settings to look at")
    assert lines[begin + 2].startswith(first)
    assert lines[begin + 3] == f"· cpu[01:03]  CPU governor powersave → {REMEDY}"
    assert "- · **cpu\\[01:03\\]** CPU governor powersave" in shown["markdown"]
    assert "<b>cpu[01:03]</b> CPU governor powersave" in shown["html"]
    assert shown["html"].index('id="settings"') < shown["html"].index('id="matrix"')


def test_neighbouring_gpus_are_told_as_an_inventory_does() -> None:
    line = SettingLine("ecc", "warning", ("gpu01",), (0, *range(2, 12)), "", "")
    assert name_place(line) == "gpu01, GPU 0, [2:11]"


def test_where_nothing_is_found_nothing_is_shown(tmp_path: Path) -> None:
    shown = show(store(tmp_path, QUIET, QUIET))
    assert json.loads(shown.pop("json"))["settings"] == []
    assert [name for name, text in shown.items() if "Settings to look at" in text] == []


def test_a_long_list_is_cut_off_on_a_terminal_alone(tmp_path: Path) -> None:
    odd = [SLOW.model_copy(update={"cpu": Cpu(governor=f"odd{place}")}) for place in range(23)]
    shown = show(store(tmp_path, *odd))
    assert len(json.loads(shown["json"])["settings"]) == 23
    assert "CPU governor odd19" in shown["terminal"] and "CPU governor odd20" not in shown["terminal"]
    assert "and 3 more, in fleet report --json" in shown["terminal"]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("terminal", "CPU governor <b>**[a](x)**@all\ufffd[31m # x →"),
        ("markdown", r"CPU governor \<b\>\*\*\[a\]\(x\)\*\*@" + "\u2060all\ufffd" + r"\[31m \# x → "),
        ("html", "CPU governor &lt;b&gt;**[a](x)**@all\ufffd[31m # x <span"),
    ],
)
def test_words_of_a_host_are_inert(form: str, said: str, tmp_path: Path) -> None:
    evil = "<b>**[a](x)**@all\x1b[31m\n# x"
    assert said in show(store(tmp_path, HostFacts(cpu=Cpu(governor=evil))), width=400)[form]


def test_they_change_no_exit_code(workspace: Path, run_fleet: RunFleet) -> None:
    store(workspace / "reports", SLOW, SLOW)
    done = run_fleet("report")
    assert (done.returncode, "CPU governor powersave" in done.stdout) == (0, True)
