"""A child process under supervision: its report is read, its output kept in bounds, and it is ended when it hangs."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from payload.procfs import read_state
from payload.watchdog import Overdue, Watchdog

KEPT_BYTES = 65536
"""How much of the end of a child's output is kept."""

_TICK_S = 0.25

_STACKS_S = 2.0
"""How long a child that hangs may take to say where it is."""

_KILL_S = 10.0
"""How long a killed child may take to be gone. One that waits in a driver for ever is left behind."""

Ended = NamedTuple(
    "Ended",
    [
        ("result", Optional[Dict[str, Any]]),
        ("returncode", int),
        ("overdue", Optional[Overdue]),
        ("stage", str),
        ("output", str),
    ],
)
"""How a child ended. `result` None: it did not report one. `overdue`: why it was given up. `stage`: its last."""

Listener = Callable[[Dict[str, Any]], None]


class Observer:
    """Who follows a child while it runs; the base does nothing."""

    def begin(self, pid: int) -> None:
        """The child has been started."""

    def take(self, event: Dict[str, Any]) -> None:
        """An event of the child, any but its result."""

    def tick(self) -> None:
        """Some time has passed, at most a quarter of a second unless the machine is slow. Must cost next to nothing."""


class Stopped(Exception):
    """The payload was told to stop; the child is dead."""


class Stop:
    """Notices SIGTERM and SIGINT; whoever waits looks here."""

    def __init__(self) -> None:
        self.signum: Optional[int] = None

    def listen(self) -> None:
        for signum in (signal.SIGTERM, signal.SIGINT):
            signal.signal(signum, self._remember)

    def _remember(self, signum: int, frame: Any) -> None:
        self.signum = signum


def run_child(
    request: Dict[str, Any], environment: Dict[str, str], timeout_s: float, stop: Stop, observer: Observer
) -> Ended:
    """Start a child of this same payload, give it a request, and see it to its end.

    Args:
        timeout_s: what it may take in all; see `payload.watchdog` for what ends it before.

    Raises:
        Stopped: `stop` was signalled.
    """
    argv, environment = _find_self(environment)
    try:
        reader, writer = os.pipe()
    except OSError as error:
        return _fail_to_start(error)
    try:
        child = subprocess.Popen(
            argv + ["cell", "--report-fd", str(writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[writer],
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        os.close(reader)
        return _fail_to_start(error)
    finally:
        os.close(writer)
    watch = _Watch(child, reader, Watchdog(timeout_s), observer)
    try:
        observer.begin(child.pid)
        watch.feed(json.dumps(request).encode("ascii"))
        overdue = watch.wait(stop)
        if overdue is not None and watch.result is None:
            watch.ask_for_stacks()
    finally:
        watch.end()
    returncode = -int(signal.SIGKILL) if child.returncode is None else child.returncode
    return Ended(watch.result, returncode, None if watch.result else overdue, watch.stage, watch.read_output())


def _fail_to_start(error: OSError) -> Ended:
    return Ended(None, 127, None, "start", "The child could not be started: %s" % error)


def _find_self(environment: Dict[str, str]) -> Tuple[List[str], Dict[str, str]]:
    """How to start this payload again: from the archive it is in, or from the directory that holds the package."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.isfile(root):
        return [sys.executable, root], environment
    paths = [root] + [p for p in [environment.get("PYTHONPATH")] if p]
    return [sys.executable, "-m", "payload"], dict(environment, PYTHONPATH=os.pathsep.join(paths))


class _Watch:
    """Reads both pipes of one child until it ends."""

    def __init__(self, child: "subprocess.Popen[bytes]", reader: int, watchdog: Watchdog, observer: Observer) -> None:
        self._child = child
        self._reader = reader
        self._watchdog = watchdog
        self._observer = observer
        self._line = b""
        self._output = bytearray()
        self._selector = selectors.DefaultSelector()
        self.result: Optional[Dict[str, Any]] = None
        self.stage = "start"
        assert child.stdout is not None
        for descriptor, take in ((reader, self._take_report), (child.stdout.fileno(), self._take_output)):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ, take)

    def feed(self, data: bytes) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(data)
            self._child.stdin.close()
        except BrokenPipeError:
            pass  # It died at once; `wait` finds out.

    def wait(self, stop: Stop) -> Optional[Overdue]:
        """Until the child is dead, or is to be given up: why."""
        while not self._has_exited():
            if stop.signum is not None:
                raise Stopped()
            self._read(_TICK_S)
            self._observer.tick()
            overdue = self._watchdog.find_overdue()
            if overdue is not None:
                return overdue._replace(state=read_state(self._child.pid))
        return None

    def ask_for_stacks(self) -> None:
        """Let the child print where each of its threads is, as far as it still can."""
        try:
            # One that was stopped would print nothing.
            os.killpg(self._child.pid, signal.SIGCONT)
            os.kill(self._child.pid, signal.SIGUSR1)
        except (ProcessLookupError, PermissionError):
            return
        deadline = time.monotonic() + _STACKS_S
        while time.monotonic() < deadline and not self._has_exited():
            self._read(_TICK_S)

    def end(self) -> None:
        """Kill what is left of the child's group, take what is left in the pipes, and let go."""
        try:
            # Before the child is reaped, so that its number cannot belong to somebody else.
            os.killpg(self._child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            self._child.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            pass
        while self._read(0):
            pass
        self._selector.close()
        os.close(self._reader)
        assert self._child.stdout is not None
        self._child.stdout.close()

    def read_output(self) -> str:
        return bytes(self._output[-KEPT_BYTES:]).decode("utf-8", "replace")

    def _has_exited(self) -> bool:
        return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self, timeout_s: float) -> bool:
        """Wait for data at most so long and take it. True: there was some."""
        if not self._selector.get_map():
            time.sleep(min(timeout_s, 0.02))
            return False
        some = False
        for key, _ in self._selector.select(timeout_s):
            data = os.read(key.fd, 1 << 16)
            if data:
                some = True
                key.data(data)
            else:
                self._selector.unregister(key.fd)
        return some

    def _take_output(self, data: bytes) -> None:
        self._output += data
        if len(self._output) > 4 * KEPT_BYTES:
            del self._output[:-KEPT_BYTES]

    def _take_report(self, data: bytes) -> None:
        lines = (self._line + data).split(b"\n")
        self._line = lines.pop()
        for line in lines:
            event = _parse_event(line)
            if event["event"] == "result":
                self.result = event["result"]
                continue
            if event["event"] == "stage":
                self.stage = event["stage"]
            self._watchdog.take(event)
            self._observer.take(event)


def _parse_event(line: bytes) -> Dict[str, Any]:
    """An event of the child. Its libraries write to descriptors that they do not own: then it is one of no kind."""
    try:
        event = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        event = None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else {"event": ""}
