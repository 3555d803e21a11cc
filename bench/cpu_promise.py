#!/usr/bin/env python3
"""A reserved part of a worker against neighbours that reserve nothing, as in the paper on SQLVM (section 5.1, processor time).

One worker, on a core of its own; the clients on another. One tenant has --cpu of the worker reserved and always something to
do (its clients wait for nothing but answers); the neighbours, 24 unless told otherwise, do the same without a reservation and
come in steps. Statements read --rows rows of a table in memory, on the point path, so that one of them takes about a
millisecond. In each step: the tenant's share of the processor by the server's account of it, what it was owed and what it
missed by the ledger, and the same with no reservation at all.

The floor: at least 0.49 of the worker while 0.50 is promised and wanted (the paper has 0.495).
"""

import os
import threading
import time

import servers
from servers import say

FLOOR = 0.49


class Clients:
    """Closed loops of one statement on one tenant."""

    def __init__(self, server, tenant, count, rows):
        self.over = threading.Event()
        self.done = [0] * count
        self.sql = f"select sum(n) from load where n <= {rows}"
        self.threads = [threading.Thread(target=self.run, args=(server, tenant, i), daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, server, tenant, index):
        with server.connect(tenant) as connection:
            while not self.over.is_set():
                connection.query(self.sql)
                self.done[index] += 1

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def cpu_of(server, tenant):
    return server.metrics()[f'rowhouse_tenant_cpu_seconds_total{{tenant="{tenant}"}}']


def ledger_of(server, tenant):
    metrics = server.metrics()
    of = lambda what: metrics[f'rowhouse_tenant_cpu_{what}_seconds_total{{tenant="{tenant}"}}']
    return of("demanded"), of("missed")


def measure(server, seconds):
    """The reserved tenant's share, and of what it was owed the part it missed."""
    # Whole metering intervals: the ledger's sums move at their ends.
    before, at, (owed, missed) = cpu_of(server, "reserved"), time.monotonic(), ledger_of(server, "reserved")
    worker = servers.cpu_seconds(server.pid)
    time.sleep(seconds)
    after, then, (owed_then, missed_then) = cpu_of(server, "reserved"), time.monotonic(), ledger_of(server, "reserved")
    time_passed = then - at
    return {
        "share": (after - before) / time_passed,
        "owed": owed_then - owed,
        "missed": missed_then - missed,
        "server": (servers.cpu_seconds(server.pid) - worker) / time_passed,
    }


def main():
    made = servers.parser(__doc__, neighbours=3, seconds=2, runs=1, rows=500)
    made.add_argument("--cpu", default="0.5", help="what is reserved, in cores")
    made.add_argument("--neighbours", type=int, default=24)
    made.add_argument("--seconds", type=float, default=10, help="of each measurement")
    made.add_argument("--rows", type=int, default=5000, help="that a statement reads")
    made.add_argument("--runs", type=int, default=3)
    made.add_argument("--clients", type=int, default=2, help="of each tenant")
    arguments = servers.parse(made)
    names = [f"neighbour{n}" for n in range(1, arguments.neighbours + 1)]
    steps = sorted({1, max(1, arguments.neighbours // 4), arguments.neighbours})
    shares, idle_steps = {}, []
    with servers.folder("cpu-promise") as folder:
        server = servers.Rowhouse(folder, ["--workers", "1"])
        with servers.running(server):
            # The one worker has put itself on the first core.
            os.sched_setaffinity(0, set(os.sched_getaffinity(0)) - {min(os.sched_getaffinity(0))})
            with server.connect() as admin:
                for name in ["reserved", *names]:
                    admin.query(f"create tenant {name}")
                    with server.connect(name) as owner:
                        owner.query("create table load (n int primary key)")
                        owner.query(f"insert into load select g from generate_series(1, {arguments.rows}) g")
                for run in range(arguments.runs):
                    for promised in (arguments.cpu, "0"):
                        admin.query(f"alter tenant reserved set (cpu = {promised})")
                        groups = [Clients(server, "reserved", arguments.clients, arguments.rows)]
                        begun = 0
                        for step in steps:
                            for name in names[begun:step]:
                                groups.append(Clients(server, name, arguments.clients, arguments.rows))
                            begun = step
                            time.sleep(1.5)
                            found = measure(server, arguments.seconds)
                            say(f"  run {run + 1}, {promised} promised, {step} neighbours: {found['share']:.3f} of the worker, "
                                f"{found['owed']:.2f} s owed, {found['missed']:.3f} missed, server {found['server']:.2f}")
                            shares.setdefault((promised, step), []).append(found)
                            if found["server"] < 0.95:
                                idle_steps.append(step)
                        for group in groups:
                            group.stop()
    rows = []
    for step in steps:
        kept = [found["share"] for found in shares[arguments.cpu, step]]
        plain = [found["share"] for found in shares["0", step]]
        missed = sum(found["missed"] for found in shares[arguments.cpu, step])
        owed = sum(found["owed"] for found in shares[arguments.cpu, step])
        floor = f"{FLOOR}" if arguments.cpu == "0.5" else ""
        median = servers.median(kept)
        rows.append([
            str(step), f"{median:.3f} ({min(kept):.3f} to {max(kept):.3f})" + (" **missed**" if floor and median < FLOOR else ""),
            f"{missed / max(owed, 1e-9):.2%}", f"{servers.median(plain):.3f}", floor,
        ])
    if idle_steps:
        say(f"  the worker was less than 95 % busy with {sorted(set(idle_steps))} neighbours: those rows are void")
    head = ["neighbours without reservation", f"share of the worker with {arguments.cpu} promised", "missed of what was owed, by the ledger",
            "share with nothing promised", "at least"]
    servers.finish(arguments, {f"{promised} promised, {step} neighbours": found for (promised, step), found in shares.items()},
                   servers.table(head, rows))


if __name__ == "__main__":
    main()
