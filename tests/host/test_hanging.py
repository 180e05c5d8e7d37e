"""Steps that hang are waited for as long as somebody wants their answer, and leave nothing behind."""

from __future__ import annotations

import threading
import time

import pytest

from fleet.host.hanging import LeftAlone, take_step
from tests.waiting import wait_for


def test_an_answer_and_an_error_come_through() -> None:
    def fail() -> None:
        raise ValueError("no")

    assert take_step(lambda: 7, lambda: True, 10, lambda: None) == 7
    with pytest.raises(ValueError, match="no"):
        take_step(fail, lambda: False, 10, lambda: None)


@pytest.mark.parametrize("patience_s", [0, 0.7])
def test_a_step_is_left_alone_so_long_after_a_cancel(patience_s: float) -> None:
    release, cancelled, let_go = threading.Event(), threading.Event(), list[float]()
    threads = threading.active_count()
    threading.Timer(0.3, cancelled.set).start()
    begin = time.monotonic()
    with pytest.raises(LeftAlone):
        take_step(release.wait, cancelled.is_set, patience_s, lambda: let_go.append(time.monotonic()))

    assert 0.3 + patience_s <= time.monotonic() - begin < 2.5 + patience_s
    assert len(let_go) == 1
    release.set()
    wait_for(lambda: len(let_go) == 2 and threading.active_count() <= threads, 5)
