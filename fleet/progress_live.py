"""Progress on a terminal: a frame that is drawn again and again below what stays."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from fleet.model.event import Event, HostNotice
from fleet.model.result import Stage
from fleet.progress_board import WAITING, Board, HostState, one_line, tell_left, tell_outcome
from fleet.progress_print import print_line
from fleet.report.terminal_names import find_domain
from fleet.report.wording import fold_names

REDRAW_S = 1.0
"""A frame in which nothing happened is drawn again only this often: the times go by in seconds."""

ASCII = str.maketrans("✔✖▸━─·…→", "+x>#.-~>")
"""For a terminal without Unicode: one character for one, so that styles stay where they are."""

_BAR = 8
"""Characters of a host's bar."""

_KINDS = 4
"""At most so many rows for hosts that failed as another did before."""


class LiveDisplay:
    """A frame of the hosts at work or done; notices and the first failure of a kind are printed above it, and stay."""

    def __init__(self, board: Board, console: Console) -> None:
        self._board = board
        self._console = console
        self._frame = Text()
        self._drawn_s = float("-inf")
        self._size = console.size
        self._domain = find_domain(list(board.hosts))

    def show(self, event: Event) -> None:
        host = self._board.apply(event)
        if host is None:
            return
        self._drawn_s = float("-inf")
        if isinstance(event, HostNotice):
            print_line(self._console, f"{event.alias}: {one_line(event.message)}")
        elif host.failed and not host.like:
            print_line(self._console, f"✖ {event.alias}: {tell_outcome(host)}", style="red")

    def tell_alike(self) -> None:
        """Print what the frame, which is gone, said of hosts that failed as another did."""
        for row in _draw_failed(list(self._board.hosts.values()), self._domain):
            print_line(self._console, row.plain, style="red")

    def draw(self) -> Text:
        """The frame as it is now: at most as high and as wide as the terminal."""
        now_s, size = self._board.clock(), self._console.size
        if now_s - self._drawn_s >= REDRAW_S or size != self._size:
            with self._board.lock:
                self._frame = self._compose(now_s, size.height)
            if self._console.options.ascii_only:
                self._frame.plain = self._frame.plain.translate(ASCII).encode("ascii", "replace").decode()
                self._frame.overflow = "crop"
            self._drawn_s, self._size = now_s, size
        return self._frame

    def _compose(self, now_s: float, height: int) -> Text:
        hosts = list(self._board.hosts.values())
        failed = _draw_failed(hosts, self._domain)[: max(0, min(_KINDS, height - 5))]
        # Beside them: how many more there are, the sum, and two lines to spare.
        shown = _choose_hosts([host for host in hosts if not host.failed], max(1, height - 4 - len(failed)), now_s)
        names = shorten_names([host.plan.alias.removesuffix(self._domain) for host in shown])
        digits = max((len(str(len(host.plan.cells))) for host in shown), default=0)
        lines = [_draw_row(host, name, digits, now_s) for host, name in zip(shown, names, strict=True)] + failed
        left = sum(not host.failed for host in hosts) - len(shown)
        if left:
            lines.append(Text(f"  and {left} more", style="dim"))
        bar = draw_bar(self._board.cells_done(), self._board.cells, 2 * _BAR)
        lines.append(Text.assemble(bar, " ", self._board.sum_up()))
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


def _draw_failed(hosts: list[HostState], domain: str) -> list[Text]:
    """A row for hosts that failed as another did, which has a line above the frame; the largest set first."""
    kinds: dict[str, list[HostState]] = {}
    for host in hosts:
        if host.like:
            kinds.setdefault(host.like, []).append(host)
    rows = []
    for alike in sorted(kinds.values(), key=lambda members: -len(members)):
        names = ", ".join(fold_names(host.plan.alias.removesuffix(domain) for host in alike))
        rows.append(
            Text.assemble(("✖", "red"), " ", (f"{tell_outcome(alike[0]).removesuffix(domain)}: {names}", "red"))
        )
    return rows


def _choose_hosts(hosts: list[HostState], room: int, now_s: float) -> list[HostState]:
    """All when they fit; else those with most left to do, in the plan's order."""
    if len(hosts) <= room:
        return hosts
    # Rounded, so that rows do not come and go at every poll.
    working = sorted((host for host in hosts if host.working), key=lambda host: -round(host.left_s(now_s) / 10))
    chosen = {host.plan.alias for host in [*working, *(host for host in hosts if not host.working)][:room]}
    return [host for host in hosts if host.plan.alias in chosen]


def shorten_names(names: list[str], longest: int = 24) -> list[str]:
    """The names cut off at `longest` and filled up to the same width."""
    width = min(longest, max(map(len, names), default=0))
    return [f"{name if len(name) <= width else name[: width - 1] + '…':<{width}}" for name in names]


def _draw_row(host: HostState, name: str, digits: int, now_s: float) -> Text:
    if host.outcome is not None:
        return Text.assemble(("✔", "green"), f" {name}  ", (tell_outcome(host), "green"))
    if host.stage is None:
        return Text(f"  {name}  {WAITING}", style="dim")
    line = Text.assemble(("▸", "cyan"), f" {name}  {host.word:<11} ")
    if host.stage == Stage.RUN:
        total = len(host.plan.cells)
        line.append_text(draw_bar(host.cells_done(), total, _BAR))
        line.append(f" {host.cells_done():>{digits}}/{total:<{digits}} ")
        line.append(f"{tell_left(host.left_s(now_s)).removesuffix(' left'):>10} ", style="bold")
    if host.progress is not None:
        line.append(f" {one_line(host.progress.current_cell or host.progress.detail)}", style="dim")
    return line


def draw_bar(done: int, total: int, width: int) -> Text:
    """A bar that is full as far as the work is done."""
    full = width * done // total if total else 0
    return Text.assemble(("━" * full, "cyan"), ("─" * (width - full), "dim"))
