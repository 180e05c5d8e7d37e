"""TCP servers that are no sshd."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def listening(answer: Callable[[socket.socket], None], host: str = "127.0.0.1") -> Iterator[int]:
    """A TCP server that treats each connection with `answer`, then keeps it open until the end."""
    kept: list[socket.socket] = []
    with socket.create_server((host, 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    kept.append(peer)
                    with suppress(OSError):
                        answer(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for peer in kept:
                peer.close()


@contextmanager
def blackhole(host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A port that swallows connection requests: a listener whose queue is full answers none."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
        server.bind((host, port))
        server.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket(server.family))
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        time.sleep(0.05)
        yield server.getsockname()[1]
