"""What a run has left on a host and should not have."""

from __future__ import annotations

from tests.lab.hosts import LabHost

LOOK = """
[ ! -e /tmp/fleet.lock ] || flock -n /tmp/fleet.lock true || echo 'the lock'
ls -A /tmp | grep -v -x fleet.lock | sed 's|^|/tmp/|'
ls -A "$2" | grep -v -x -e 'payload-[0-9a-f]*[.]pyz' -e lost+found
ps -u "$1" -o args= | grep -v '^sshd' || test $? = 1
"""


def find_traces(host: LabHost) -> list[str]:
    """Containers, a lock that is held, files beside the benchmark in the work directory, files in /tmp, processes."""
    found = host.exec("sh", "-c", LOOK, "sh", host.user, str(host.workdir)).splitlines()
    return [f"container {name}" for name in host.list_jobs()] + found
