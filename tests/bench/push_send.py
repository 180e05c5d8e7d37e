"""What `fleet push-image` does between its look at a host and the loading: the sending, in a process of its own.

    python -m tests.bench.push_send INVENTORY ARCHIVE WORKDIR

Prints the seconds it took after the connection was made, and its processor time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fleet.host.framing import Shell
from fleet.host.image_archive import read_archive
from fleet.host.push import PART_BYTES
from fleet.host.push_steps import Staging, send_part
from fleet.inventory.loader import load_inventory
from fleet.transport.open import open_transport


def send(inventory: Path, path: Path, workdir: str) -> tuple[float, float]:
    host = load_inventory(inventory).hosts[0]
    transport = open_transport(host)
    shell = Shell(host.alias, transport)
    staging = Staging(workdir, "image-bench.tar", "push-bench", "bench")
    with path.open("rb") as file:
        archive = read_archive(file)
        stream = archive.cut([0] * len(archive.images))
        transport.run(["true"], timeout_s=60)
        begin, cpu, offset = time.monotonic(), time.process_time(), 0
        while offset < stream.size:
            length = min(PART_BYTES, stream.size - offset)
            offset = send_part(shell, staging, offset, length, stream.open(offset, length, lambda count: None))
        took = time.monotonic() - begin, time.process_time() - cpu
    transport.close()
    return took


if __name__ == "__main__":
    print(*send(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
