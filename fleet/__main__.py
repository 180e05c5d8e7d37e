"""`python -m fleet`."""

from fleet.cli.app import main

main()
