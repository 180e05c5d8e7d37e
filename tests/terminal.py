"""fleet on a terminal of its own, on which somebody types."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import ROOT


@dataclass
class Terminal:
    """A process whose controlling terminal is not its standard output; a prompt is answered when it has come.

    Args:
        arguments: fleet's.
        answers: what is typed after each of these prompts; each once, in any order.
        environment: on top of the caller's.
    """

    arguments: Sequence[str]
    answers: Mapping[str, str]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    screen: bytearray = field(default_factory=bytearray)
    """What came on the terminal itself."""

    def __post_init__(self) -> None:
        self._ours, theirs = pty.openpty()
        argv = ["setsid", "--ctty", sys.executable, "-m", "fleet", *self.arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        pipe = subprocess.PIPE
        # The terminal is its standard input: that is the one setsid makes its own.
        self.process = subprocess.Popen(
            argv, cwd=self.cwd, env=environment, stdin=theirs, stdout=pipe, stderr=pipe, text=True
        )
        os.close(theirs)
        self._typist = threading.Thread(target=self._type, daemon=True)
        self._typist.start()

    def wait(self, timeout_s: float = 240) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        out, err = self.process.communicate(timeout=timeout_s)
        self._typist.join(10)
        os.close(self._ours)
        return self.process.returncode, out, err

    def _type(self) -> None:
        left = {prompt.encode(): text.encode() for prompt, text in self.answers.items()}
        while True:
            try:
                self.screen += os.read(self._ours, 4096)
            except OSError:  # nobody has it open any more
                return
            for prompt in [prompt for prompt in left if prompt in self.screen]:
                os.write(self._ours, left.pop(prompt) + b"\n")
