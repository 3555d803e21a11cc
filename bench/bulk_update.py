#!/usr/bin/env python3
"""What an UPDATE of many rows does to the TPC-C beside it in the same database, here and on PostgreSQL.

A table of --rows rows lies beside TPC-C's. TPC-C runs at a fixed rate, so that a slow server cannot hide behind fewer
transactions; latency counts from the intended start. In a run the load goes on for --seconds alone; then one session sends
`update bulk set n = n + 1`, one statement, until it is through; latencies are those of transactions that were under way
meanwhile against those before. Where the statement is through in less than --least seconds it is sent again, so that there
are latencies enough. Runs of the two servers alternate, the other one standing still; medians of runs.

The floor: p99 with at most twice that without.
"""

import time

import servers
import wire
from servers import say

FLOOR = 2.0
ROWS_A_STATEMENT = 5_000


def load_bulk(server, database, rows):
    """The table, by INSERTs of a few thousand rows each."""
    with wire.Connection(server.url(database), 600.0) as connection:
        connection.query("create table bulk (id int primary key, n int not null, filler text not null)")
        filler = "sixty bytes of text that nobody looks at, as rows have them.."
        for first in range(1, rows + 1, ROWS_A_STATEMENT):
            ids = range(first, min(first + ROWS_A_STATEMENT, rows + 1))
            connection.query("insert into bulk values " + ", ".join(f"({i}, 0, '{filler}')" for i in ids))


def measure(server, arguments, load):
    """Latencies in ms without and with the statement, and how long one took."""
    with wire.Connection(server.url("bulk1"), 3600.0) as connection:

        def update():
            before = time.time()
            connection.query("update bulk set n = n + 1")
            return before, time.time()

        return servers.latencies_beside(server, load, arguments, update)


def main():
    parser = servers.parser(__doc__, runs=1, seconds=3.0, warm_up=1.0, rows=20_000, warehouses=1, scale=0.02, rate=10.0,
                            least=1.0, longest=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--warehouses", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    parser.add_argument("--rate", type=float, default=60.0, help="transactions a second of each client")
    parser.add_argument("--seconds", type=float, default=15.0, help="of load without the statement in each run")
    parser.add_argument("--least", type=float, default=5.0, help="seconds in which statements are begun")
    parser.add_argument("--longest", type=float, default=45.0, help="seconds of load kept up for the statement")
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = servers.parse(parser)
    load = ["tpcc", "--tenants", 1, "--prefix", "bulk", "--warehouses", arguments.warehouses, "--scale", arguments.scale,
            "--clients", arguments.clients, "--seed", arguments.seed]
    runs = {}
    with servers.folder("bulk-update") as folder, servers.running(servers.Rowhouse(folder, ["--log-limit", "4GB"])) as ours, \
            servers.running(servers.Postgres(folder)) as theirs:
        both = [ours, theirs]
        for server in both:
            servers.put_to_sleep(server)
        for server in both:
            with servers.awake(server):
                say(f"  loading on {server.name}")
                servers.bench(server, *load, "--load-only")
                load_bulk(server, "bulk1", arguments.rows)
                runs[server.name] = []
        for number in range(arguments.runs):
            for server in both if number % 2 == 0 else both[::-1]:
                with servers.awake(server):
                    run = measure(server, arguments, load)
                    runs[server.name].append(run)
                    say(f"  run {number + 1}, {server.name}: the statement {run['took_s']:.2f} s; TPC-C p99 "
                        f"{run['without']['p99']:.1f} ms without, {run['with']['p99']:.1f} ms with it, longest "
                        f"{run['with']['max']:.0f} ms")
        for server in both:
            with servers.awake(server):
                servers.check_conditions(server, *load)
    middle = lambda name, when, what: servers.median([run[when][what] for run in runs[name]])
    ratio = {name: servers.median([run["with"]["p99"] / run["without"]["p99"] for run in runs[name]]) for name in runs}
    names = list(runs)
    rows = [["the statement", *(f"{servers.median([run['took_s'] for run in runs[name]]):.2f} s" for name in names), ""]]
    for what, words in (("p50", "p50"), ("p99", "p99"), ("max", "longest")):
        rows += [[f"TPC-C {words} {when} it", *(f"{middle(name, when, what):.1f} ms" for name in names), ""]
                 for when in ("without", "with")]
    rows.append(["p99 with / without", f"{ratio['Rowhouse']:.1f}{servers.met(ratio['Rowhouse'], FLOOR)}",
                 f"{ratio['PostgreSQL']:.1f}", f"{FLOOR:g}"])
    head = [f"UPDATE of {arguments.rows:,} rows beside {arguments.rate * arguments.clients:g} TPC-C tx/s, medians of "
            f"{arguments.runs}, seed {arguments.seed}", *names, "at most"]
    servers.finish(arguments, {"runs": runs}, servers.table(head, rows))


if __name__ == "__main__":
    main()
