"""`fleet push-image`: hosts that cannot pull an image get it from the control node."""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.text import Text

from fleet.cli.consoles import open_stderr, open_stdout, print_problem
from fleet.cli.ending import GOOD, choose_exit_code
from fleet.cli.passwords import Ask, ask_passwords
from fleet.cli.select import name_inventory, select
from fleet.cli.words import answer_interrupt
from fleet.errors import SelectionError
from fleet.fanout import Fanout
from fleet.host.image_source import Source, open_source
from fleet.host.push import Push
from fleet.host.push_peers import PeerPush, Peers
from fleet.model.inventory import Host
from fleet.model.push import PushEvent, PushFinished, PushOutcome, format_bytes
from fleet.model.result import HostStatus
from fleet.progress_push import PushProgress, open_push_progress
from fleet.report.json_form import write_document
from fleet.report.terminal_blocks import Column, Ink, print_blocks
from fleet.report.wording import count_things, format_duration, say_status
from fleet.transport.open import open_transport
from fleet.transport.passwords import Passwords
from fleet.transport.ssh_tokens import local_user


@dataclass(frozen=True)
class PushOptions:
    """The options of `fleet push-image`."""

    inventory: Path
    what: str | None
    """An image of this machine's engine or a file; None: to each host the image that it is measured in."""
    limit: str | None
    forks: int
    ask: Ask
    via_peers: bool
    """Hosts that are done send it on."""
    json: bool


@dataclass(frozen=True)
class PushList:
    """How it ended for every selected host, in the order of the inventory."""

    hosts: tuple[PushOutcome, ...]
    schema: Literal["fleet.push/1"] = "fleet.push/1"


def push_images(options: PushOptions) -> int:
    """Push an image to the selected hosts, print how it ended for each; the exit code.

    Raises:
        FleetError: the inventory or the limit is wrong, or there is no such image here.
    """
    hosts = select(options.inventory, options.limit)
    if all(host.settings.runtime == "native" for host in hosts):
        raise SelectionError("None of these hosts is measured in a container (fleet_runtime).")
    with _open_sources(options.what, hosts) as sources:
        passwords = ask_passwords(options.ask, [host for host in hosts if host.alias in sources])
        sizes = {host.alias: sources[host.alias].size if host.alias in sources else 0 for host in hosts}
        console = open_stderr()
        kept = "what has arrived is kept on the hosts: run it again, and it goes on from there."
        with answer_interrupt(kept), open_push_progress(sizes, console, live=console.is_terminal) as progress:
            ends = _push(hosts, sources, options, progress, passwords)
            found = {outcome.alias: outcome for outcome in ends}
    outcomes = [found[host.alias] for host in hosts]
    outcomes = [end.model_copy(update={"hint": name_inventory(end.hint, options.inventory)}) for end in outcomes]
    if options.json:
        sys.stdout.write(write_document(PushList(tuple(outcomes))))
    else:
        _print_outcomes(outcomes)
    return choose_exit_code(outcome.status for outcome in outcomes)


@contextlib.contextmanager
def _open_sources(what: str | None, hosts: Sequence[Host]) -> Iterator[Mapping[str, Source]]:
    """For every host that runs a container, by alias, what it gets."""
    wanted = {host.alias: what or host.settings.image for host in hosts if host.settings.runtime != "native"}
    with contextlib.ExitStack() as stack:
        opened = {}
        for name in dict.fromkeys(wanted.values()):
            opened[name] = open_source(name)
            stack.callback(opened[name].close)
        yield {alias: opened[name] for alias, name in wanted.items()}


def _push(
    hosts: Sequence[Host],
    sources: Mapping[str, Source],
    options: PushOptions,
    progress: PushProgress,
    passwords: Passwords,
) -> Iterator[PushOutcome]:
    who = f"{local_user()}@{socket.gethostname()} (fleet push-image)"
    peers = Peers(len(sources), passwords)

    def make(host: Host) -> Push:
        transport, source = open_transport(host, passwords), sources[host.alias]
        if options.via_peers:
            return PeerPush(host, source, transport, progress.count, who, peers=peers)
        return Push(host, source, transport, progress.count, who)

    fanout: Fanout[PushEvent] = Fanout((make(host).run() for host in hosts if host.alias in sources), options.forks)
    for event in itertools.chain(map(_skip, (host for host in hosts if host.alias not in sources)), fanout.run()):
        progress.show(event)
        if isinstance(event, PushFinished):
            yield event.outcome


def _skip(host: Host) -> PushFinished:
    message = "it is measured without a container and needs no image"
    outcome = PushOutcome(alias=host.alias, status=HostStatus.SKIPPED, reason="native", message=message)
    return PushFinished(alias=host.alias, outcome=outcome)


def _print_outcomes(outcomes: Sequence[PushOutcome]) -> None:
    console = open_stdout()
    ink = Ink.of(console)
    columns = [Column(ink.text("status"), tuple(_write_status(outcome, ink) for outcome in outcomes))]
    for head, read in _COLUMNS:
        values = [read(outcome) for outcome in outcomes]
        if any(values):
            cells = tuple(ink.text(value) for value in values)
            left = head in {"image", "note"}
            columns.append(Column(ink.text(head), cells, "left" if left else "right", widest=_WIDEST))
    names = Column(ink.text("host"), tuple(ink.text(outcome.alias, "bold") for outcome in outcomes))
    print_blocks(console, [names], columns, even=False)
    failed = [outcome for outcome in outcomes if outcome.status not in GOOD]
    for outcome in failed:
        print_problem(console, outcome.alias, outcome.message, outcome.hint)
    needing = sum(outcome.reason != "native" for outcome in outcomes)
    have = needing - len(failed)
    console.print(f"{have}/{count_things(needing, 'host')} {'has' if needing == 1 else 'have'} the image.")


def _write_status(outcome: PushOutcome, ink: Ink) -> Text:
    return ink.text(say_status(outcome.status), "green" if outcome.status in GOOD else "red")


def _write_rate(outcome: PushOutcome) -> str:
    moved = outcome.sent_bytes + outcome.fetched_bytes
    return f"{format_bytes(moved / outcome.send_s)}/s" if moved and outcome.send_s else ""


_WIDEST = 40
_COLUMNS: tuple[tuple[str, Callable[[PushOutcome], str]], ...] = (
    ("sent", lambda outcome: format_bytes(outcome.sent_bytes) if outcome.sent_bytes else ""),
    ("fetched", lambda outcome: format_bytes(outcome.fetched_bytes) if outcome.fetched_bytes else ""),
    ("kept", lambda outcome: format_bytes(outcome.kept_bytes) if outcome.kept_bytes else ""),
    ("rate", _write_rate),
    ("sending", lambda outcome: format_duration(outcome.send_s) if outcome.send_s is not None else ""),
    ("loading", lambda outcome: format_duration(outcome.load_s) if outcome.load_s is not None else ""),
    ("image", lambda outcome: ", ".join(outcome.images)),
    ("note", lambda outcome: outcome.message if outcome.status == HostStatus.SKIPPED else ""),
)
