#!/usr/bin/env python3
"""Bytes written to disk by the byte of rows that TPC-C changes, here and on PostgreSQL.

Written to disk is what the system counts for the server's processes (/proc/PID/io: direct writes when they are made, pages of
the page cache when they are changed; the file system's own journal is in neither). A run begins and ends with everything
written (CHECKPOINT; Rowhouse, whose CHECKPOINT does nothing, has the tenant evicted, which costs the run reads alone), so that
everything it changed is written within; servers checkpoint on their own meanwhile, at the same limit of log.

Bytes of rows changed have one definition for both: the rows that the committed transactions of the run inserted, updated and
deleted, by the specification's mix (10 order lines an order, 10 orders a delivery), times the length of such a row as text, the
mean of rows of the loaded tables. An update counts the whole row.

The floor: less than PostgreSQL.
"""

import servers
import wire
from servers import psql, say

# Rows that a committed transaction of each kind changes, by table.
CHANGED = {
    "New-Order": {"district": 1, "orders": 1, "new_order": 1, "stock": 10, "order_line": 10},
    "Payment": {"warehouse": 1, "district": 1, "customer": 1, "history": 1},
    "Delivery": {"new_order": 10, "orders": 10, "order_line": 100, "customer": 10},
}
ROWS_LOOKED_AT = 2_000


def row_bytes(server, database):
    """The mean length of each table's rows, as text without separators."""
    lengths = {}
    with wire.Connection(server.url(database)) as connection:
        for table in sorted({table for tables in CHANGED.values() for table in tables}):
            rows = connection.query(f"select * from {table} limit {ROWS_LOOKED_AT}")
            lengths[table] = sum(len(value or "") for row in rows for value in row) / len(rows)
    return lengths


def write_everything(server):
    if server.name == "Rowhouse":
        with server.connect(timeout=600.0) as connection:
            connection.query("select rowhouse.evict('amplified1')")
    else:
        psql(server, "amplified1", "checkpoint")


def measure(server, arguments, load, lengths, number):
    write_everything(server)
    before = servers.disk_bytes(server.pid)[1]
    report = servers.bench(server, *load, "--no-load", "--no-check", "--warm-up", 0, "--seconds", arguments.seconds,
                           "--seed", arguments.seed + number)
    write_everything(server)
    written = servers.disk_bytes(server.pid)[1] - before
    counts = {kind["name"]: kind["count"] - kind["rolled_back"] for kind in report["kinds"]}
    changed = sum(counts[kind] * rows * lengths[table] for kind, tables in CHANGED.items() for table, rows in tables.items())
    return {"written": written, "changed": changed, "amplification": written / changed, "tpmc": report["tpmc"],
            "written_tx": written / report["transactions"], "changed_tx": changed / report["transactions"]}


def main():
    parser = servers.parser(__doc__, runs=1, seconds=3.0, warehouses=1, scale=0.05)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--warehouses", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    parser.add_argument("--rate", type=float, help="transactions a second of each client; without this as fast as they go")
    parser.add_argument("--memory", default="4GB", help="PostgreSQL's shared_buffers, Rowhouse's --memory")
    parser.add_argument("--log", default="1GB", help="log that both keep before they checkpoint")
    parser.add_argument("--seed", type=int, default=1)
    arguments = servers.parse(parser)
    load = ["tpcc", "--tenants", 1, "--prefix", "amplified", "--warehouses", arguments.warehouses, "--scale", arguments.scale,
            "--clients", arguments.clients]
    paced = [] if arguments.rate is None else ["--rate", arguments.rate]
    runs = {}
    with servers.folder("write-amplification") as folder, \
            servers.running(servers.Rowhouse(folder, ["--memory", arguments.memory, "--log-limit", arguments.log])) as ours, \
            servers.running(servers.Postgres(folder, arguments.memory, arguments.log)) as theirs:
        for server in (ours, theirs):
            say(f"  loading on {server.name}")
            servers.bench(server, *load, "--load-only")
            runs[server.name] = []
        lengths = row_bytes(theirs, "amplified1")
        for server in (ours, theirs):
            servers.put_to_sleep(server)
        for number in range(arguments.runs):
            for server in (ours, theirs) if number % 2 == 0 else (theirs, ours):
                with servers.awake(server):
                    run = measure(server, arguments, [*load, *paced], lengths, number)
                    runs[server.name].append(run)
                    say(f"  run {number + 1}, {server.name}: {run['tpmc']:,.0f} tpmC, {run['written'] / 1e6:,.0f} MB written for "
                        f"{run['changed'] / 1e6:,.0f} MB of rows: {run['amplification']:.1f}")
        for server in (ours, theirs):
            with servers.awake(server):
                servers.check_conditions(server, *load)
    median = {name: {what: servers.median([run[what] for run in of]) for what in of[0]} for name, of in runs.items()}
    a, b = median["Rowhouse"], median["PostgreSQL"]
    rows = [["bytes written / bytes of rows changed", *(f"{m['amplification']:.1f}" for m in (a, b)),
             f"{a['amplification'] / b['amplification']:.2f}x{servers.met(a['amplification'], b['amplification'])}", "lower"],
            ["written to disk a transaction", *(f"{m['written_tx'] / 1024:.1f} KiB" for m in (a, b)), "", ""],
            ["rows changed a transaction", *(f"{m['changed_tx'] / 1024:.1f} KiB" for m in (a, b)), "", ""],
            ["tpmC", *(f"{m['tpmc']:,.0f}" for m in (a, b)), "", ""]]
    head = [f"TPC-C, {arguments.warehouses} warehouses, {arguments.runs} runs of {arguments.seconds:g} s, log {arguments.log}, "
            f"seeds from {arguments.seed}", "Rowhouse", "PostgreSQL", "ratio", ""]
    servers.finish(arguments, {"runs": runs, "row_bytes": lengths}, servers.table(head, rows))


if __name__ == "__main__":
    main()
