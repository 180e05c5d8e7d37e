"""A PostgreSQL of the tests' own: made in a temporary directory, reached through a socket there, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from sqlalchemy import URL


def find_programs() -> Path | None:
    """Where initdb and postgres are; Debian keeps them off PATH, one directory for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def find_missing() -> str | None:
    """Why there can be no server here, as a sentence; None when there can."""
    if find_programs() is None:
        return "postgres: initdb is neither on PATH nor in /usr/lib/postgresql; tests/lab/setup.sh installs it"
    if os.geteuid() == 0 and "postgres" not in {entry.pw_name for entry in pwd.getpwall()}:
        return "postgres: it does not run as root, and there is no user postgres"
    return None


class Postgres:
    """A running server; leave it with `with`."""

    def __init__(self) -> None:
        programs = find_programs()
        assert programs is not None
        self._programs = programs
        self._user = "postgres" if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="fleet-postgres-", dir="/tmp"))  # a socket's path must be short
        if self._user:
            shutil.chown(self.directory, self._user)
        self._call("initdb", "--pgdata=data", "--auth=trust", "--username=fleet", "--encoding=UTF8", "--no-locale")
        options = f"-k {self.directory} -c listen_addresses= -c fsync=off"
        self._call("pg_ctl", "start", "--pgdata=data", "--wait", "--log=log", f"--options={options}")
        self._made = 0

    def make_database(self) -> str:
        """URL of a new, empty database."""
        self._made += 1
        name = f"fleet{self._made}"
        self._call("createdb", f"--host={self.directory}", "--username=fleet", name)
        return URL.create(
            "postgresql", username="fleet", database=name, query={"host": str(self.directory)}
        ).render_as_string()

    def __enter__(self) -> Postgres:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call("pg_ctl", "stop", "--pgdata=data", "--mode=immediate", "--wait")
        shutil.rmtree(self.directory)

    def _call(self, program: str, *args: str) -> None:
        # pg_ctl's server keeps what it is given as stdout.
        with (self.directory / "said").open("w+") as said:
            argv = [str(self._programs / program), *args]
            done = subprocess.run(
                argv, cwd=self.directory, user=self._user, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
            said.seek(0)
            assert done.returncode == 0, said.read()
