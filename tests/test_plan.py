"""The plan: pure, unique, and with estimates and deadlines that make sense."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fleet.bundle import read_models
from fleet.errors import SelectionError
from fleet.estimate import estimate_cell, find_pace
from fleet.model.inventory import Connection, Host, Settings
from fleet.model.plan import Plan
from fleet.model.result import HostStatus
from fleet.model.suite import Cell, Rules, Suite
from fleet.plan import RunRequest, build_plan, describe_plan, skip_host
from fleet.suite import load_suite

MODELS = read_models()
NOW = datetime(2026, 12, 1, 2, 30, tzinfo=UTC)


def request(now: datetime = NOW, token: str = "k3x9") -> RunRequest:
    return RunRequest("lab.yaml", None, 32, "0" * 64, "0.1.0", now, token)


def host(alias: str, devices: str = "cpu", runtime: str = "docker") -> Host:
    settings = Settings.model_validate({"devices": devices, "runtime": runtime})
    return Host(alias=alias, groups=("lab",), connection=Connection(port=2222), settings=settings)


def plan(hosts: Sequence[Host], suite: str = "smoke") -> Plan:
    return build_plan(hosts, load_suite(suite, MODELS), MODELS, request())


def test_each_host_gets_the_cells_of_its_kind_and_a_job_id_of_its_own() -> None:
    made = plan([host("cpu01"), host("gpu01", "all"), host("gpu02", "2")])
    assert made.run_id == "20261201T023000Z-k3x9"
    assert [h.job_id for h in made.hosts] == [f"20261201T023000Z-k3x9-{n:03d}" for n in (1, 2, 3)]
    assert {c.device for c in made.hosts[0].cells} == {"cpu"}
    assert {c.device for c in made.hosts[1].cells} == {"gpu"}
    assert made.hosts[0].connection.port == 2222
    assert made.hosts[0].groups == ("lab",)


def test_equal_arguments_give_equal_plans_that_survive_their_file() -> None:
    first, second = plan([host("a"), host("b")]), plan([host("a"), host("b")])
    assert first == second
    text = first.model_dump_json()
    assert json.loads(text)["schema"] == "fleet.plan/1"
    assert Plan.model_validate_json(text) == first


def test_run_id_is_utc_whatever_the_clock_says() -> None:
    local = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    suite = load_suite("smoke", MODELS)
    made = build_plan([host("a")], suite, MODELS, request(now=local))
    assert made.run_id.startswith("20261201T023000Z-")
    assert made.created == "2026-12-01T02:30:00+00:00"


def test_a_thousand_hosts_have_distinct_job_ids() -> None:
    made = plan([host(f"n{n}") for n in range(1100)])
    assert len({h.job_id for h in made.hosts}) == 1100


def test_host_without_cells_stays_in_the_plan_and_is_skipped_with_a_reason() -> None:
    suite = Suite(name="cpus", cells=(Cell(model="alexnet", batch_size=1),))
    made = build_plan([host("cpu01"), host("gpu01", "all")], suite, MODELS, request())
    idle = made.hosts[1]
    assert (idle.cells, idle.estimate_s) == ((), 0.0)
    outcome = skip_host(idle, suite.name)
    assert (outcome.alias, outcome.job_id, outcome.status) == ("gpu01", idle.job_id, HostStatus.SKIPPED)
    assert "cpus has no cells for a gpu host" in outcome.message
    assert describe_plan(made).skipped == ("gpu01",)


def test_nothing_to_measure_at_all_is_an_error() -> None:
    suite = Suite(name="cpus", cells=(Cell(model="alexnet", batch_size=1),))
    with pytest.raises(SelectionError, match="cpus has no cells for gpu hosts"):
        build_plan([host("gpu01", "all")], suite, MODELS, request())
    with pytest.raises(SelectionError):
        build_plan([], suite, MODELS, request())


def test_summary_puts_hosts_with_the_same_cells_together() -> None:
    made = plan([host("c1"), host("g1", "all"), host("c2"), host("g2", "1")])
    summary = describe_plan(made)
    assert [group.aliases for group in summary.by_cells] == [("c1", "c2"), ("g1", "g2")]
    assert summary.hosts == 4
    assert summary.cells == sum(len(h.cells) for h in made.hosts)
    assert summary.estimate_s == max(h.estimate_s for h in made.hosts)
    assert describe_plan(made, wave=1).estimate_s == pytest.approx(sum(h.estimate_s for h in made.hosts))


def test_deadline_leaves_every_cell_its_limit_and_docker_time_to_start() -> None:
    docker, native = plan([host("a"), host("b", runtime="native")]).hosts
    limit = load_suite("smoke", MODELS).rules.cell_timeout_s
    for planned in (docker, native):
        assert planned.estimate_s < len(planned.cells) * limit < planned.deadline_s
    # Pulling the image has a limit of its own, on the host.
    assert docker.deadline_s - native.deadline_s == 180


def test_smoke_is_seconds_and_quick_a_few_minutes() -> None:
    hosts = [host("c"), host("g", "all")]
    assert all(10 < h.estimate_s < 180 for h in plan(hosts, "smoke").hosts)
    assert all(60 < h.estimate_s < 600 for h in plan(hosts, "quick").hosts)
    assert plan(hosts, "smoke").hosts[0].estimate_s <= 90


def test_an_open_batch_size_is_given_time_for_the_search() -> None:
    fixed = Cell(model="alexnet", batch_size=256, device="gpu", data_format="NCHW")
    auto = fixed.model_copy(update={"batch_size": 0})
    rules = Rules()
    pace = find_pace("gpu", rules, MODELS, None)
    searched, measured = (estimate_cell(cell, rules, MODELS["alexnet"], pace) for cell in (auto, fixed))
    assert searched > measured + 100
    deadlines = []
    for cell in (fixed, auto):
        suite = Suite(name="mine", rules=rules, cells=(cell,))
        (planned,) = build_plan([host("a", "all")], suite, MODELS, request()).hosts
        deadlines.append(planned.deadline_s)
    assert deadlines[1] - deadlines[0] == 19 * (rules.cell_timeout_s + 15)


def test_a_host_said_to_have_two_gpus_is_not_asked_for_more_of_them() -> None:
    cells = tuple(Cell(model="alexnet", batch_size=8, device="gpu", devices=n) for n in (1, 2, 4, 0))
    hosts = [host("g1", "2"), host("g2", "all")]
    two, unknown = build_plan(hosts, Suite(name="mine", cells=cells), MODELS, request()).hosts
    assert [c.devices for c in two.cells] == [1, 2, 0]
    assert [c.devices for c in unknown.cells] == [1, 2, 4, 0]
