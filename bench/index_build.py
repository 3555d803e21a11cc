#!/usr/bin/env python3
"""What CREATE INDEX on a large table takes, with memory for all of it and for a part, and what it does to a neighbour.

A table of --rows rows, its second column in no order, lies in one database; another database, here another tenant on the same
worker, is read by `pgbench-select` at a fixed rate, its latency counted from the intended start. The reads go on for --seconds
alone; then one session makes an index on the second column, and drops it, until --least seconds are over. Here and on PostgreSQL, with
the same memory for pages, on each of --memories; runs of the two servers alternate, the other one standing still; medians of runs.

With --writers so many sessions change rows of that very table meanwhile, one after the other, and the index is made CONCURRENTLY: how long a
change takes with the statement and without, and at the longest.

The floor: the neighbour's p99 with at most twice that without.
"""

import threading
import time

import servers
import wire
from servers import say

FLOOR = 2.0
ROWS_A_STATEMENT = 5_000
WRITER_PAUSE_S = 0.001


def load(server, rows):
    """The table, by INSERTs of a few thousand rows each."""
    with wire.Connection(server.url(), 600.0) as connection:
        connection.query(server.create("large"))
    with wire.Connection(server.url("large"), 600.0) as connection:
        connection.query("create table large (id int primary key, n int not null, filler text not null)")
        filler = "a hundred bytes of text that nobody looks at, as the rows of real tables have them, in all of the rows"
        for first in range(1, rows + 1, ROWS_A_STATEMENT):
            ids = range(first, min(first + ROWS_A_STATEMENT, rows + 1))
            values = ", ".join(f"({i}, {i * 7919 % rows}, '{filler}')" for i in ids)
            connection.query("insert into large values " + values)


class Writer(threading.Thread):
    """Changes rows of the table one after the other, and notes when each change began and how many ms it took."""

    def __init__(self, server, arguments, number):
        super().__init__(daemon=True)
        self.server, self.rows, self.number = server, arguments.rows, number
        self.took, self.over = [], threading.Event()

    def run(self):
        with wire.Connection(self.server.url("large"), 3600.0) as connection:
            change = self.number
            while not self.over.wait(WRITER_PAUSE_S):
                change += 101
                before = time.time()
                connection.query(f"update large set n = {change * 7919 % self.rows} where id = {change * 104729 % self.rows + 1}")
                self.took.append((before, (time.time() - before) * 1000))

    def end(self):
        self.over.set()
        self.join()
        return self.took


def measure(server, arguments, reads):
    """Latencies of the neighbour in ms without and with the statement, how long one took, and what changes of the table took."""
    writers = [Writer(server, arguments, number) for number in range(arguments.writers)]
    spans = []
    for writer in writers:
        writer.start()
    with wire.Connection(server.url("large"), 3600.0) as connection:

        def create_index():
            before = time.time()
            connection.query(f"create index {'concurrently' if writers else ''} of_n on large (n)")
            after = time.time()
            spans.append((before, after))
            connection.query("drop index of_n")
            return before, after

        run = servers.latencies_beside(server, reads, arguments, create_index)
    took = [change for writer in writers for change in writer.end()]
    if took:
        is_beside = lambda began, ms: any(began <= until and began + ms / 1000 >= since for since, until in spans)
        for when, beside in (("without", False), ("with", True)):
            changes = [ms for began, ms in took if is_beside(began, ms) == beside] or [0.0]
            run[f"changes_{when}"] = {"p99": servers.percentile(changes, .99), "max": max(changes), "count": len(changes)}
    return run


def compare(arguments, memory):
    """Runs of both servers with so much memory, by name."""
    reads = ["pgbench-select", "--tenants", 1, "--prefix", "neighbour", "--clients", arguments.clients, "--scale", 1]
    runs = {}
    ours = servers.Rowhouse(arguments.folder, ["--memory", memory, "--workers", "1"])
    with servers.running(ours), servers.running(servers.Postgres(arguments.folder, memory=memory.replace("iB", "B"))) as theirs:
        both = [ours, theirs]
        for server in both:
            servers.put_to_sleep(server)
        for server in both:
            with servers.awake(server):
                say(f"  {memory}: loading on {server.name}")
                servers.bench(server, *reads, "--load-only")
                load(server, arguments.rows)
                runs[server.name] = []
        for number in range(arguments.runs):
            for server in both if number % 2 == 0 else both[::-1]:
                with servers.awake(server):
                    run = measure(server, arguments, reads)
                    runs[server.name].append(run)
                    say(f"  {memory}, run {number + 1}, {server.name}: the index {run['took_s']:.2f} s; reads' p99 "
                        f"{run['without']['p99']:.2f} ms without, {run['with']['p99']:.2f} ms with it, longest {run['with']['max']:.1f} ms")
    return runs


def main():
    parser = servers.parser(__doc__, runs=1, seconds=2.0, warm_up=1.0, rows=20_000, rate=50.0, least=0.5, longest=5.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memories", default="1GiB,64MiB", help="memory for pages, one after the other")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rate", type=float, default=250.0, help="reads a second of each client")
    parser.add_argument("--writers", type=int, default=0, help="sessions that change rows of the table meanwhile")
    parser.add_argument("--seconds", type=float, default=10.0, help="of reads without the statement in each run")
    parser.add_argument("--least", type=float, default=4.0, help="seconds in which statements are begun")
    parser.add_argument("--longest", type=float, default=40.0, help="seconds of reads kept up for the statement")
    parser.add_argument("--warm-up", type=float, default=3.0)
    arguments = servers.parse(parser)
    runs, rows = {}, []
    for memory in arguments.memories.split(","):
        with servers.folder("index-build") as folder:
            arguments.folder = folder
            found = runs[memory] = compare(arguments, memory)
        names = list(found)
        middle = lambda name, pick: servers.median([pick(run) for run in found[name]])
        rows.append([f"{memory}: the index", *(f"{middle(name, lambda run: run['took_s']):.2f} s" for name in names), ""])
        for what, words in (("p50", "p50"), ("p99", "p99"), ("max", "longest")):
            rows += [[f"{memory}: reads' {words} {when} it",
                      *(f"{middle(name, lambda run: run[when][what]):.2f} ms" for name in names), ""]
                     for when in ("without", "with")]
        if arguments.writers:
            rows += [[f"{memory}: a change of the table, {words} {when} it",
                      *(f"{middle(name, lambda run: run[f'changes_{when}'][what]):.2f} ms" for name in names), ""]
                     for what, words in (("p99", "p99"), ("max", "longest")) for when in ("without", "with")]
        ratio = {name: middle(name, lambda run: run["with"]["p99"] / run["without"]["p99"]) for name in names}
        rows.append([f"{memory}: p99 with / without", f"{ratio['Rowhouse']:.2f}{servers.met(ratio['Rowhouse'], FLOOR)}",
                     f"{ratio['PostgreSQL']:.2f}", f"{FLOOR:g}"])
    del arguments.folder
    head = [f"CREATE INDEX on {arguments.rows:,} rows beside {arguments.rate * arguments.clients:g} reads/s of another database, "
            f"medians of {arguments.runs}", "Rowhouse", "PostgreSQL", "at most"]
    servers.finish(arguments, {"runs": runs}, servers.table(head, rows))


if __name__ == "__main__":
    main()
