"""What goes between fleet and a person in words: arguments in, errors out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from fleet.errors import ConfigError, FleetError
from fleet.model.text import make_inert

_LONGEST = 10_000


def check_words() -> None:
    """Refuse arguments, and variables that stand for some, which could be neither shown nor kept as text, and such as
    are empty: a script's variable that was not set, which must not pass for an option left out.

    Raises:
        ConfigError: one is not UTF-8, holds a control character, or is empty.
    """
    for place, text in enumerate(sys.argv[1:], start=1):
        if not text.strip() or (text.startswith("--") and text.endswith("=")):
            raise ConfigError(f"argument {place} is empty: {text!r}", hint="Give it a value, or leave the option out.")
    said = {f"argument {place}": text for place, text in enumerate(sys.argv[1:], start=1)}
    said |= {name: text for name, text in os.environ.items() if name.startswith("FLEET_")}
    for name, text in said.items():
        wrong = next((character for character in text if not character.isprintable() and _acts(character)), None)
        if wrong is None:
            continue
        what = "is not UTF-8" if "\ud800" <= wrong <= "\udfff" else f"holds the control character U+{ord(wrong):04X}"
        raise ConfigError(f"{name} {what}: {text!r}", hint="Write it without; a file must be renamed.")


def _acts(character: str) -> bool:
    """Whether a terminal does more with it than go on to the next line or column."""
    return character not in "\n\t" and make_inert(character) != character


def print_error(error: FleetError) -> None:
    """An error on stderr, and what to do next. Nothing of it acts on a terminal, whoever wrote what it quotes."""
    tell(f"fleet: {make_inert(str(error), _LONGEST)}")
    if error.hint:
        tell(f"       {make_inert(error.hint, _LONGEST)}")


def tell(text: str) -> None:
    """A line on stderr for whoever waits; on a terminal broken between words, and what belongs to `fleet:` below it."""
    if sys.stderr.isatty():
        from fleet.cli.consoles import open_stderr
        from fleet.report.terminal_wrap import wrap_words

        indent = 7 if text.startswith(("fleet: ", "       ")) else 0
        text = "\n".join(wrap_words(text, open_stderr().width, indent))
    typer.echo(text, err=True)


@contextmanager
def answer_interrupt(what: str) -> Iterator[None]:
    """Say `what` comes of it when somebody presses Ctrl-C in this block; the interruption goes on."""
    try:
        yield
    except KeyboardInterrupt:
        tell(f"interrupted; {what}")
        raise
