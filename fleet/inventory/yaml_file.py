"""A YAML file as nodes that still know on which line they stand; what is wrong with it is said with file and line."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode
from yaml.reader import ReaderError

from fleet.errors import ConfigError
from fleet.model.text import make_inert

MAX_BYTES = 10_000_000
MAX_NODES = 1_000_000
"""Of one file, every alias counted as often as it is used: a few lines of aliases of aliases would fill the memory."""


def read_text(file: Path) -> str:
    """The text of a file.

    Raises:
        ConfigError: it is missing, unreadable, too large, or not UTF-8.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError("there is no such file", file=file, hint=suggest_file(file)) from None
    except IsADirectoryError:
        raise ConfigError("is a directory; name one YAML file", file=file) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {getattr(error, 'strerror', None) or error}", file=file) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"is larger than {MAX_BYTES // 1_000_000} MB", file=file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text", file=file, line=line, hint="save it as UTF-8") from None


def compose(file: Path, text: str) -> Node | None:
    """The root of a file's text; None when there is nothing in it.

    Raises:
        ConfigError: it is not YAML (or JSON), or not within bounds.
    """
    if "\t" in text and text.lstrip()[:1] in "{[" and _is_json(text):
        # YAML allows no tab as indentation; in JSON a tab can only be white space between tokens.
        text = text.replace("\t", " ")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and _count_nodes(root, {}) > MAX_NODES:
            raise ConfigError(f"has more than {MAX_NODES} values once its aliases are followed", file=file)
        return root
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(file, error) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"holds the control character U+{int(error.character):04X}"
        raise ConfigError(message, file=file, line=line, hint="remove it") from None
    except _RecursiveAlias as error:
        raise ConfigError("an alias (`*name`) stands inside its own anchor", file=file, line=error.line) from None
    except RecursionError:
        raise ConfigError("is nested too deeply", file=file) from None


def line_of(node: Node) -> int:
    """The line a node begins on, counted from 1."""
    return int(node.start_mark.line) + 1


def error_at(file: Path, node: Node, message: str, hint: str = "") -> ConfigError:
    """What is wrong at a node of a file."""
    # Names and values are quoted in messages; what a terminal would act on must not get there.
    shown, advice = (make_inert(text).replace("\n", " ") for text in (message, hint))
    return ConfigError(shown, file=file, line=line_of(node), hint=advice)


def suggest_file(missing: Path) -> str:
    """`did you mean lab.yaml?`: a file beside the missing one with nearly its name; empty when there is none."""
    try:
        names = [path.name for path in missing.parent.iterdir() if path.suffix in {".yaml", ".yml", ".json"}]
    except (OSError, ValueError):
        return ""
    same = [name for name in names if Path(name).stem == missing.stem]
    near = sorted(same) or difflib.get_close_matches(missing.name, names, n=1)
    return f"did you mean {missing.with_name(near[0])}?" if near else ""


class _RecursiveAlias(Exception):
    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def _count_nodes(node: Node, counted: dict[int, int]) -> int:
    if (known := counted.get(id(node))) is not None:
        if known == 0:  # still being counted: it contains itself
            raise _RecursiveAlias(line_of(node))
        return known
    counted[id(node)] = 0
    total = 1
    if isinstance(node, SequenceNode):
        total += sum(_count_nodes(child, counted) for child in node.value)
    elif isinstance(node, MappingNode):
        total += sum(_count_nodes(child, counted) for pair in node.value for child in pair)
    counted[id(node)] = total
    return total


def _syntax_error(file: Path, error: yaml.MarkedYAMLError) -> ConfigError:
    words = ", ".join(part for part in (error.context, error.problem) if part)
    mark = error.problem_mark or error.context_mark
    hint = ""
    if "\\t" in words:
        hint = "indent with spaces, not with tabs"
    elif "block end" in words or "not allowed here" in words:
        hint = "check the indentation of this line, and the colons of this one and the one above"
    return ConfigError(f"is not valid YAML: {words}", file=file, line=mark.line + 1 if mark else None, hint=hint)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
