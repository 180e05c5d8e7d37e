"""`fleet hosts trust`: look at the hosts' keys, ask, remember."""

from __future__ import annotations

import shlex
import sys
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.cli.consoles import open_stdout, print_problem
from fleet.cli.select import name_inventory, select
from fleet.cli.words import tell
from fleet.errors import ExitCode, HostError
from fleet.fanout import Fanout
from fleet.host.pause import Pause
from fleet.model.inventory import Host
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import count_things
from fleet.transport.host_key import ScannedKey, append_known_hosts, scan_host_key

SCAN_TIMEOUT_S = 20.0

_WORDS = {"yes": ("known", ""), "no": ("new", "yellow"), "changed": ("CHANGED", "bold red")}


@dataclass(frozen=True)
class _Look:
    alias: str
    found: ScannedKey | HostError


def trust_hosts(inventory: Path, limit: str | None, forks: int, *, yes: bool) -> int:
    """Show the keys, ask unless `yes`, append the new ones to known_hosts; the exit code.

    It is 0 when afterwards every key is known, 3 when one has changed, else 4.

    Raises:
        FleetError: the inventory or the limit is wrong, or known_hosts cannot be written.
    """
    hosts = [host for host in select(inventory, limit) if host.connection.kind == "ssh"]
    if not hosts:
        tell("No host is reached over SSH: there is no key to look at.")
        return ExitCode.OK
    fanout: Fanout[_Look] = Fanout((_look_at(host) for host in hosts), forks)
    found = {look.alias: look.found for look in fanout.run()}
    seen = [found[host.alias] for host in hosts]
    keys = [key for key in seen if isinstance(key, ScannedKey)]
    errors = [error for error in seen if isinstance(error, HostError)]
    new = _drop_repeated([key for key in keys if key.known == "no"])
    _print_keys(keys, errors, inventory)
    remembered = bool(new) and (yes or _confirm(new))
    if remembered:
        _remember(new)
    if keys and not errors and all(key.known == "yes" for key in keys):
        tell("Every key is known already.")
    if any(key.known == "changed" for key in keys):
        return ExitCode.FAILED
    out_of_reach = errors or (new and not remembered) or any(key.is_jump for key in new)
    return ExitCode.UNREACHABLE if out_of_reach else ExitCode.OK


def _look_at(host: Host) -> Generator[_Look | Pause, None, None]:
    try:
        found: ScannedKey | HostError = scan_host_key(host.alias, host.connection, SCAN_TIMEOUT_S)
    except HostError as error:
        found = error
    yield _Look(host.alias, found)


def _drop_repeated(keys: Sequence[ScannedKey]) -> list[ScannedKey]:
    """One of each: several hosts behind one jump host show the same key."""
    return list({(key.file, key.name, key.key): key for key in keys}.values())


def _print_keys(keys: Sequence[ScannedKey], errors: Sequence[HostError], inventory: Path) -> None:
    console = open_stdout()
    ink = Ink.of(console)
    if keys:
        rows = {
            "is": [ink.text(*_WORDS[key.known]) for key in keys],
            "type": [ink.text(key.key_type) for key in keys],
            "fingerprint": [ink.text(key.fingerprint) for key in keys],
        }
        if any(key.name != key.alias for key in keys):
            names = [f"{key.name} (jump host)" if key.is_jump else key.name for key in keys]
            rows["name in known_hosts"] = [ink.text(name) for name in names]
        columns = [Column(ink.text(head), tuple(cells), widest=60) for head, cells in rows.items()]
        aliases = Column(ink.text("host"), tuple(ink.text(key.alias, "bold") for key in keys))
        print_blocks(console, [aliases], columns, even=False)
    for key in keys:
        if key.known == "changed":
            print_problem(console, key.alias, *_explain_change(key))
    for error in errors:
        print_problem(console, error.host, error.message, name_inventory(error.hint, inventory))


def _explain_change(key: ScannedKey) -> tuple[str, str]:
    where = f"{key.file}:{key.line}" if key.line else key.file
    remedy = shlex.join(["ssh-keygen", "-R", key.name, "-f", key.file])
    return (
        f"The key of {key.name} is not the one in {where}. Somebody may be in between.",
        f"Only if the machine was installed anew, remove the old key with: {remedy}",
    )


def _confirm(new: Sequence[ScannedKey]) -> bool:
    """Whether somebody says yes. An input that ends is a no: nobody looked."""
    files = " and ".join(sorted({key.file for key in new}))
    sys.stderr.write(f"Remember {count_things(len(new), 'new key')} in {files}? [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        sys.stderr.write("\n")
    if answer.strip().lower() in {"y", "yes"}:
        return True
    hint = "" if answer else " Nobody was there to answer; compare the fingerprints, then give --yes."
    tell(f"Nothing was remembered.{hint}")
    return False


def _remember(keys: Sequence[ScannedKey]) -> None:
    by_file: defaultdict[str, list[ScannedKey]] = defaultdict(list)
    for key in keys:
        by_file[key.file].append(key)
    for file, added in by_file.items():
        append_known_hosts(file, added)
        tell(f"{count_things(len(added), 'key')} added to {file}")
    jumps = sorted({key.name for key in keys if key.is_jump})
    if jumps:
        tell(f"Run the command again for the hosts behind {', '.join(jumps)}.")
