#!/usr/bin/env python3
"""TPC-C on more data than memory, beside PostgreSQL with the same memory.

Each server runs in a memory control group of --memory, which counts everything: pages, sessions, code, and the system's page
cache on its behalf. Of that Rowhouse is given --pages for its pages (it reads and writes files directly, past the page cache);
PostgreSQL has a quarter as shared buffers and leaves the rest to the page cache, as its manual advises. Needs the right to
make control groups (root).

Both are loaded first; the population's size is what PostgreSQL's and Rowhouse's data directories hold, without logs. Runs are
interleaved, the other server standing still, medians are taken, TPC-C's conditions checked at the end. What the disk was
asked for is the device's own count over the run.

The floor: 1.5 times PostgreSQL's tpmC with data of five times the memory.
"""

import contextlib
import os
from pathlib import Path

import servers
from servers import say

FLOOR = 1.5
SIZES = {"k": 10, "m": 20, "g": 30}


def bytes_of(text):
    """`512MiB` or `512MB`, both binary."""
    number, unit = text.rstrip("iBb")[:-1], text.rstrip("iBb")[-1].lower()
    return int(float(number) * (1 << SIZES[unit]))


class Cage:
    """A memory control group that processes are put into."""

    def __init__(self, name, limit):
        root = Path("/sys/fs/cgroup")
        unified = (root / "cgroup.controllers").exists()
        self.path = (root if unified else root / "memory") / f"rowhouse-bench-{os.getpid()}-{name}"
        self.path.mkdir()
        (self.path / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(limit))

    def take(self, server):
        for pid in servers.process_tree(server.pid):
            with contextlib.suppress(ProcessLookupError):
                (self.path / "cgroup.procs").write_text(str(pid))

    def remove(self):
        self.path.rmdir()


@contextlib.contextmanager
def caged(server, limit):
    cage = Cage(server.name.lower(), limit)
    try:
        with servers.running(server):
            cage.take(server)
            servers.put_to_sleep(server)
            yield server
    finally:
        cage.remove()


def data_bytes(server):
    """Bytes of the data directory on disk, without logs."""
    logs = ("pg_wal", "log")
    return sum(
        path.stat().st_blocks * 512
        for path in server.data.rglob("*")
        if path.is_file() and not any(part in logs for part in path.relative_to(server.data).parts)
    )


def device_bytes(folder):
    """Bytes read from and written to the device of `folder` since the machine started."""
    device = os.stat(folder).st_dev
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if (int(fields[0]), int(fields[1])) == (os.major(device), os.minor(device)):
            return int(fields[5]) * 512, int(fields[9]) * 512
    return 0, 0


def main():
    parser = servers.parser(__doc__, runs=1, seconds=4.0, warm_up=1.0, warehouses=2, memory="256MiB", pages="64MiB")
    parser.add_argument("--memory", default="640MiB", help="of each server, everything counted")
    parser.add_argument("--pages", default="448MiB", help="Rowhouse's --memory")
    parser.add_argument("--warehouses", type=int, default=30)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, default=10.0)
    arguments = servers.parse(parser)
    limit = bytes_of(arguments.memory)
    options = ["tpcc", "--tenants", 1, "--prefix", "beyond", "--warehouses", arguments.warehouses,
               "--clients", arguments.clients]
    runs, sizes = {}, {}
    with servers.folder("beyond-memory") as folder, \
            caged(servers.Rowhouse(folder, ["--memory", arguments.pages]), limit) as ours, \
            caged(servers.Postgres(folder, f"{limit // 4 >> 20}MB", "1GB"), limit) as theirs:
        for server in (ours, theirs):
            with servers.awake(server):
                say(f"  loading on {server.name}")
                servers.bench(server, *options, "--load-only")
                sizes[server.name], runs[server.name] = data_bytes(server), []
        for number in range(arguments.runs):
            for server in (ours, theirs) if number % 2 == 0 else (theirs, ours):
                with servers.awake(server):
                    before = device_bytes(folder)
                    run = servers.bench_with_cpu(server, *options, "--no-load", "--no-check",
                                                 warm_up=arguments.warm_up, seconds=arguments.seconds)
                    whole = run["transactions_per_second"] * (arguments.warm_up + arguments.seconds)
                    after = device_bytes(folder)
                    run["read"], run["written"] = ((b - a) / whole for a, b in zip(before, after))
                    runs[server.name].append(run)
                    say(f"  run {number + 1}, {server.name}: {run['tpmc']:,.0f} tpmC, {run['cpu_us']:.0f} us/tx, a transaction "
                        f"{run['read'] / 1024:.1f} KiB read, {run['written'] / 1024:.1f} written")
        for server in (ours, theirs):
            with servers.awake(server):
                servers.check_conditions(server, *options)
    median = {name: {what: servers.median([run[what] for run in of]) for what in ("tpmc", "cpu_us", "read", "written")}
              for name, of in runs.items()}
    a, b = median["Rowhouse"], median["PostgreSQL"]
    ratio = a["tpmc"] / b["tpmc"]
    span = lambda name: "{:,.0f} to {:,.0f}".format(*(f(run["tpmc"] for run in runs[name]) for f in (min, max)))
    rows = [
        ["data / memory", *(f"{sizes[name] / limit:.1f}x ({sizes[name] / 1e9:.2f} GB)" for name in runs), "", ""],
        ["tpmC", *(f"{median[name]['tpmc']:,.0f} ({span(name)})" for name in runs),
         f"{ratio:.2f}x" + ("" if ratio >= FLOOR else " **missed**"), f"{FLOOR}x"],
        ["server CPU", f"{a['cpu_us']:.0f} us/tx", f"{b['cpu_us']:.0f} us/tx", f"{b['cpu_us'] / a['cpu_us']:.2f}x less", ""],
        ["read from disk a transaction", *(f"{median[name]['read'] / 1024:.1f} KiB" for name in runs), "", ""],
        ["written to disk a transaction", *(f"{median[name]['written'] / 1024:.1f} KiB" for name in runs),
         f"{b['written'] / a['written']:.2f}x less", ""],
    ]
    head = [f"TPC-C, {arguments.warehouses} warehouses, {arguments.clients} clients, {arguments.memory} of memory",
            "Rowhouse", "PostgreSQL", "ratio", "at least"]
    servers.finish(arguments, {"runs": runs, "data_bytes": sizes}, servers.table(head, rows))


if __name__ == "__main__":
    main()
