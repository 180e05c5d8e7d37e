"""The YAML files of an inventory: what they may be, and their mappings with merge keys resolved."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fleet.errors import ConfigError
from fleet.inventory.yaml_file import compose, error_at, line_of, read_text

VAULT_HEADER = "$ANSIBLE_VAULT;"
MERGE_TAG = "tag:yaml.org,2002:merge"
STR_TAG = "tag:yaml.org,2002:str"
NULL_TAG = "tag:yaml.org,2002:null"
BOOL_TAG = "tag:yaml.org,2002:bool"

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
        return error_at(self.file, node, message, hint)

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
    text = read_text(file)
    if text.startswith(VAULT_HEADER):
        return Document(file, None, encrypted=True)
    if text.startswith("#!"):
        hint = _CONVERT.format(file=file)
        raise ConfigError("is a script; only YAML is read", file=file, line=1, hint=hint)
    try:
        return Document(file, compose(file, text))
    except ConfigError:
        if _looks_like_ini(text):
            raise _ini_error(file) from None
        raise


def other_format_error(document: Document) -> ConfigError:
    """The error for a file that is YAML, but no mapping."""
    message = "is not a YAML inventory: the top level must be a mapping of groups, e.g. `all:`"
    root = document.root
    if root is None:
        return ConfigError("is empty", file=document.file, hint="name at least one host: `all: {hosts: {gpu01: }}`")
    if isinstance(root, ScalarNode) and _looks_like_ini(root.value):
        return _ini_error(document.file)
    return document.error(root, f"{message}, not {describe(root)}")


def _ini_error(file: Path) -> ConfigError:
    return ConfigError("is an INI inventory; only YAML is read", file=file, hint=_CONVERT.format(file=file))


def _looks_like_ini(text: str) -> bool:
    return re.search(r"^\s*\[[\w.:-]+\]\s*$|^\S+ +ansible_\w+=", text, re.MULTILINE) is not None


def _identity(key: Node) -> tuple[str, str]:
    # Keys that are lists or mappings are never equal to another; whoever needs a name refuses them.
    return (key.tag, key.value) if isinstance(key, ScalarNode) else ("", str(id(key)))


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
