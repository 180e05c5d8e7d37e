"""What is known of a cell before it is tried: how many GPUs all are, and why it need not be tried at all."""

from typing import Dict, List, Optional, Tuple

from payload.cell import ALL, Cell, name_cell
from payload.errors import Verdict


class Sweep:
    """Remembers, of every workload but for its batch size, the smallest batch that did not fit."""

    def __init__(self) -> None:
        self._failed: Dict[Cell, Tuple[int, str, str]] = {}

    def note(self, cell: Cell, status: str, reason: Optional[str]) -> None:
        """How a cell ended."""
        if status != "oom":
            return
        known = self._failed.get(_drop_batch(cell))
        if known is None or cell.batch_size < known[0]:
            where = "device" if reason == "device_memory" else "host"
            self._failed[_drop_batch(cell)] = (cell.batch_size, where, name_cell(cell))

    def judge(self, cell: Cell) -> Optional[Verdict]:
        """Why a cell need not be tried; None: it is to be measured."""
        known = self._failed.get(_drop_batch(cell))
        if known is None or cell.batch_size <= known[0]:
            return None
        message = "%s did not fit into the %s's memory, and this batch is larger." % (known[2], known[1])
        return Verdict("skipped", "larger_than_oom", message)


def count_devices(cell: Cell, gpus: int) -> Cell:
    """The cell with a number where it says all devices. Where there are no GPUs it is one, which will be missed."""
    return cell if cell.devices != ALL else cell._replace(devices=max(1, gpus))


def judge_same(cell: Cell, counted: Cell, cells: List[Cell]) -> Optional[Verdict]:
    """Why a cell that says all devices need not be tried: another one of the job's `cells` gives their number."""
    if cell == counted or counted not in cells:
        return None
    message = "All GPUs are %d here, and %s measures just that." % (counted.devices, name_cell(counted))
    return Verdict("skipped", "same_cell", message)


def _drop_batch(cell: Cell) -> Cell:
    return cell._replace(batch_size=0)
