"""Stands in for nvidia-smi, which cannot be here: answers as the recording beside it says, at nvidia-smi's own pace.

    nvidia_smi.py RECORDING [nvidia-smi's arguments]

A recording is JSON: `fields` (what --help-query-gpu lists: every name, alternatives in one list), `gpus` (per GPU the
values of each field, taken in turn), `apps` (what --query-compute-apps prints, one text per call, the last one for
ever), and, for a broken one, `error` (what any query prints, and its exit status) or `hangs`.

Names, their alternatives and the form of rows, times, masks and refusals are those of nvidia-smi 545.23.08 on
A100-SXM4-40GB and 470.256.02 on Tesla V100 as people published them; the values are made up.
"""

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any


def main(recording: Path, args: list[str]) -> int:
    told = json.loads(recording.read_text())
    if told.get("hangs"):
        time.sleep(3600)
    if "error" in told:
        print(told["error"][0])
        return int(told["error"][1])
    if args == ["--help-query-gpu"]:
        print('List of valid properties to query for the switch "--query-gpu":\n')
        for names in told["fields"]:
            print(" or ".join(f'"{name}"' for name in names) + "\nWhat it is.\n")
        return 0
    if args[0].startswith("--query-compute-apps="):
        count = recording.with_suffix(".calls")
        calls = int(count.read_text()) if count.exists() else 0
        count.write_text(str(calls + 1))
        print(told["apps"][min(calls, len(told["apps"]) - 1)], end="")
        return 0
    return print_rows(told, args)


def print_rows(told: dict[str, Any], args: list[str]) -> int:
    known = set(itertools.chain(*told["fields"]))
    asked = args[0].removeprefix("--query-gpu=").split(",")
    for name in asked:
        if name not in known:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    assert args[1:3] == ["--format=csv,noheader,nounits", "-lms"], args
    for turn in itertools.count():
        for gpu in told["gpus"]:
            now_s = time.time()
            stamp = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now_s)) + f".{int(now_s % 1 * 1000):03}"
            values = {name: gpu[names[0]] for names in told["fields"] for name in names if names[0] in gpu}
            words = [stamp if name == "timestamp" else values[name][turn % len(values[name])] for name in asked]
            print(", ".join(words), flush=True)
        time.sleep(int(args[3]) / 1000)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
