"""Makes docs/report.svg: the report of a real run on three hosts of the lab, on one of which Docker is stopped.

Run by `make pictures`, on a machine that can run the lab (see `make lab`).
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI

from fleet.errors import ExitCode
from fleet.report.terminal import render_terminal
from fleet.report.view import build_view
from fleet.store.rundir import Store
from tests.lab import engine
from tests.lab.inventory import write_inventory
from tests.lab.lab import Lab

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "report.svg"
WIDTH = 96
ARGUMENTS = ("run", "-i", "lab.yaml", "--suite", "smoke")

# Without the font that rich would have browsers load from elsewhere: the reader's own monospace font does as well.
SVG_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
)


def main() -> None:
    """Measure, draw, write the picture."""
    engine.start()
    lab = Lab()
    try:
        with tempfile.TemporaryDirectory() as directory:
            PICTURE.write_text(_draw(_measure(lab, Path(directory))), encoding="utf-8")
    finally:
        lab.take_down()


def _measure(lab: Lab, directory: Path) -> Store:
    hosts = [*lab.add_hosts(2), *lab.add_hosts(1, socket=False)]
    # A processor for each, as far as there are enough: they are containers on one machine.
    pins = {host.alias: str(place % (os.cpu_count() or 1)) for place, host in enumerate(hosts)}
    overrides = {alias: {"fleet_runtime_args": ["--cpuset-cpus", pin]} for alias, pin in pins.items()}
    write_inventory(directory / "lab.yaml", hosts, overrides=overrides)
    argv = [sys.executable, "-m", "fleet", *ARGUMENTS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=directory, env=environment, stdout=subprocess.DEVNULL)
    if done.returncode != ExitCode.FAILED:
        sys.exit(f"the run with one broken host ended with {done.returncode}, not {ExitCode.FAILED:d}")
    return Store(directory / "reports")


def _draw(store: Store) -> str:
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor", highlight=False
    )
    console.print(f"$ fleet {' '.join(ARGUMENTS)}")
    render_terminal(build_view(store.load()), console)
    svg = console.export_svg(title="fleet", theme=MONOKAI, code_format=SVG_FORMAT, unique_id="fleet")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    main()
