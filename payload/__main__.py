"""The payload's command line."""

import argparse
import json
import sys
from typing import List, NoReturn, Optional

from payload.catalog import read_catalog
from payload.streams import open_streams, print_safely

_COMMANDS = ("run", "models", "cell")


def main(argv: Optional[List[str]] = None) -> int:
    """Do what the arguments say. Returns the exit status."""
    words = sys.argv[1:] if argv is None else argv
    open_streams()
    if words and words[0] in _COMMANDS:
        return _run_command(words)
    return print_safely(lambda: _run_by_hand(words))


def _run_command(words: List[str]) -> int:
    parser = _Parser(prog="fleet-payload")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("run", help="measure the cells of a spec file")
    run.add_argument("spec", metavar="SPEC")
    run.add_argument("--out", metavar="DIR", required=True, help="where the documents go; made if need be")
    models = commands.add_parser("models", help="list the models")
    models.add_argument("--json", action="store_true", help="the catalogue as it is")
    cell = commands.add_parser("cell", help="measure one cell (for internal use)")
    cell.add_argument("--report-fd", type=int, required=True, help="where to report; the request is on standard input")
    arguments = parser.parse_args(words)
    if arguments.command == "run":
        from payload import parent

        return parent.run(arguments.spec, arguments.out)
    if arguments.command == "cell":
        from payload import child

        return child.main(arguments.report_fd)
    return print_safely(lambda: _list_models(arguments.json))


def _run_by_hand(words: List[str]) -> int:
    from payload import byhand, flags

    parser = _Parser(
        prog="fleet-payload",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measure how many images per second this machine trains, or run a spec of fleet.\n\n"
        "  fleet-payload --model=resnet50 --device=cpu --batch_size=8    one measurement, by hand\n"
        "  fleet-payload run SPEC --out DIR                              every cell of a spec file\n"
        "  fleet-payload models [--json]                                 what can be measured",
    )
    flags.add_flags(parser)
    arguments = parser.parse_args(words)
    try:
        return byhand.run_by_hand(arguments)
    except flags.WrongFlags as error:
        parser.error(str(error))
    return 2


class _Parser(argparse.ArgumentParser):
    """Says what is wrong, without a page of flags before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, "fleet-payload: %s.\nSee fleet-payload --help.\n" % message.rstrip("."))


def _list_models(as_json: bool) -> int:
    models = list(read_catalog().values())
    if as_json:
        print(json.dumps({"models": models}, indent=2))
        return 0
    row = "%-16s %-12s %12s %8s  %s"
    print(row % ("model", "input", "parameters", "GMAC", "phases"))
    for model in models:
        size = "x".join(str(n) for n in model["input_shape"])
        macs = "%.3f" % (model["forward_macs"] / 1e9)
        print(row % (model["name"], size, "{:,}".format(model["parameters"]), macs, ", ".join(model["phases"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
