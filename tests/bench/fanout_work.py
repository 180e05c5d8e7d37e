"""The work of the bench: what is pushed, started and fetched, and how to tell that it was done."""

from __future__ import annotations

import base64
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.bench.fanout_hosts import Hosts

PAYLOAD_BYTES = 100 << 10
RESULT_BYTES = 5_000

# The job: a result that only who has the payload can make, under its name when it is whole. The rest is never read.
_SCRIPT = 'head -c {size} "$0" >result.tmp && mv result.tmp result\nexit\n'

START = "cd ~/bench && rm -f result && { setsid /bin/sh payload </dev/null >log 2>&1 & }"
COMMAND = (
    f"mkdir -p bench && cat >bench/payload && {START}"
    " && n=0; until [ -f result ] || [ $((n += 1)) -gt 3000 ]; do sleep 0.02; done; cat result"
)
"""All of the work: the payload comes on stdin, the result leaves on stdout."""


@dataclass(frozen=True)
class Work:
    """One round of one tool."""

    hosts: Hosts
    forks: int
    folder: Path
    """On the control node, for this round alone."""

    @property
    def payload(self) -> Path:
        return self.folder / "payload"

    @property
    def results(self) -> Path:
        """A file for each host, named after its address."""
        return self.folder / "results"

    @property
    def description(self) -> Path:
        """All of it as JSON, for programs in other environments."""
        return self.folder / "work.json"

    def prepare(self) -> None:
        """A payload that no host has seen, and nothing else."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.results.mkdir(parents=True)
        script = _SCRIPT.format(size=RESULT_BYTES).encode()
        text = script + base64.encodebytes(os.urandom(PAYLOAD_BYTES))
        # The result ends with a line, for tools that fetch lines.
        self.payload.write_bytes(text[: RESULT_BYTES - 1] + b"\n" + text[RESULT_BYTES:PAYLOAD_BYTES])
        description = {
            **{name: getattr(self.hosts, name) for name in ("addresses", "port", "user")},
            **{name: str(getattr(self.hosts, name)) for name in ("key", "known_hosts", "ssh_config")},
            **{name: str(getattr(self, name)) for name in ("payload", "results")},
            "forks": self.forks,
            "command": COMMAND,
        }
        self.write("work.json", json.dumps(description))

    def write(self, name: str, text: str) -> Path:
        """A file in the folder, for this round."""
        path = self.folder / name
        path.write_text(text)
        return path

    def count_done(self) -> int:
        """Hosts whose result is here, and right."""
        wanted = self.payload.read_bytes()[:RESULT_BYTES]
        found = (self.results / address for address in self.hosts.addresses)
        return sum(file.exists() and file.read_bytes() == wanted for file in found)
