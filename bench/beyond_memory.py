#!/usr/bin/env python3
"""TPC-C on more data than memory, beside PostgreSQL with the same memory.

Each server runs in a memory control group of --memory from its start on, which counts everything: pages, sessions, and the
system's page cache on its behalf, but for the programs themselves, which are in it from the load. Of that Rowhouse is given --pages for its pages (it reads and writes files directly, past the page cache);
PostgreSQL has a quarter as shared buffers and leaves the rest to the page cache, as its manual advises. Needs the right to
make control groups (root).

Both are loaded first, outside of the groups, so that a load takes minutes and not an hour, their files taken out of the page cache, and
started again into the groups. The population's size is what the data directories hold, without logs.
Runs are interleaved, the other server standing still, medians are taken, TPC-C's conditions checked at the end outside of the groups: they
are analytical queries, for which Rowhouse has memory of its own (--work-memory). What was read
from and written to disk is what the system counts for the server's processes, pages of the page cache when they are changed.

The floor: 1.5 times PostgreSQL's tpmC with data of five times the memory.
"""

import contextlib

import servers
from memory_cage import cage, forget_cached, inside, members
from servers import bytes_of, say

FLOOR = 1.5


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
    with servers.folder("beyond-memory") as folder, contextlib.ExitStack() as stack, \
            contextlib.ExitStack() as cages:
        ours = servers.Rowhouse(folder, ["--memory", arguments.pages])
        theirs = servers.Postgres(folder, f"{limit // 4 >> 20}MB", "1GB")
        for server in (ours, theirs):
            say(f"  loading on {server.name}")
            with servers.running(server):
                servers.bench(server, *options, "--load-only")
            sizes[server.name], runs[server.name] = servers.data_bytes(server), []
            say(f"  {sizes[server.name] / 1e9:.2f} GB of data")
            forget_cached(server.data)
            group = cages.enter_context(cage(server.name, limit))
            with inside(group):
                stack.enter_context(servers.running(server))
            if server.pid not in members(group):
                raise SystemExit(f"void: {server.name} is not in its control group")
            servers.put_to_sleep(server)
        for number in range(arguments.runs):
            for server in (ours, theirs) if number % 2 == 0 else (theirs, ours):
                with servers.awake(server):
                    before = servers.disk_bytes(server.pid)
                    run = servers.bench_with_cpu(server, *options, "--no-load", "--no-check",
                                                 warm_up=arguments.warm_up, seconds=arguments.seconds)
                    whole = run["transactions_per_second"] * (arguments.warm_up + arguments.seconds)
                    after = servers.disk_bytes(server.pid)
                    run["read"], run["written"] = ((b - a) / whole for a, b in zip(before, after))
                    runs[server.name].append(run)
                    say(f"  run {number + 1}, {server.name}: {run['tpmc']:,.0f} tpmC, {run['cpu_us']:.0f} us/tx, a transaction "
                        f"{run['read'] / 1024:.1f} KiB read, {run['written'] / 1024:.1f} written")
        cages.close()
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
