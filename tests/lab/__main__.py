"""A lab to try fleet on: `python -m tests.lab up 3`, fleet with the inventory it names, `python -m tests.lab down`.

up [N]     start N hosts (default 3) that stay; prints the path of their inventory
list       the labs there are on this machine, and whose they are
down [ID]  take away the lab, or every one that was started with `up`
images     build what is missing of the images
"""

from __future__ import annotations

import argparse
import sys

from tests.lab import engine, images, lab
from tests.lab.engine import LabError
from tests.lab.inventory import write_inventory


def main() -> int:
    """Returns 0, or 1 after a sentence on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["up", "list", "down", "images"])
    parser.add_argument("argument", nargs="?", metavar="N|ID")
    options = parser.parse_args()
    count = options.argument or "3"
    if options.command == "up" and not (count.isdecimal() and 1 <= int(count) <= lab.MAX_HOSTS):
        parser.error(f"up: a number of hosts from 1 to {lab.MAX_HOSTS}, not {count}")
    try:
        engine.start()
        if options.command == "up":
            _bring_up(int(count))
        elif options.command == "down":
            _take_down(options.argument)
        elif options.command == "list":
            for identifier, owner in lab.list_labs().items():
                print(identifier, owner if owner == lab.KEPT else f"of process {owner.split()[0]}")
        else:
            print(images.build_host_image(), images.build_tensorflow_image(), sep="\n")
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


def _take_down(identifier: str | None) -> None:
    kept = [lab_id for lab_id, owner in lab.list_labs().items() if owner == lab.KEPT]
    if identifier is not None and identifier not in kept:
        raise LabError(f"no lab {identifier} was started with `up`; `list` shows those there are")
    for lab_id in [identifier] if identifier else kept:
        lab.take_down(lab_id)
    lab.sweep_abandoned()


def _bring_up(count: int) -> None:
    image = images.build_tensorflow_image()
    made = lab.Lab(kept=True)
    try:
        hosts = made.add_hosts(count)
        inventory = write_inventory(made.directory / "inventory.yaml", hosts, fleet_image=image)
    except BaseException:
        made.take_down()
        raise
    print(inventory)
    print(f"{count} hosts are up. On this machine: fleet ping -i {inventory}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
