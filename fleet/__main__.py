"""`fleet`, and `python -m fleet`."""

import sys


def main() -> None:
    """Run one command. Ctrl-C ends it quietly from the first import on, which are most of what it does at first."""
    try:
        from fleet.cli.app import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
