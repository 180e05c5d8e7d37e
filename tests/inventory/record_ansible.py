"""Record what Ansible itself makes of oracle/lab.yaml. Needs ansible-core on the PATH.

    python tests/inventory/record_ansible.py

Run it after a change of the files in oracle/; the tests compare fleet with what it wrote.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ORACLE = Path(__file__).parent / "oracle"

PATTERNS = [
    "all", "*", "ungrouped", "gpu", "a100", "v100", "east", "west", "zone", "alpha", "empty", "single",
    "lonely_group", "gpu03", "gpu*", "gpu0?", "gpu0[12]", "*.example.org", "un*", "a*", "~gpu0[1-3]",
    "~(cpu|old).*1", "~east", "gpu:east", "gpu,east", "a100:&west", "a100:!gpu03", "!gpu", "&gpu", "!gpu:west",
    "gpu:&east:!gpu02", "gpu:!a100:!v100", "a100[0]", "a100[-1]", "a100[0:1]", "a100[2:]", "a100[1:99]", "v100[3]",
    "v100[-2]", "gpu*[1]", "all[0]", "all[0:1]", "a100[0]:a100[3]", "a100:!a100[1:2]", "fd00::aa", "fd00::aa,cpu1",
    "east,!cpu1", " east , cpu2 ", "@hosts.retry", "zone:&~gpu0.", "al*:!un*", "east:west:zone:!*[0]",
]  # fmt: skip


def ask(*argv: str) -> str:
    env = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0"}
    return subprocess.run(argv, env=env, cwd=ORACLE, check=True, capture_output=True, text=True).stdout


def main() -> None:
    listed = json.loads(ask("ansible-inventory", "-i", "lab.yaml", "--list"))
    selected = {}
    for pattern in PATTERNS:
        # `@file` is known to --limit alone, and --limit does not keep the order.
        asked = ["all", "--limit", pattern] if pattern.startswith("@") else [pattern]
        lines = ask("ansible", *asked, "-i", "lab.yaml", "--list-hosts").splitlines()
        selected[pattern] = [line.strip() for line in lines[1:]]
    recorded = {
        "ansible": ask("ansible", "--version").splitlines()[0],
        "hostvars": listed["_meta"]["hostvars"],
        "selected": selected,
    }
    (ORACLE / "recorded.json").write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
