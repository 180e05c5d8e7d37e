"""`fleet ping`: can every host be reached, with which key, and what runs there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.text import Text

from fleet.cli.consoles import open_stdout, print_problem
from fleet.cli.ending import Answer, choose_exit_code
from fleet.cli.passwords import Ask, ask_passwords
from fleet.cli.select import name_inventory, select
from fleet.cli.words import answer_interrupt
from fleet.errors import HostError
from fleet.fanout import Fanout
from fleet.host.framing import Shell
from fleet.host.neighbours import find_disturbances
from fleet.host.pause import Pause
from fleet.host.preflight import check_runtime, check_tools, check_workdir, find_warnings
from fleet.host.probe import Probe, choose_python, probe_host
from fleet.model.inventory import Host, Settings
from fleet.report.json_form import write_document
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import count_things, make_line, name_hardware, say_sentence, say_status, shorten_digest
from fleet.transport.base import Route
from fleet.transport.open import open_transport
from fleet.transport.passwords import Passwords
from fleet.transport.ssh_tokens import home_directory


@dataclass(frozen=True)
class Pong(Answer):
    """What one host answered."""

    latency_s: float | None = None
    """One whole answer on a connection that stands already: the probe, which looks at the engine too."""
    route: Route | None = None
    """User, address, the key that opened it, jump hosts."""
    warnings: tuple[str, ...] = ()
    """What may well be a mistake: settings of ssh_config that are not honoured, a GPU host without a GPU, …"""
    runtime: str = ""
    image: str | None = None
    """Digest of the image on the host; None: it would be pulled."""
    hardware: str = ""


@dataclass(frozen=True)
class PongList:
    """What every selected host answered, in the order of the inventory."""

    hosts: tuple[Pong, ...]
    schema: Literal["fleet.ping/1"] = "fleet.ping/1"


def ping_hosts(inventory: Path, limit: str | None, forks: int, ask: Ask, *, as_json: bool) -> int:
    """Ping the selected hosts, print what they answered; the exit code.

    Raises:
        FleetError: the inventory or the limit is wrong.
    """
    hosts = select(inventory, limit)
    passwords = ask_passwords(ask, hosts)
    fanout: Fanout[Pong] = Fanout((_ping(host, passwords) for host in hosts), forks)
    with answer_interrupt("not every host has answered yet."):
        answers = {pong.alias: pong for pong in fanout.run()}
    pongs = [replace(answers[host.alias], hint=name_inventory(answers[host.alias].hint, inventory)) for host in hosts]
    if as_json:
        sys.stdout.write(write_document(PongList(tuple(pongs))))
    else:
        _print_pongs(pongs)
    return choose_exit_code(pong.status for pong in pongs)


def _ping(host: Host, passwords: Passwords) -> Generator[Pong | Pause, None, None]:
    transport = open_transport(host, passwords)
    settings = host.settings.model_copy(
        update={"python": choose_python(host.settings, host.connection, sys.executable)}
    )
    try:
        shell = Shell(host.alias, transport)
        transport.run(["true"], timeout_s=30)
        begin = time.monotonic()
        probe = probe_host(shell, settings, change=False)
        latency = time.monotonic() - begin
        check_tools(host.alias, probe)
        check_runtime(host.alias, settings, probe)
        check_workdir(host.alias, settings, probe)
        facts = probe.facts
        yield Pong(
            host.alias,
            "ok",
            latency_s=round(latency, 4),
            route=transport.route,
            warnings=(*transport.warnings, *find_warnings(settings, probe), *_say_taken(settings, probe)),
            runtime=f"{settings.runtime} {facts.runtime_version or ''}".strip(),
            image=facts.image_digest,
            hardware=name_hardware(facts),
        )
    except HostError as error:
        yield Pong(host.alias, error.status, error.reason, error.message, error.hint)
    finally:
        transport.close()


def _say_taken(settings: Settings, probe: Probe) -> list[str]:
    """That the host is being measured right now, and by whom."""
    return [disturbance.message for disturbance in find_disturbances(probe.findings, settings)]


def _print_pongs(pongs: Sequence[Pong]) -> None:
    console = open_stdout()
    ink = Ink.of(console)
    columns = [Column(ink.text("status"), tuple(_write_status(pong, ink) for pong in pongs))]
    for head, read in _COLUMNS:
        values = [read(pong) for pong in pongs]
        if any(values):
            cells = tuple(ink.text(value) for value in values)
            columns.append(Column(ink.text(head), cells, "right" if head == "answer" else "left", widest=_WIDEST))
    names = Column(ink.text("host"), tuple(ink.text(pong.alias, "bold") for pong in pongs))
    print_blocks(console, [names], columns, even=False)
    for pong in pongs:
        for warning in pong.warnings:
            console.print(ink.text(f"! {pong.alias}: {say_sentence(make_line(warning), pong.alias)}\n", "yellow"))
    failed = [pong for pong in pongs if pong.status != "ok"]
    for pong in failed:
        print_problem(console, pong.alias, pong.message, pong.hint)
    console.print(f"{len(pongs) - len(failed)}/{count_things(len(pongs), 'host')} ok.")


def _write_status(pong: Pong, ink: Ink) -> Text:
    return ink.text(say_status(pong.status), "green" if pong.status == "ok" else "red")


def _write_image(pong: Pong) -> str:
    if pong.status != "ok" or pong.runtime.startswith("native"):
        return ""
    return shorten_digest(pong.image) or "to be pulled"


def _write_key(pong: Pong) -> str:
    """Where the key comes from; its fingerprint is in the JSON. Of a long path, the end tells keys apart."""
    key = pong.route.key if pong.route else ""
    home = f"{home_directory()}/"
    short = f"~/{key.removeprefix(home)}" if key.startswith(home) else key
    return short if len(short) <= _WIDEST else f"…/{short.rpartition('/')[2]}"


_WIDEST = 28
_COLUMNS: tuple[tuple[str, Callable[[Pong], str]], ...] = (
    ("answer", lambda pong: f"{pong.latency_s * 1000:.0f} ms" if pong.latency_s is not None else ""),
    ("address", lambda pong: pong.route.address.removesuffix(":22") if pong.route else ""),
    ("via", lambda pong: ", ".join(pong.route.jumps) if pong.route else ""),
    ("key", _write_key),
    ("as", lambda pong: "root" if pong.route and pong.route.become else ""),
    ("runtime", lambda pong: pong.runtime),
    ("image", _write_image),
    ("hardware", lambda pong: pong.hardware),
)
