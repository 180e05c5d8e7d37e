"""How a worker of the bench talks: a line on standard input asks for one step, a line of JSON on a pipe answers.

Runs on Python 3.6. Standard output is left to TensorFlow and to the reference, which print there.
"""

import json
import os
import sys
import time
from typing import Any


class Pipe:
    """The worker's end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def answer(self, **fields: Any) -> None:
        os.write(self._descriptor, (json.dumps(fields) + "\n").encode("ascii"))

    def take_step(self, step: Any) -> Any:
        """Wait until one is asked for, take it, answer with the CPU seconds of this whole process, return its result.

        Raises SystemExit when nobody asks any more.
        """
        if not sys.stdin.readline():
            sys.stdout.flush()
            os._exit(0)
        before = time.process_time()
        result = step()
        self.answer(cpu_s=time.process_time() - before)
        return result
