"""`fleet hosts trust`: look at the hosts' keys, ask, remember."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from fleet.cli.consoles import open_stdout
from fleet.cli.select import select
from fleet.errors import ExitCode, HostError
from fleet.fanout import Fanout
from fleet.host.follow import Pause
from fleet.model.inventory import Host
from fleet.transport.host_key import ScannedKey, append_known_hosts, scan_host_key

SCAN_TIMEOUT_S = 20.0

_WORDS = {"yes": "known", "no": "new", "changed": "CHANGED"}


def trust_hosts(inventory: Path, limit: str | None, forks: int, *, yes: bool) -> int:
    """Show the keys, ask unless `yes`, append the new ones to known_hosts; the exit code.

    Raises:
        FleetError: the inventory or the limit is wrong, or known_hosts cannot be written.
    """
    hosts = [host for host in select(inventory, limit) if host.connection.kind == "ssh"]
    fanout: Fanout[ScannedKey | HostError] = Fanout((_scan(host) for host in hosts), forks)
    found = list(fanout.run())
    keys = sorted((key for key in found if isinstance(key, ScannedKey)), key=lambda key: (key.name, key.alias))
    errors = [error for error in found if isinstance(error, HostError)]
    changed = [key for key in keys if key.known == "changed"]
    _print_keys(keys, errors)
    new = [key for key in keys if key.known == "no"]
    if new and (yes or typer.confirm(f"Remember {len(new)} new keys?", err=True)):
        _remember(new)
    elif new:
        return ExitCode.UNREACHABLE
    if changed:
        return ExitCode.FAILED
    return ExitCode.UNREACHABLE if errors else ExitCode.OK


def _scan(host: Host) -> Generator[ScannedKey | HostError | Pause, None, None]:
    try:
        yield scan_host_key(host.alias, host.connection, SCAN_TIMEOUT_S)
    except HostError as error:
        yield error


def _print_keys(keys: Sequence[ScannedKey], errors: Sequence[HostError]) -> None:
    console = open_stdout()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("host", "name in known_hosts", "type", "fingerprint", "is"):
        table.add_column(heading, overflow="fold")
    for key in keys:
        name = f"{key.name} (jump host)" if key.is_jump else key.name
        style = {"changed": "bold red", "no": "yellow"}.get(key.known, "")
        table.add_row(key.alias, name, key.key_type, key.fingerprint, Text(_WORDS[key.known], style=style))
    console.print(table)
    for key in keys:
        if key.known == "changed":
            where = f"{key.file}:{key.line}" if key.line else key.file
            console.print(
                Text(
                    f"\n{key.alias}: the key differs from {where}. If the machine was installed anew, remove the old "
                    f"one with: ssh-keygen -R '{key.name}' -f {key.file}. If not, somebody may be in between."
                )
            )
    for error in errors:
        console.print(Text(f"\n{error}\n  → {error.hint}"))


def _remember(keys: Sequence[ScannedKey]) -> None:
    """One line per name and key; several hosts behind one jump host show the same one."""
    by_file: defaultdict[str, dict[tuple[str, str], ScannedKey]] = defaultdict(dict)
    for key in keys:
        by_file[key.file][key.name, key.key] = key
    for file, unique in by_file.items():
        append_known_hosts(file, list(unique.values()))
        typer.echo(f"{len(unique)} keys added to {file}", err=True)
    jumps = sorted({key.name for key in keys if key.is_jump})
    if jumps:
        typer.echo(f"Run the command again for the hosts behind {', '.join(jumps)}.", err=True)
