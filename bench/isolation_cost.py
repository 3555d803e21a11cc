#!/usr/bin/env python3
"""pgbench's TPC-B at REPEATABLE READ beside READ COMMITTED, here and on PostgreSQL.

Each session sets default_transaction_isolation when it connects. At REPEATABLE READ a transaction that changes a row which
another one has changed since its snapshot fails with 40001; pgbench tries it again (--max-tries) and counts committed
transactions alone. Local socket, prepared, 8 clients; every branch is a row that clients meet at, so --pgbench-scale says how
often they do. Runs of the two levels and the two servers alternate, the other server standing still; medians.

The floor: the rate at REPEATABLE READ at least 0.7 of that at READ COMMITTED.
"""

import os
import re
import subprocess

import servers
from servers import psql, say

FLOOR = 0.7
LEVELS = ("read committed", "repeatable read")


def pgbench(server, level, seconds, seed):
    """Committed transactions a second, and the retries by the transaction."""
    command = ["pgbench", "-n", "-M", "prepared", "-c", "8", "-j", "2", "--max-tries", "1000", "--random-seed", str(seed),
               "-T", str(max(1, round(seconds))), server.dsn("pgb", True)]
    options = "-c default_transaction_isolation=" + level.replace(" ", "\\ ")
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PGOPTIONS=options))
    if done.returncode:
        raise SystemExit(f"{server.name}: pgbench failed: {done.stdout}{done.stderr}")
    count = int(re.search(r"actually processed: (\d+)", done.stdout)[1])
    if (failed := int(re.search(r"failed transactions: (\d+)", done.stdout)[1])) > 0:
        raise SystemExit(f"{server.name}: {failed} transactions failed for good")
    retries = int(re.search(r"total number of retries: (\d+)", done.stdout)[1])
    return {"rate": float(re.search(r"tps = ([0-9.]+)", done.stdout)[1]), "retries": retries / max(1, count)}


def main():
    parser = servers.parser(__doc__, runs=1, seconds=2.0, pgbench_scale=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--pgbench-scale", type=int, default=20)
    parser.add_argument("--memory", default="4GB", help="PostgreSQL's shared_buffers")
    parser.add_argument("--log", default="4GB", help="log that both keep before they checkpoint")
    parser.add_argument("--seed", type=int, default=1)
    arguments = servers.parse(parser)
    runs = {}
    with servers.folder("isolation-cost") as folder, \
            servers.running(servers.Rowhouse(folder, ["--log-limit", arguments.log])) as ours, \
            servers.running(servers.Postgres(folder, arguments.memory, arguments.log)) as theirs:
        for server in (ours, theirs):
            psql(server, server.admin_database, server.create("pgb"))
            initialise = ["pgbench", "-q", "-i", "-s", str(arguments.pgbench_scale), server.dsn("pgb", True)]
            subprocess.run(initialise, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            pgbench(server, LEVELS[0], arguments.seconds / 4, arguments.seed)
            runs[server.name] = {level: [] for level in LEVELS}
            servers.put_to_sleep(server)
        for number in range(arguments.runs):
            for server in (ours, theirs):
                with servers.awake(server):
                    for level in LEVELS if number % 2 == 0 else LEVELS[::-1]:
                        run = pgbench(server, level, arguments.seconds, arguments.seed + number)
                        runs[server.name][level].append(run)
                        say(f"  run {number + 1}, {server.name}, {level}: {run['rate']:,.0f}/s, {run['retries']:.2f} retries")
    rows, ratios = [], {}
    for name, levels in runs.items():
        rates = {level: servers.median([run["rate"] for run in of]) for level, of in levels.items()}
        spans = {level: f"{rates[level]:,.0f}/s ({min(run['rate'] for run in of):,.0f} to {max(run['rate'] for run in of):,.0f})"
                 for level, of in levels.items()}
        ratios[name] = servers.median([b["rate"] / a["rate"] for a, b in zip(levels[LEVELS[0]], levels[LEVELS[1]])])
        retries = servers.median([run["retries"] for run in levels[LEVELS[1]]])
        missed = " **missed**" if name == "Rowhouse" and ratios[name] < FLOOR else ""
        rows.append([name, *spans.values(), f"{retries:.2f}", f"{ratios[name]:.2f}{missed}", FLOOR if name == "Rowhouse" else ""])
    head = [f"pgbench TPC-B -M prepared -c 8 -j 2, scale {arguments.pgbench_scale}, seeds from {arguments.seed}",
            *LEVELS, "retries a transaction", "ratio", "at least"]
    servers.finish(arguments, {"runs": runs, "ratios": ratios}, servers.table(head, rows))


if __name__ == "__main__":
    main()
