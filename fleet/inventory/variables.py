"""Which value of a variable holds for a host: Ansible's order of precedence.

From the weakest to the strongest:

1. the inventory file, group `all`
2. the inventory file, the host's other groups
3. group_vars/all
4. group_vars/ of the host's other groups
5. the inventory file, the host
6. host_vars/

Among groups the one further from `all` is stronger; at the same depth the one with the higher ansible_group_priority,
then the one whose name sorts last. A value replaces another as a whole; lists and mappings are not merged.
"""

from __future__ import annotations

from pathlib import Path

from yaml.nodes import MappingNode

from fleet.errors import ConfigError
from fleet.inventory.documents import describe, read_document
from fleet.inventory.hosts import Tree
from fleet.inventory.values import Variable, read_variables

Variables = dict[str, Variable]

_EXTENSIONS = ("", ".yml", ".yaml", ".json")
_LONGEST_NAME = 255
"""Bytes; no file has a longer name, and asking for one is an error of the system."""


class VariableFiles:
    """group_vars/ and host_vars/ beside an inventory file. Each file is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[tuple[str, str], Variables] = {}
        self.warnings: list[str] = [
            f"{path}: is not a directory and was left out"
            for path in (directory / "group_vars", directory / "host_vars")
            if path.exists() and not path.is_dir()
        ]

    def group(self, name: str) -> Variables:
        """The variables of group_vars/NAME.

        Raises:
            ConfigError: a file there cannot be read, or is no mapping of variables.
        """
        return self._load("group", name)

    def host(self, alias: str) -> Variables:
        """The variables of host_vars/ALIAS; raises as `group`."""
        return self._load("host", alias)

    def _load(self, kind: str, name: str) -> Variables:
        if (kind, name) not in self._known:
            found: Variables = {}
            directory = self._directory / f"{kind}_vars"
            try:
                files = _find_files(directory, name)
            except OSError as error:
                raise ConfigError(f"cannot be read: {error.strerror}", file=error.filename or directory) from None
            for file in files:
                found.update(self._read(file, f"{kind} {name}"))
            self._known[kind, name] = found
        return self._known[kind, name]

    def _read(self, file: Path, owner: str) -> Variables:
        document = read_document(file)
        if document.encrypted:
            self.warnings.append(f"{file}: is encrypted with Ansible Vault and was left out ({owner})")
        if document.root is None:
            return {}
        if not isinstance(document.root, MappingNode):
            message = f"{owner}: must be a mapping of variables, not {describe(document.root)}"
            raise document.error(document.root, message)
        return read_variables(document, document.root, owner)


def _find_files(directory: Path, name: str) -> list[Path]:
    """NAME, NAME.yml, NAME.yaml, NAME.json: the first there is; of a directory all files of variables in it."""
    for extension in _EXTENSIONS:
        path = directory / f"{name}{extension}"
        if len(path.name) > _LONGEST_NAME:
            break
        if path.is_dir():
            return _list_directory(path)
        if path.is_file():
            return [path]
        if path.exists():
            raise ConfigError("is neither a file nor a directory of variables", file=path, hint="remove it")
    return []


def _list_directory(directory: Path) -> list[Path]:
    files: list[Path] = []
    for path in sorted(directory.iterdir(), key=lambda p: p.name):
        if path.name.startswith(".") or path.name.endswith("~"):
            continue
        if path.is_dir() and not path.suffix:
            files.extend(_list_directory(path))
        elif path.is_file() and path.suffix in _EXTENSIONS:
            files.append(path)
    return files


def merge_variables(tree: Tree, files: VariableFiles) -> dict[str, Variables]:
    """For each alias the variables that hold for it.

    Raises:
        ConfigError: a vars file cannot be read.
    """
    depths = tree.depths()

    def rank(name: str) -> tuple[int, int, str]:
        return depths[name], tree.groups[name].priority, name

    merged: dict[str, Variables] = {}
    for alias, groups in tree.groups_of_hosts().items():
        names = sorted(groups - {"all"}, key=rank)
        variables: Variables = dict(tree.groups["all"].variables)
        for name in names:
            variables.update(tree.groups[name].variables)
        for name in ["all", *names]:
            variables.update(files.group(name))
        variables.update(tree.hosts[alias].variables)
        variables.update(files.host(alias))
        merged[alias] = variables
    return merged
