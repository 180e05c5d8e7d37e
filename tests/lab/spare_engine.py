"""A further container engine, without any image at first: for hosts that do not have what the lab's engine has."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.lab.engine import LAB_DIR, LabError, docker, find_program

START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0


class SpareEngine:
    """A dockerd with data of its own, as long as this process lives. A context manager."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(3)
        self.data = LAB_DIR / f"spare-{self.id}"
        self.run = Path("/run/fleet-lab") / self.id
        self.socket = self.run / "socket" / "docker.sock"
        self.host = f"unix://{self.socket}"

    def __enter__(self) -> Self:
        self.socket.parent.mkdir(parents=True)
        self.run.chmod(0o711)
        self.data.mkdir()
        log = (self.data / "log").open("wb")
        with log:
            # As in setup.sh: nothing of the machine's network is touched.
            options = [
                "--bridge=none",
                "--iptables=false",
                "--ip6tables=false",
                "--ip-forward=false",
                "--ip-masq=false",
            ]
            places = [f"--data-root={self.data}/engine", f"--exec-root={self.run}/exec", f"--pidfile={self.run}/pid"]
            argv = ["setpriv", "--pdeathsig", "TERM", find_program("dockerd") or "dockerd", f"--host={self.host}"]
            self._process = subprocess.Popen([*argv, *places, *options], stdin=subprocess.DEVNULL, stderr=log)
        self._await()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(_STOP_TIMEOUT_S)
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in sorted((m for m in mounts if Path(m).is_relative_to(self.data)), reverse=True):
            subprocess.run(["umount", mount], check=True)
        shutil.rmtree(self.data)
        shutil.rmtree(self.run)

    def docker(self, *args: str, stdin: bytes = b"") -> str:
        """As `tests.lab.engine.docker`, of this engine."""
        return docker(*args, stdin=stdin, host=self.host)

    def remove_images(self) -> None:
        """Make it empty again."""
        images = self.docker("image", "ls", "--all", "--quiet").split()
        if images:
            self.docker("image", "rm", "--force", *dict.fromkeys(images))

    def _await(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.docker("version")
                return
            except LabError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self.data / "log").read_text()[-1000:]
                    self.__exit__()
                    raise LabError(f"a further engine does not start: {said}") from error
            time.sleep(0.2)
