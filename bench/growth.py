#!/usr/bin/env python3
"""One tenant that grows by TPC-C from half of the server's memory to five times of it, as figure 3 of the paper on HyPer.

The tenant is loaded with --warehouses warehouses; then TPC-C runs in pieces of --seconds, closed loop, one after the other,
each of which finds what the ones before have left, until the data file is --until times --memory (the memory for pages). Data
are the tenant's pages (SHOW TENANTS, storage_used), taken after the load and at the end, when everything is written, and between
by the transactions that were run. The table has the pieces in steps of data / memory: the median of their throughput, and misses and pages written by the
transaction; --json has every piece.

The floor: up to the budget at most 5 % less than at the beginning, which is the median of the first --first pieces.
"""

import time

import servers
from servers import say

FLOOR = 0.95


def pages(server):
    """Misses, reads and writes of the tenant so far."""
    found = server.metrics()
    return {what: found.get(f'rowhouse_tenant_page_{what}_total{{tenant="grown1"}}', 0.0) for what in ("misses", "reads", "writes")}


def data_bytes(server):
    """The tenant's pages, all of them written and out of memory."""
    with server.connect(timeout=600.0) as connection:
        connection.query("select rowhouse.evict('grown1')")
    # What a tenant uses is looked at once a second.
    time.sleep(2.5)
    return next(int(tenant["storage_used"]) for tenant in server.tenants() if tenant["name"] == "grown1")


def piece(server, arguments, load, number):
    before = pages(server)
    run = servers.bench_with_cpu(server, *load, "--no-load", "--no-check", "--seed", arguments.seed + 1 + number,
                                 warm_up=arguments.warm_up, seconds=arguments.seconds)
    after = pages(server)
    whole = run["transactions_per_second"] * (arguments.warm_up + arguments.seconds)
    return {"transactions": whole, "file": servers.data_bytes(server), "tpmc": run["tpmc"],
            "cpu_us": run["cpu_us"], "resident_kib": servers.resident_kib(server.pid),
            **{what: (after[what] - before[what]) / whole for what in before}}


def main():
    parser = servers.parser(__doc__, warehouses=1, memory="32MiB", seconds=2.0, warm_up=0.5, step=0.5, until=3.5, longest=20.0)
    parser.add_argument("--memory", default="512MiB", help="the server's memory for pages")
    parser.add_argument("--warehouses", type=int, default=3)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    parser.add_argument("--until", type=float, default=5.0, help="data / memory at which to end")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a piece")
    parser.add_argument("--warm-up", type=float, default=1.0)
    parser.add_argument("--longest", type=float, default=3600.0, help="seconds after which to end in any case")
    parser.add_argument("--step", type=float, default=0.25, help="data / memory of a row of the table")
    parser.add_argument("--first", type=int, default=5, help="pieces that make the beginning")
    parser.add_argument("--seed", type=int, default=1)
    arguments = servers.parse(parser)
    memory = servers.bytes_of(arguments.memory)
    load = ["tpcc", "--tenants", 1, "--prefix", "grown", "--warehouses", arguments.warehouses, "--scale", arguments.scale,
            "--clients", arguments.clients]
    pieces = []
    with servers.folder("growth") as folder, \
            servers.running(servers.Rowhouse(folder, ["--memory", arguments.memory])) as server:
        say("loading")
        servers.bench(server, *load, "--load-only")
        first = data_bytes(server)
        # The pages of the population come back.
        servers.bench(server, *load, "--no-load", "--no-check", "--warm-up", 0, "--seconds", arguments.seconds)
        while not pieces or (pieces[-1]["file"] < arguments.until * memory
                             and len(pieces) * (arguments.seconds + arguments.warm_up) < arguments.longest):
            pieces.append(piece(server, arguments, load, len(pieces)))
            last = pieces[-1]
            say(f"  {len(pieces)}: {last['tpmc']:,.0f} tpmC, {last['cpu_us']:.0f} us/tx, a transaction {last['misses']:.2f} misses, "
                f"{last['writes']:.2f} pages written; file {last['file'] / memory:.2f}x memory")
        grown = data_bytes(server) - first
        servers.check_conditions(server, *load)
    run, all_run = 0.0, sum(each["transactions"] for each in pieces)
    for each in pieces:
        run += each["transactions"]
        each["data"] = first + grown * run / all_run
    beginning = servers.median([each["tpmc"] for each in pieces[:arguments.first]])
    steps = {}
    for each in pieces:
        steps.setdefault(int(each["data"] / memory / arguments.step), []).append(each)
    rows = []
    for step, of in sorted(steps.items()):
        middle = {what: servers.median([each[what] for each in of]) for what in of[0]}
        part = middle["tpmc"] / beginning
        bound = (step + 1) * arguments.step <= 1.0
        rows.append([f"{step * arguments.step:g} to {(step + 1) * arguments.step:g}", len(of), f"{middle['tpmc']:,.0f}",
                     f"{part:.2f}" + (" **missed**" if bound and part < FLOOR else ""), f"{middle['cpu_us']:.0f}",
                     f"{middle['misses']:.2f}", f"{middle['reads']:.2f}", f"{middle['writes']:.2f}"])
    head = [f"data / {arguments.memory}", f"pieces of {arguments.seconds:g} s", "tpmC", "of the beginning (at least 0.95 up to 1)",
            "server CPU, us/tx", "misses/tx", "pages read/tx", "pages written/tx"]
    servers.finish(arguments, {"pieces": pieces}, servers.table(head, rows))


if __name__ == "__main__":
    main()
