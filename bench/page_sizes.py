#!/usr/bin/env python3
"""The tree's operations on pages of 4, 8 and 16 KiB, in huge pages of memory and without.

For each page size `cargo bench -p btree` is built with ROWHOUSE_PAGE_KIB, in target/page-sizes, so that no other build is disturbed; then the
programs run in turn, --runs times each, with huge pages as the kernel grants them and with none (prctl's PR_SET_THP_DISABLE, which the
program inherits). A cell is the fastest part of all runs, in nanoseconds an operation: other programs on the machine disturb the
fastest least. How much memory was in huge pages at most is in the table, so that a kernel that grants none is seen.

Longest keys and rows in leaves grow with the page, and the map's nodes have 128 children instead of 256 where a page is of 4 KiB: what
is measured are rows of 300 bytes, which that does not concern.

A whole server with another page size, for two_builds.py and the like:
    ROWHOUSE_PAGE_KIB=16 CARGO_TARGET_DIR=target/page-16 cargo build --release --bin rowhouse
Neither opens the other's data files. There is no floor: the best is kept.
"""

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import servers
from servers import say

TARGET = servers.ROOT / "target" / "page-sizes"
PR_SET_THP_DISABLE = 41
LINE = re.compile(r"^(.+?)\s+([0-9.]+)(?:\s+([0-9.]+))? ns$")
SHAPE = re.compile(r"^(\d+) pages, depth (\d+), leaves ([0-9.]+) % full$")
LIBC = ctypes.CDLL(None, use_errno=True)


def build(kib):
    """The benchmark for pages of so many KiB: a copy of its own, since the next size is built in the same place."""
    say(f"building for pages of {kib} KiB")
    command = ["cargo", "bench", "-p", "btree", "--bench", "tree", "--no-run", "--message-format=json-render-diagnostics"]
    environment = {**os.environ, "ROWHOUSE_PAGE_KIB": str(kib), "CARGO_TARGET_DIR": str(TARGET)}
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=servers.ROOT, env=environment)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    [program] = [message["executable"] for message in messages
                 if message["reason"] == "compiler-artifact" and message["target"]["name"] == "tree" and message["executable"]]
    kept = TARGET / f"tree-{kib}"
    kept.write_bytes(Path(program).read_bytes())
    kept.chmod(0o755)
    return kept


def without_huge_pages():
    if LIBC.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
        os._exit(77)


def huge_kib(pid):
    """Memory of a process that is in huge pages."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^AnonHugePages:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else 0


def run(program, huge):
    """What one run printed: nanoseconds by operation and its trees' shapes; and the most it had in huge pages, in KiB."""
    process = subprocess.Popen([program, "--bench"], stdout=subprocess.PIPE, text=True, preexec_fn=None if huge else without_huge_pages)
    most = 0
    while process.poll() is None:
        most = max(most, huge_kib(process.pid))
        time.sleep(1)
    printed = process.stdout.read()
    if process.returncode:
        sys.exit(f"{program} ended with {process.returncode}")
    costs, shapes = {}, []
    for line in printed.splitlines():
        if found := LINE.match(line):
            name, again = found[1], 2
            while name in costs:
                name, again = f"{found[1]} ({again})", again + 1
            costs[name] = {"fastest": float(found[2]), "median": float(found[3] or found[2])}
        elif found := SHAPE.match(line):
            shapes.append({"pages": int(found[1]), "depth": int(found[2]), "leaves_full": float(found[3])})
    return {"ns": costs, "trees": shapes, "huge_kib_max": most}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 8, 16], choices=[4, 8, 16], help="pages, in KiB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--huge", choices=["both", "on", "off"], default="both", help="with huge pages, without, or both")
    arguments = parser.parse_args()
    programs = {kib: build(kib) for kib in arguments.sizes}
    memory = {"both": [True, False], "on": [True], "off": [False]}[arguments.huge]
    kinds = [(kib, huge) for kib in arguments.sizes for huge in memory]
    runs = {kind: [] for kind in kinds}
    for number in range(arguments.runs):
        for kib, huge in kinds[::-1 if number % 2 else 1]:
            say(f"run {number + 1} of {arguments.runs}: pages of {kib} KiB, {'' if huge else 'no '}huge pages")
            runs[kib, huge].append(run(programs[kib], huge))

    def cells(of):
        return [of(runs[kind]) for kind in kinds]

    rows = [[name, *cells(lambda made: f"{min(one['ns'][name]['fastest'] for one in made):.1f}")] for name in runs[kinds[0]][0]["ns"]]
    for at, name in enumerate(["rows", "index entries"]):
        rows.append([f"{name}: pages, depth, leaves full", *cells(lambda made: "{pages:,}, {depth}, {leaves_full:.1f} %".format(**made[0]["trees"][at]))])
    rows.append(["memory in huge pages, MiB", *cells(lambda made: f"{max(one['huge_kib_max'] for one in made) / 1024:.0f}")])
    head = [f"ns an operation, fastest of {arguments.runs} runs",
            *(f"{kib} KiB" if huge else f"{kib} KiB, no huge pages" for kib, huge in kinds)]
    result = {"runs": [{"page_kib": kib, "huge_pages": huge, "runs": made} for (kib, huge), made in runs.items()]}
    servers.finish(arguments, result, f"{servers.machine()}\n\n{servers.table(head, rows)}")


if __name__ == "__main__":
    main()
