"""The peers that are libraries, doing the work of the bench.

    python fanout_peers.py TOOL WORK.json

Runs in the tool's own environment. WORK.json is `fanout_work.Work`'s. A host that fails leaves no result.
"""

import json
import sys
from pathlib import Path
from typing import Any

work: dict[str, Any] = json.loads(Path(sys.argv[2]).read_text())
payload = Path(work["payload"]).read_bytes()


def keep(address: str, result: bytes) -> None:
    Path(work["results"], address).write_bytes(result)


def run_asyncssh() -> None:
    import asyncio

    import asyncssh

    known_hosts, keys = asyncssh.read_known_hosts(work["known_hosts"]), asyncssh.read_private_key_list(work["key"])

    async def visit(address: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            options = {
                "port": work["port"], "username": work["user"], "client_keys": keys, "known_hosts": known_hosts,
                "config": None, "agent_path": None,
                "kex_algs": ["curve25519-sha256"], "encryption_algs": ["aes128-gcm@openssh.com"],
            }  # fmt: skip
            async with asyncssh.connect(address, **options) as connection:
                done = await connection.run(work["command"], input=payload, encoding=None, check=True)
            keep(address, done.stdout)

    async def visit_all() -> list[Any]:
        gate = asyncio.Semaphore(work["forks"])
        return await asyncio.gather(*(visit(address, gate) for address in work["addresses"]), return_exceptions=True)

    for error in filter(None, asyncio.run(visit_all())):
        print(repr(error), file=sys.stderr)


def run_parallel_ssh() -> None:
    from pssh.clients import ParallelSSHClient

    client = ParallelSSHClient(
        work["addresses"], user=work["user"], port=work["port"], pkey=work["key"], pool_size=work["forks"],
        allow_agent=False, identity_auth=False,
    )  # fmt: skip
    # Its client cannot end a command's stdin: the command takes as many bytes as there are.
    command = work["command"].replace("cat >", f"head -c {len(payload)} >")
    outputs = client.run_command(command, stop_on_errors=False)
    for output in outputs:
        if output.exception:
            print(output.exception, file=sys.stderr)
        else:
            output.stdin.write(payload)
    for output in outputs:
        keep(output.host, "".join(f"{line}\n" for line in output.stdout or ()).encode())


def run_clustershell() -> None:
    from ClusterShell.Task import task_self

    task = task_self()
    task.set_info("fanout", work["forks"])
    task.set_info("ssh_options", f"-F {work['ssh_config']}")
    worker = task.shell(work["command"], nodes=",".join(work["addresses"]))
    worker.write(payload)
    worker.set_write_eof()
    task.resume()
    for result, addresses in task.iter_buffers():
        for address in addresses:
            keep(str(address), bytes(result) + b"\n")


TOOLS = {"asyncssh": run_asyncssh, "parallel-ssh": run_parallel_ssh, "clustershell": run_clustershell}

if __name__ == "__main__":
    TOOLS[sys.argv[1]]()
