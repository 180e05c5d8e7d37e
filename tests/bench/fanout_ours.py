"""fleet's transport and fan-out doing the work of the bench.

python -m tests.bench.fanout_ours WORK.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from fleet.errors import HostError
from fleet.fanout import Fanout
from fleet.host.pause import Pause
from fleet.model.inventory import Connection, Host
from fleet.transport.open import open_transport

LIMIT_S = 120.0


@dataclass(frozen=True)
class Job:
    """The work on one host."""

    address: str
    connection: Connection
    payload: bytes
    command: str
    result: Path

    def run(self) -> Generator[str | Pause, None, None]:
        """Says what went wrong."""
        transport = open_transport(Host(alias=self.address, connection=self.connection))
        argv = ["/bin/sh", "-c", self.command]
        try:
            self.result.write_bytes(transport.run(argv, stdin=self.payload, timeout_s=LIMIT_S).stdout)
        except HostError as error:
            yield f"{self.address}: {error}"
        finally:
            transport.close()


def main(description: str) -> None:
    work = json.loads(Path(description).read_text())
    payload = Path(work["payload"]).read_bytes()

    def make_job(address: str) -> Job:
        options = {"port": work["port"], "user": work["user"], "private_key_file": work["key"]}
        connection = Connection(host=address, ssh_args=("-F", work["ssh_config"]), **options)
        result = Path(work["results"]) / address
        return Job(address, connection, payload, work["command"], result)

    for trouble in Fanout((make_job(address).run() for address in work["addresses"]), work["forks"]).run():
        print(trouble, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
