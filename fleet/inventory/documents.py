"""YAML files as node trees that still know on which line everything stands."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from fleet.errors import ConfigError
from fleet.model.text import make_inert

MAX_BYTES = 10_000_000
MAX_NODES = 1_000_000
"""Of one file, every alias counted as often as it is used: a few lines of aliases of aliases would fill the memory."""

VAULT_HEADER = "$ANSIBLE_VAULT;"
MERGE_TAG = "tag:yaml.org,2002:merge"
STR_TAG = "tag:yaml.org,2002:str"
NULL_TAG = "tag:yaml.org,2002:null"

_CONVERT = "convert it once with: ansible-inventory -i {file} --list --yaml"


@dataclass(frozen=True)
class Entry:
    """One `key: value` of a mapping, merge keys (`<<`) resolved."""

    key: Node
    value: Node


@dataclass(frozen=True)
class Document:
    """One YAML file. `root` is None when there is nothing in it, or nothing that can be read without a password."""

    file: Path
    root: Node | None
    encrypted: bool = False

    def error(self, node: Node, message: str, hint: str = "") -> ConfigError:
        """What is wrong at a node of this file."""
        # Names and values are quoted in messages; what a terminal would act on must not get there.
        shown, advice = (make_inert(text).replace("\n", " ") for text in (message, hint))
        return ConfigError(shown, file=self.file, line=line_of(node), hint=advice)

    def entries(self, node: MappingNode, owner: str) -> list[Entry]:
        """The entries of a mapping in the order of the file; what `<<` brings in comes first and is overridden.

        Raises:
            ConfigError: a key is there twice, or `<<` does not name mappings. `owner` says whose mapping it is.
        """
        merged: dict[tuple[str, str], Entry] = {}
        own: dict[tuple[str, str], Entry] = {}
        for key, value in node.value:
            if key.tag == MERGE_TAG:
                for mapping in self._merged_mappings(value, owner):
                    merged.update({_identity(e.key): e for e in self.entries(mapping, owner)})
                continue
            if (first := own.get(_identity(key))) is not None:
                line = line_of(first.key)
                raise self.error(
                    key, f"{owner}: {key.value} is here twice, first on line {line}", "keep one of the two"
                )
            own[_identity(key)] = Entry(key, value)
        return list({**merged, **own}.values())

    def _merged_mappings(self, value: Node, owner: str) -> list[MappingNode]:
        nodes = value.value[::-1] if isinstance(value, SequenceNode) else [value]
        mappings = [node for node in nodes if isinstance(node, MappingNode)]
        if len(mappings) < len(nodes):
            raise self.error(value, f"{owner}: `<<` needs a mapping or a list of mappings")
        return mappings


def line_of(node: Node) -> int:
    """The line a node begins on, counted from 1."""
    return int(node.start_mark.line) + 1


def describe(node: Node) -> str:
    """What kind of thing a node is, in words for people."""
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    return "nothing" if node.tag == NULL_TAG else f"`{_shorten(node.value)}`"


def read_document(file: Path) -> Document:
    """Read one YAML (or JSON) file.

    Raises:
        ConfigError: it is missing, unreadable, too large, not UTF-8, or not YAML.
    """
    text = _read_text(file)
    if text.startswith(VAULT_HEADER):
        return Document(file, None, encrypted=True)
    if text.startswith("#!"):
        hint = _CONVERT.format(file=file)
        raise ConfigError("is a script; only YAML is read", file=file, line=1, hint=hint)
    return Document(file, _compose(file, text))


def other_format_error(document: Document) -> ConfigError:
    """The error for a file that is YAML, but no mapping."""
    message = "is not a YAML inventory: the top level must be a mapping of groups, e.g. `all:`"
    root = document.root
    if root is None:
        return ConfigError("is empty", file=document.file, hint="name at least one host: `all: {hosts: {gpu01: }}`")
    if isinstance(root, ScalarNode) and _looks_like_ini(root.value):
        return _ini_error(document.file)
    return document.error(root, f"{message}, not {describe(root)}")


def suggest_file(missing: Path) -> str:
    """`did you mean lab.yaml?`: a file beside the missing one with nearly its name; empty when there is none."""
    try:
        names = [path.name for path in missing.parent.iterdir() if path.suffix in {".yaml", ".yml", ".json"}]
    except (OSError, ValueError):
        return ""
    same = [name for name in names if Path(name).stem == missing.stem]
    near = sorted(same) or difflib.get_close_matches(missing.name, names, n=1)
    return f"did you mean {missing.with_name(near[0])}?" if near else ""


def _read_text(file: Path) -> str:
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
        raise ConfigError(f"is larger than {MAX_BYTES // 1_000_000} MB; that is no inventory", file=file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text", file=file, line=line, hint="save it as UTF-8") from None


def _compose(file: Path, text: str) -> Node | None:
    if "\t" in text and text.lstrip()[:1] in "{[" and _is_json(text):
        # YAML allows no tab as indentation; in JSON a tab can only be white space between tokens.
        text = text.replace("\t", " ")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and _count_nodes(root, {}) > MAX_NODES:
            raise ConfigError(f"has more than {MAX_NODES} values once its aliases are followed", file=file)
        return root
    except yaml.MarkedYAMLError as error:
        if _looks_like_ini(text):
            raise _ini_error(file) from None
        raise _syntax_error(file, error) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"holds the control character U+{int(error.character):04X}"
        raise ConfigError(message, file=file, line=line, hint="remove it") from None
    except _RecursiveAlias as error:
        raise ConfigError("an alias (`*name`) stands inside its own anchor", file=file, line=error.line) from None
    except RecursionError:
        raise ConfigError("is nested too deeply to be an inventory", file=file) from None


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


def _ini_error(file: Path) -> ConfigError:
    return ConfigError("is an INI inventory; only YAML is read", file=file, hint=_CONVERT.format(file=file))


def _looks_like_ini(text: str) -> bool:
    return re.search(r"^\s*\[[\w.:-]+\]\s*$|^\S+ +ansible_\w+=", text, re.MULTILINE) is not None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _identity(key: Node) -> tuple[str, str]:
    # Keys that are lists or mappings are never equal to another; whoever needs a name refuses them.
    return (key.tag, key.value) if isinstance(key, ScalarNode) else ("", str(id(key)))


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
