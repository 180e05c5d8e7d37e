"""What a person sees while images are pushed: bars on a terminal, plain lines without one, on stderr."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fleet.model.push import PushEvent, PushFinished, PushNotice, PushOutcome, PushStage, PushStep, format_bytes
from fleet.model.result import HostStatus
from fleet.progress_board import WAITING, one_line
from fleet.progress_lines import STATUS_EVERY_S, keep_telling
from fleet.progress_live import ASCII, draw_bar, shorten_names
from fleet.progress_print import print_line
from fleet.report.wording import format_duration, say_sentence, say_status

REFRESH_PER_S = 4
RATE_OVER_S = 10.0
"""The rate shown is that of the last seconds: links and disks have their moods."""

_BAR = 16
_WORDS: dict[PushStep, str] = {
    "connecting": "connecting",
    "reading": "reading the image",
    "checking": "checking",
    "waiting": "waiting for a sender",
    "sending": "sending",
    "fetching": "fetching",
    "loading": "loading",
}


class PushProgress(Protocol):
    """What a push tells. May be called from any thread."""

    def show(self, event: PushEvent) -> None:
        """Show one event."""
        ...

    def count(self, alias: str, sent: int) -> None:
        """So many more bytes have been sent to a host."""
        ...


@contextmanager
def open_push_progress(sizes: Mapping[str, int], console: Console, *, live: bool) -> Iterator[PushProgress]:
    """Show the progress of a push until the block ends.

    Args:
        sizes: every host's alias, and about how many bytes it may have to be sent.
        console: of stderr.
        live: draw over what was drawn before, which needs a terminal; otherwise print a line for what matters.
    """
    board = PushBoard(sizes, time.monotonic)
    if live:
        bars = PushBars(board, console)
        # transient: the table of hosts follows.
        with Live(
            get_renderable=bars.draw,
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,
            vertical_overflow="crop",
        ):
            yield bars
    else:
        lines = PushLines(board, console)
        with keep_telling(lines.sum_up, STATUS_EVERY_S):
            yield lines


class Meter:
    """How fast a number of bytes grows."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def measure(self, now_s: float, done: int) -> float:
        """Bytes a second over the last seconds; 0 when that is not known."""
        if self._samples and done < self._samples[-1][1]:
            self._samples.clear()  # what was sent did not arrive
        self._samples.append((now_s, done))
        while len(self._samples) > 2 and now_s - self._samples[1][0] > RATE_OVER_S:
            self._samples.popleft()
        begin_s, begin = self._samples[0]
        return (done - begin) / (now_s - begin_s) if now_s > begin_s else 0.0


@dataclass
class HostPush:
    """What is known of one host."""

    total: int
    """Bytes; a guess until it is known."""
    done: int = 0
    step: PushStep | None = None
    outcome: PushOutcome | None = None

    @property
    def word(self) -> str:
        if self.outcome is not None:
            return say_status(self.outcome.status)
        return _WORDS[self.step] if self.step is not None else WAITING

    @property
    def failed(self) -> bool:
        return self.outcome is not None and self.outcome.status not in {HostStatus.OK, HostStatus.SKIPPED}


class PushBoard:
    """The state of every host, from the events."""

    def __init__(self, sizes: Mapping[str, int], clock: Callable[[], float]) -> None:
        self.clock = clock
        self.lock = Lock()
        self.hosts = {alias: HostPush(size) for alias, size in sizes.items()}
        self._meter = Meter()

    def apply(self, event: PushEvent) -> HostPush:
        """Take an event in; the host it is about."""
        host = self.hosts[event.alias]
        with self.lock:
            if isinstance(event, PushStage):
                host.step = event.step
                if event.total_bytes is not None:
                    host.total, host.done = event.total_bytes, event.kept_bytes
            elif isinstance(event, PushFinished):
                host.outcome = event.outcome
                # Whatever it needed: nothing more is going to be sent.
                host.total = host.done
        return host

    def count(self, alias: str, sent: int) -> None:
        self.hosts[alias].done += sent

    def sum_up(self) -> str:
        """`3.20 GB of 22.4 GB · 112 MB/s · 2 min 51 s left · 1 ok, 2 sending`."""
        done, total = self.count_bytes()
        parts = [f"{format_bytes(done)} of {format_bytes(total)}"]
        rate = self._meter.measure(self.clock(), done)
        if rate:
            parts.append(tell_rate(rate, total - done))
        counts = Counter(host.word for host in self.hosts.values())
        return " · ".join([*parts, ", ".join(f"{count} {word}" for word, count in counts.items())])

    def count_bytes(self) -> tuple[int, int]:
        """Done and total, of all hosts."""
        hosts = self.hosts.values()
        return sum(host.done for host in hosts), sum(max(host.done, host.total) for host in hosts)


def tell_rate(rate: float, left: int) -> str:
    """`112 MB/s · 2 min 51 s left`."""
    return f"{format_bytes(rate)}/s · {format_duration(left / rate)} left" if rate else ""


def tell_push(host: HostPush, alias: str) -> str:
    """`ok: 11.2 GB in 1 min 38 s`; or the status, what happened and what to do."""
    outcome = host.outcome
    if outcome is None:
        return ""
    text = say_status(outcome.status)
    if outcome.status == HostStatus.OK and outcome.send_s is not None:
        moved = format_bytes(outcome.sent_bytes + outcome.fetched_bytes)
        return f"{text}: {moved} in {format_duration(outcome.send_s)}"
    if outcome.message:
        text += f": {say_sentence(one_line(outcome.message), alias)}"
    return f"{text} → {one_line(outcome.hint)}" if outcome.hint else text


class PushLines:
    """One line for each thing that matters."""

    def __init__(self, board: PushBoard, console: Console) -> None:
        self._board = board
        self._console = console

    def show(self, event: PushEvent) -> None:
        before = self._board.hosts[event.alias].step
        host = self._board.apply(event)
        if text := self._tell(event, host, before):
            print_line(self._console, f"{event.alias}: {text}", timed=True)

    def count(self, alias: str, sent: int) -> None:
        self._board.count(alias, sent)

    def sum_up(self) -> None:
        """Print how far all is."""
        with self._board.lock:
            text = self._board.sum_up()
        print_line(self._console, text, timed=True)

    def _tell(self, event: PushEvent, host: HostPush, before: PushStep | None) -> str:
        if isinstance(event, PushNotice):
            return one_line(event.message)
        if isinstance(event, PushFinished):
            return tell_push(host, event.alias)
        if event.step == before or event.step not in {"sending", "fetching", "loading"}:
            return ""
        if event.step == "loading":
            return "loading"
        kept = f", {format_bytes(event.kept_bytes)} of which are there" if event.kept_bytes else ""
        return f"{event.step} {format_bytes(host.total)}{kept}"


class PushBars:
    """A frame with a bar for each host at work and one for all; notices and failures are printed above it, and stay."""

    def __init__(self, board: PushBoard, console: Console) -> None:
        self._board = board
        self._console = console
        self._meters = {alias: Meter() for alias in board.hosts}

    def show(self, event: PushEvent) -> None:
        host = self._board.apply(event)
        if isinstance(event, PushNotice):
            print_line(self._console, f"{event.alias}: {one_line(event.message)}")
        elif host.failed:
            print_line(self._console, f"✖ {event.alias}: {tell_push(host, event.alias)}", style="red")

    def count(self, alias: str, sent: int) -> None:
        self._board.count(alias, sent)

    def draw(self) -> Text:
        """The frame as it is now: at most as high and as wide as the terminal."""
        with self._board.lock:
            frame = self._compose(self._console.size.height)
        if self._console.options.ascii_only:
            frame.plain = frame.plain.translate(ASCII).encode("ascii", "replace").decode()
            frame.overflow = "crop"
        return frame

    def _compose(self, height: int) -> Text:
        working = {alias: host for alias, host in self._board.hosts.items() if host.step and host.outcome is None}
        shown = list(working)[: max(1, height - 3)]
        names = shorten_names(shown)
        lines = [self._draw_row(alias, name) for alias, name in zip(shown, names, strict=True)]
        if len(working) > len(shown):
            lines.append(Text(f"  and {len(working) - len(shown)} more", style="dim"))
        lines.append(Text.assemble(draw_bar(*self._board.count_bytes(), _BAR), " ", self._board.sum_up()))
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)

    def _draw_row(self, alias: str, name: str) -> Text:
        host = self._board.hosts[alias]
        line = Text.assemble(("▸", "cyan"), f" {name}  {host.word}")
        if host.step in {"sending", "fetching"}:
            rate = self._meters[alias].measure(self._board.clock(), host.done)
            line.append_text(Text.assemble(" ", draw_bar(host.done, host.total, _BAR)))
            line.append(f" {format_bytes(host.done)} of {format_bytes(host.total)}", style="bold")
            line.append(f" · {tell_rate(rate, host.total - host.done)}" if rate else "")
        return line
