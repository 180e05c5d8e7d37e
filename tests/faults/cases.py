"""One run over hosts that are each broken in their own way, and what every such run must come to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fleet.model.result import HostOutcome
from fleet.report.view import build_view
from fleet.store.reader import StoredRun
from tests.faults.conftest import TINY, FleetRun
from tests.faults.traces import find_traces
from tests.lab.hosts import HostOptions, LabHost, make_key
from tests.lab.inventory import write_inventory, write_known_hosts
from tests.lab.lab import Lab


@dataclass(frozen=True)
class Case:
    """One host."""

    status: str
    reason: str | None = None
    says: str = ""
    """Words that must be in what happened or what to do."""
    how: HostOptions = field(default_factory=HostOptions)
    """How the machine is broken."""
    prepare: Callable[[LabHost], object] = lambda host: None
    """What is done to it before the run."""
    variables: Mapping[str, object] = field(default_factory=dict)
    """How the inventory is wrong; `{here}` stands for the run's directory, `{work}` for the host's work directory."""
    cell: str = "ok"
    """How its one cell ends, where the host is ok."""


@dataclass(frozen=True)
class Finished:
    """What came of the one run."""

    code: int
    out: str
    err: str
    peak_bytes: int
    """The most memory that fleet took."""
    run: StoredRun
    outcomes: Mapping[str, HostOutcome]
    """By the name of the case."""
    hosts: Mapping[str, LabHost]


def put_program(name: str, text: str) -> Callable[[LabHost], object]:
    """A program of this name on a host, before its own of the same name."""
    path = f"/usr/local/bin/{name}"
    return lambda host: host.exec("sh", "-c", f'cat >"{path}" && chmod 755 "{path}"', stdin=text.encode())


@contextmanager
def run_cases(
    lab: Lab, here: Path, cases: Mapping[str, Case], environment: Mapping[str, str] | None = None
) -> Iterator[Finished]:
    """Run fleet over a host for every case; the hosts are there until the context ends.

    Args:
        here: an empty directory; a key `locked` and one that is `open` to others are made there.
        environment: on top of fleet's own.
    """
    plain = [name for name, case in cases.items() if not case.how]
    hosts = dict(zip(plain, lab.add_hosts(len(plain)), strict=True))
    hosts |= {name: lab.add_hosts(1, **case.how)[0] for name, case in cases.items() if case.how}
    make_key(here / "locked", "locked", passphrase="secret")
    make_key(here / "open", "open")
    (here / "open").chmod(0o644)
    for name, case in cases.items():
        case.prepare(hosts[name])
    overrides = {
        hosts[name].alias: {key: _fill(value, here, hosts[name]) for key, value in case.variables.items()}
        for name, case in cases.items()
    }
    known_hosts = _write_keys(here, hosts)
    inventory = write_inventory(here / "lab.yaml", list(hosts.values()), known_hosts=known_hosts, overrides=overrides)
    suite = here / "suite.yaml"
    suite.write_text(TINY.replace("on: [cpu]", "on: [cpu, gpu]"))
    run = FleetRun(here, inventory, suite, environment=environment)
    try:
        code, out, err = run.wait()
        stored = run.load()
        outcomes = {name: stored.outcomes[host.alias] for name, host in hosts.items()}
        yield Finished(code, out, err, run.peak_bytes, stored, outcomes, hosts)
    finally:
        run.kill()
        lab.remove_hosts(list(hosts.values()))


def _fill(value: object, here: Path, host: LabHost) -> object:
    return value.format(here=here, work=host.workdir) if isinstance(value, str) else value


def _write_keys(here: Path, hosts: Mapping[str, LabHost]) -> Path:
    """Every host's right key, but for the cases that are named after theirs."""
    known = [host for name, host in hosts.items() if name != "unknown_host_key"]
    keys = write_known_hosts(here / "known_hosts", known)
    another = make_key(here / "another", "")
    if changed := hosts.get("changed_host_key"):
        keys.write_text(keys.read_text().replace(changed.host_key, another))
    return keys


def check_case(case: Case, outcome: HostOutcome) -> None:
    """The host ended with its status, and with a sentence that says what to do."""
    said = f"{outcome.message} → {outcome.hint}"
    assert outcome.status == case.status, said
    assert case.reason is None or outcome.reason == case.reason, said
    assert case.says in said
    if case.status != "ok":
        assert outcome.message
        assert outcome.hint
        assert outcome.reason
    else:
        assert [cell.status for cell in outcome.cells] == [case.cell]


def check_run(cases: Mapping[str, Case], finished: Finished) -> None:
    """Every host is counted once and every failure is told, in words that a terminal does nothing with."""
    good = [case for case in cases.values() if case.status == "ok"]
    measured = sum(case.cell == "ok" for case in good)
    assert finished.code == 3
    assert f"{len(good)}/{len(cases)} hosts, {measured}/{len(cases)} cells" in finished.out
    assert len(finished.run.outcomes) == len(cases)
    failed = {finished.hosts[name].alias: case.status for name, case in cases.items() if case.status != "ok"}
    assert f"Failures ({len(failed)})" in finished.out
    assert {line.alias: line.status for line in build_view(finished.run).failures} == failed
    for status in failed.values():
        assert re.search(rf"^[✖x] .*  {status.replace('_', ' ')}", finished.out, re.MULTILINE), status
    assert "Traceback" not in finished.out + finished.err


def check_nothing_is_left(finished: Finished) -> None:
    """No container, lock, file or process of the run is on any host."""
    left = {name: found for name, host in finished.hosts.items() if (found := find_traces(host))}
    assert not left, left
