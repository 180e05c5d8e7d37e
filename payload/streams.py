"""The standard streams: one that is closed is replaced, and a reader who leaves or a full disk is no traceback."""

import os
import sys
from typing import Callable


def open_streams() -> None:
    """Make sure that descriptors 0, 1 and 2 are open. Once, before any other file is opened.

    The next pipe would get the number of a closed one, and lose it to the child's own streams.
    """
    descriptor = os.open(os.devnull, os.O_RDWR)
    while descriptor <= 2:
        descriptor = os.dup(descriptor)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def print_safely(work: Callable[[], int]) -> int:
    """Do what prints to standard output. Returns its exit status; 141 when the reader has left, 1 when it cannot be
    written."""
    try:
        status = work()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        status = 141
    except OSError as error:
        sys.stderr.write("standard output cannot be written: %s.\n" % error.strerror)
        status = 1
    # What is still buffered would be tried again, and complained about, when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status
