"""The tools of the bench: which version, in which environment, and how each is told to do the work."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.fanout_whole import build_whole, count_measured
from tests.bench.fanout_work import COMMAND, START, Work

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "bench"


@dataclass(frozen=True)
class Tool:
    """One way to do the work."""

    name: str
    about: str
    """What it does for one host."""
    build: Callable[[Work, Path], list[str]]
    """Work, folder of its environment's programs → command line. Writes what the tool reads into the work's folder."""
    requirement: str = ""
    """What pip installs into an environment of its own; empty: there is nothing to install."""
    count_done: Callable[[Work], int] = Work.count_done
    """Hosts that it has done the work on."""

    is_ours: bool = False

    @property
    def version(self) -> str:
        """With a space before it; empty where it is that of the checkout or the machine."""
        return self.requirement.replace("==", " ").removeprefix(self.requirement.partition("==")[0])

    @property
    def environment(self) -> Path:
        return CACHE / self.requirement.replace("==", "-")

    def build_command(self, work: Work) -> list[str]:
        return self.build(work, self.environment / "bin")

    def install(self) -> None:
        """Make the environment, unless it is there."""
        done = self.environment / "installed"
        if not self.requirement or done.exists():
            return
        print(f"installing {self.requirement} into {self.environment.relative_to(ROOT)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.environment)], check=True)
        pip = [str(self.environment / "bin" / "pip"), "--disable-pip-version-check", "-qq", "install"]
        subprocess.run([*pip, self.requirement], check=True)
        done.touch()


def _build_ours(work: Work, _programs: Path) -> list[str]:
    ours = str(Path(__file__).with_name("fanout_ours.py"))
    return ["env", f"PYTHONPATH={ROOT}", sys.executable, ours, str(work.description)]


def _build_openssh(work: Work, _programs: Path) -> list[str]:
    # `{}` is the address.
    ssh = f"ssh -F {work.hosts.ssh_config} {{}} {shlex.quote(COMMAND)}"
    addresses = work.write("addresses", "\n".join(work.hosts.addresses))
    one = f"{ssh} <{work.payload} >{work.results}/{{}}"
    return ["xargs", "-a", str(addresses), "-P", str(work.forks), "-I{}", "sh", "-c", one]


def _build_peer(name: str) -> Callable[[Work, Path], list[str]]:
    peers = str(Path(__file__).with_name("fanout_peers.py"))
    return lambda work, programs: [str(programs / "python"), peers, name, str(work.description)]


def _build_pyinfra(work: Work, programs: Path) -> list[str]:
    hosts = work.hosts
    data = {
        "ssh_user": hosts.user,
        "ssh_port": hosts.port,
        "ssh_key": str(hosts.key),
        "ssh_known_hosts_file": str(hosts.known_hosts),
        "ssh_strict_host_key_checking": "yes",
        "ssh_allow_agent": False,
        "ssh_look_for_keys": False,
    }
    inventory = work.write("inventory.py", f"hosts = [(name, {data!r}) for name in {hosts.addresses!r}]\n")
    deploy = work.write(
        "deploy.py",
        "from pyinfra import host\n"
        "from pyinfra.operations import files, server\n"
        f"files.put(src={str(work.payload)!r}, dest='bench/payload')\n"
        f"server.shell(commands=[{START!r}])\n"
        f"files.get(src='bench/result', dest=f'{work.results}/{{host.name}}', force=True)\n",
    )
    return [str(programs / "pyinfra"), "-y", "--parallel", str(work.forks), str(inventory), str(deploy)]


def _build_ansible(work: Work, programs: Path) -> list[str]:
    hosts, folder = work.hosts, work.folder
    inventory = work.write(
        "inventory.ini",
        "\n".join(hosts.addresses)
        + f"\n[all:vars]\nansible_port={hosts.port}\nansible_user={hosts.user}\n"
        + "ansible_python_interpreter=/usr/bin/python3\n",
    )
    work.write(
        "ansible.cfg",
        f"[defaults]\nforks = {work.forks}\nhome = {folder}/ansible\n"
        "[ssh_connection]\npipelining = true\n"
        f"ssh_args = -F {hosts.ssh_config} -o ControlMaster=auto -o ControlPersist=60s\n"
        f"control_path_dir = {folder}/cp\n",
    )
    playbook = work.write(
        "playbook.yaml",
        "- hosts: all\n  gather_facts: false\n  tasks:\n"
        f"    - ansible.builtin.copy: {{src: {work.payload}, dest: bench/}}\n"
        f"    - ansible.builtin.shell: {START!r}\n"
        f"    - ansible.builtin.fetch: {{src: bench/result, dest: '{work.results}/{{{{ inventory_hostname }}}}',"
        " flat: true}\n",
    )
    ansible = [str(programs / "ansible-playbook"), "-i", str(inventory), str(playbook)]
    return ["env", f"ANSIBLE_CONFIG={folder}/ansible.cfg", *ansible]


IN_ONE = "one connection and one command: the file is its stdin, the result its stdout"

TOOLS = (
    Tool("fleet", f"its transport and its fan-out alone; {IN_ONE}", _build_ours, is_ours=True),
    Tool(
        "fleet run",
        "the whole program: inventory, probe, lock of the machine, push, start under a supervisor, polls, fetch, check "
        "and store of the documents, clean-up, report; its payload ends at once",
        build_whole,
        count_done=count_measured,
        is_ours=True,
    ),
    Tool("OpenSSH", f"ssh by xargs -P; {IN_ONE}", _build_openssh),
    Tool("ClusterShell", f"its Task, with ssh; {IN_ONE}", _build_peer("clustershell"), "clustershell==1.10.1"),
    Tool(
        "parallel-ssh",
        f"its client, which verifies no host keys; {IN_ONE}",
        _build_peer("parallel-ssh"),
        "parallel-ssh==2.16.0.post1",
    ),
    Tool("asyncssh", IN_ONE, _build_peer("asyncssh"), "asyncssh==2.24.1"),
    Tool("pyinfra", "files.put, server.shell, files.get", _build_pyinfra, "pyinfra==3.10.0"),
    Tool(
        "Ansible",
        "copy, shell, fetch; without facts, pipelining and persistent connections on",
        _build_ansible,
        "ansible-core==2.19.14",
    ),
)
"""fleet first, then its peers."""
