"""`fleet ping`: can every host be reached, with which key, and what runs there."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from fleet.cli.consoles import open_stdout
from fleet.cli.select import select
from fleet.errors import ExitCode, HostError
from fleet.fanout import Fanout
from fleet.host.follow import Pause
from fleet.host.framing import Shell
from fleet.host.preflight import check_runtime, check_tools
from fleet.host.probe import choose_python, probe_host
from fleet.model.inventory import Host
from fleet.model.result import HostStatus
from fleet.report.wording import name_hardware
from fleet.transport.open import open_transport


@dataclass(frozen=True)
class Pong:
    """What one host answered."""

    alias: str
    status: str
    """`ok` or a `HostStatus`."""
    reason: str | None = None
    message: str = ""
    hint: str = ""
    latency_s: float | None = None
    """One whole answer on a connection that stands already: the probe, which looks at the engine too."""
    connection: str = ""
    """User, address, and the key that opened it."""
    runtime: str = ""
    image: str | None = None
    """Digest of the image on the host; None: it would be pulled."""
    hardware: str = ""


def ping_hosts(inventory: Path, limit: str | None, forks: int, *, as_json: bool) -> int:
    """Ping the selected hosts, print what they answered; the exit code.

    Raises:
        FleetError: the inventory or the limit is wrong.
    """
    hosts = select(inventory, limit)
    fanout: Fanout[Pong] = Fanout((_ping(host) for host in hosts), forks)
    answers = {pong.alias: pong for pong in fanout.run()}
    pongs = [answers[host.alias] for host in hosts]
    if as_json:
        document = {"schema": "fleet.ping/1", "hosts": [asdict(pong) for pong in pongs]}
        sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")
    else:
        _print_pongs(pongs)
    return _choose_exit_code(pongs)


def _ping(host: Host) -> Generator[Pong | Pause, None, None]:
    transport = open_transport(host.alias, host.connection)
    settings = host.settings.model_copy(
        update={"python": choose_python(host.settings, host.connection, sys.executable)}
    )
    try:
        shell = Shell(host.alias, transport)
        transport.run(["true"], timeout_s=30)
        begin = time.monotonic()
        probe = probe_host(shell, settings, workdir=False)
        latency = time.monotonic() - begin
        check_tools(host.alias, probe)
        check_runtime(host.alias, settings, probe)
        facts = probe.facts
        yield Pong(
            host.alias,
            "ok",
            latency_s=round(latency, 4),
            connection=transport.describe(),
            runtime=f"{settings.runtime} {facts.runtime_version or ''}".strip(),
            image=facts.image_digest,
            hardware=name_hardware(facts),
        )
    except HostError as error:
        yield Pong(host.alias, error.status, error.reason, error.message, error.hint)
    finally:
        transport.close()


def _choose_exit_code(pongs: Sequence[Pong]) -> int:
    bad = [HostStatus(pong.status) for pong in pongs if pong.status != "ok"]
    if not bad:
        return ExitCode.OK
    return ExitCode.UNREACHABLE if all(status.out_of_reach for status in bad) else ExitCode.FAILED


def _print_pongs(pongs: Sequence[Pong]) -> None:
    console = open_stdout()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("host", "status", "answer", "connection", "runtime", "image", "hardware"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "answer" else "left")
    for pong in pongs:
        good = pong.status == "ok"
        image = "" if not good or pong.runtime.startswith("native") else (pong.image or "to be pulled")[:19]
        table.add_row(
            pong.alias,
            Text(pong.status.replace("_", " "), style="green" if good else "red"),
            f"{pong.latency_s * 1000:.0f} ms" if pong.latency_s is not None else "",
            pong.connection,
            pong.runtime,
            image,
            pong.hardware,
        )
    console.print(table)
    failed = [pong for pong in pongs if pong.status != "ok"]
    for pong in failed:
        console.print(Text(f"\n{pong.alias}: {pong.message}\n  → {pong.hint}"))
    console.print(f"\n{len(pongs) - len(failed)}/{len(pongs)} hosts answer.")
