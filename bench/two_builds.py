#!/usr/bin/env python3
"""TPC-C on two builds of Rowhouse in turn: whether a change cost throughput. The load is driven by the build under test.

One tenant of --warehouses warehouses whose data fit --memory (the memory for pages, given to builds that know of one), --clients
clients in a closed loop. Runs of the two alternate, the other server standing still; medians, and the median of the ratios of
neighbouring runs. What the data take is stated as a part of the memory.

The floor: the build under test at least 0.97 of the other.
"""

import os
import subprocess
from pathlib import Path

import servers
from servers import say

FLOOR = 0.97


def knows(build, option):
    """Whether `serve` of a build has an option."""
    return option in subprocess.run([str(build), "serve", "--help"], check=True, capture_output=True, text=True).stdout


def main():
    parser = servers.parser(__doc__, runs=1, seconds=2.0, warm_up=0.5, warehouses=1)
    parser.add_argument("--before", type=Path, required=True, help="the other build's program")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--warm-up", type=float, default=2.0)
    parser.add_argument("--warehouses", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--memory", default="1GiB", help="memory for pages")
    parser.add_argument("--log-limit", default="4GiB", help="log that is kept before tenants are checkpointed")
    parser.add_argument("--seed", type=int, default=1)
    arguments = servers.parse(parser)
    builds = {"before": arguments.before, "now": servers.ROWHOUSE}
    load = ["tpcc", "--tenants", 1, "--prefix", "built", "--warehouses", arguments.warehouses, "--clients", arguments.clients]
    runs, started = {name: [] for name in builds}, {}
    with servers.folder("two-builds") as folder:
        try:
            for name, build in builds.items():
                os.mkdir(folder / name)
                options = [each for option, value in (("--memory", arguments.memory), ("--log-limit", arguments.log_limit))
                           if knows(build, option) for each in (option, value)]
                started[name] = server = servers.Rowhouse(folder / name, options, build)
                server.start()
                say(f"loading {name}: {build} {' '.join(options)}")
                servers.bench(server, *load, "--seed", arguments.seed, "--load-only")
                servers.put_to_sleep(server)
            for number in range(arguments.runs):
                for name in list(builds)[::-1 if number % 2 else 1]:
                    with servers.awake(started[name]) as server:
                        run = servers.bench_with_cpu(server, *load, "--seed", arguments.seed + number, "--no-load", "--no-check",
                                                     warm_up=arguments.warm_up, seconds=arguments.seconds)
                    runs[name].append(run)
                    say(f"  run {number + 1}, {name}: {run['tpmc']:,.0f} tpmC, {run['cpu_us']:,.0f} us of CPU a transaction")
            for name, server in started.items():
                with servers.awake(server):
                    servers.check_conditions(server, *load)
            with servers.awake(started["now"]) as server:
                data = sum(int(tenant["storage_used"] or 0) for tenant in server.tenants() if tenant["name"] == "built1")
                used = data / servers.bytes_of(arguments.memory)
        finally:
            for server in started.values():
                servers.wake(server)
                server.stop()
    rows, of = [], lambda what, name: [run[what] for run in runs[name]]
    ratio = servers.median([now / before for before, now in zip(of("tpmc", "before"), of("tpmc", "now"))])
    for name in builds:
        rates = of("tpmc", name)
        missed = " **missed**" if ratio < FLOOR else ""
        rows.append([name, f"{servers.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})", f"{servers.median(of('cpu_us', name)):,.0f} us",
                     f"{ratio:.3f}{missed}" if name == "now" else "", FLOOR if name == "now" else ""])
    head = [f"TPC-C, {arguments.warehouses} warehouses, {arguments.clients} clients, data {used:.2f} of {arguments.memory} at the end",
            "tpmC", "CPU a transaction", "ratio", "at least"]
    servers.finish(arguments, {"runs": runs, "ratio": ratio, "used": used}, servers.table(head, rows))


if __name__ == "__main__":
    main()
