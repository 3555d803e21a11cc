#!/usr/bin/env python3
"""What a snapshot costs the transactions beside it: the worker's pause when it is taken, and latencies in the 100 ms after.

TPC-C runs at a fixed rate, so that a slow server cannot hide behind fewer transactions; latency counts from the intended
start. Meanwhile one session takes a snapshot of that tenant about every half second: BEGIN ISOLATION LEVEL REPEATABLE READ,
a small analytical query, 100 ms of holding it, COMMIT. Writers copy each page they change first in that time.

The pause is the server's own measurement, of the turn in which it makes a request's snapshot and all that goes with it
(/metrics, rowhouse_snapshot_pause_seconds: buckets that double, so the figure is the bound of the bucket the p99 lies in;
checkpoints' snapshots are in it). Latencies are of each transaction by the client's clock: those that began or ended within
100 ms after a snapshot was asked for, against the others. With --idle-control the session sends an empty query in place of
the snapshot, which shows how far windows without any snapshot differ from the rest.

The floors: pause p99 at most 1 ms. The added p99.9 has none; it is reported.
"""

import bisect
import random
import tempfile
import threading
import time
from pathlib import Path

import servers
from servers import say

WINDOW_US = 100_000
PAUSES = "rowhouse_snapshot_pause_seconds"
QUERY = "select d_w_id, count(*), sum(d_ytd) over () from district group by d_w_id, d_ytd"


class Disturber(threading.Thread):
    """A session that disturbs a load until told to end (`over`), and when it asked for each disturbance. What it fails by is kept: what is left of a run
    would be told as if it had been disturbed all along."""

    def __init__(self, connection, every):
        super().__init__(daemon=True)
        self.connection, self.every, self.asked, self.over, self.failure = connection, every, [], threading.Event(), None

    def run(self):
        try:
            self.disturb()
        except Exception as error:  # Whatever it is, the run says nothing.
            self.failure = error


class Snapshots(Disturber):
    """Takes snapshots."""

    def __init__(self, server, database, every, control, hold=0.1):
        super().__init__(server.connect(database), every)
        self.control, self.hold = control, hold

    def disturb(self):
        while not self.over.wait(self.every * random.uniform(0.8, 1.2)):
            if self.control:
                self.asked.append(time.time_ns() // 1000)
                self.connection.query("")
                time.sleep(self.hold)
                continue
            self.connection.query("begin isolation level repeatable read")
            self.asked.append(time.time_ns() // 1000)
            self.connection.query(QUERY)
            time.sleep(self.hold)
            self.connection.query("commit")


def run_beside(server, folder, run, arguments, disturber, window_us=WINDOW_US):
    """`rowhouse bench` with the options `run`, with `disturber()`, a `Disturber`, at work from the end of the warm-up on. That thread, the report,
    the metrics before and after, and the latency log from what was asked for first to what was last: outside of it nothing is compared."""
    with tempfile.NamedTemporaryFile(dir=folder) as log_file:
        run = [*run, "--warm-up", arguments.warm_up, "--seconds", arguments.seconds, "--latency-log", log_file.name]
        process = servers.start_bench(server, *run)
        time.sleep(arguments.warm_up)
        thread = disturber()
        before = server.metrics()
        thread.start()
        time.sleep(max(0.0, arguments.seconds - 1.0))
        thread.over.set()
        thread.join(60)
        after = server.metrics()
        report = servers.finish_bench(process, server, *run)
        log = [tuple(map(int, line.split())) for line in Path(log_file.name).read_text().splitlines()]
    if thread.failure or thread.is_alive() or not thread.asked:
        raise SystemExit(f"void: the run was not disturbed to its end: {thread.failure or 'no answer'}")
    first, last = min(thread.asked), max(thread.asked) + window_us
    return thread, report, (before, after), [entry for entry in log if first <= entry[0] <= last]


def split(log, asked, window_us=WINDOW_US):
    """Latencies in ms of transactions that touch a window behind a snapshot, or what else was asked for, and of those that do not."""
    inside, outside, starts = [], [], sorted(asked)
    for end, latency in log:
        # The first window that ends after the transaction's begin.
        at = bisect.bisect_left(starts, end - latency - window_us)
        touches = at < len(starts) and starts[at] <= end
        (inside if touches else outside).append(latency / 1000)
    return inside, outside


def pauses(before, after, of=PAUSES):
    """Buckets that pauses fell in between two scrapes: `[(bound in ms, count)]`, not accumulated."""
    bounds = [name for name in after if name.startswith(f"{of}_bucket")]
    found, below = [], 0
    for name in bounds:
        count = after[name] - before.get(name, 0)
        bound = name.split('"')[1]
        found.append((float("inf") if bound == "+Inf" else float(bound) * 1000, count - below))
        below = count
    return found


def quantile_bound(buckets, part):
    total, seen = sum(count for _, count in buckets), 0
    if not total:
        return float("nan")
    for bound, count in buckets:
        seen += count
        if seen >= part * total:
            return bound
    return float("nan")


def main():
    parser = servers.parser(__doc__, seconds=6.0, warehouses=1, clients=4, scale=0.02, rate=10.0, warm_up=1.0)
    parser.add_argument("--warehouses", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    parser.add_argument("--rate", type=float, default=150.0, help="transactions a second of each client")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--warm-up", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=0.5, help="seconds between snapshots")
    parser.add_argument("--idle-control", action="store_true", help="take no snapshots, but look at windows as if")
    arguments = servers.parse(parser)
    load = ["--tenants", 1, "--prefix", "snap", "--warehouses", arguments.warehouses, "--scale", arguments.scale,
            "--clients", arguments.clients]
    with servers.folder("snapshot-pause") as folder, servers.running(servers.Rowhouse(folder)) as server:
        if not server.is_analytic():
            raise SystemExit("this build has no analytical path, whose snapshots are measured")
        say("loading")
        servers.bench(server, "tpcc", *load, "--load-only")
        say(f"running for {arguments.warm_up + arguments.seconds:.0f} s")
        run = ["tpcc", *load, "--no-load", "--rate", arguments.rate]
        snapshots, report, (before, after), log = run_beside(
            server, folder, run, arguments, lambda: Snapshots(server, "snap1", arguments.every, arguments.idle_control))
    inside, outside = split(log, snapshots.asked)
    buckets = pauses(before, after)
    pause = {part: quantile_bound(buckets, part) for part in (0.5, 0.99, 1.0)}
    latencies = {
        name: {f"p{part * 100:g}_ms": servers.percentile(values, part) for part in (0.5, 0.99, 0.999)}
        for name, values in (("within_100_ms", inside), ("otherwise", outside))
    }
    added = latencies["within_100_ms"]["p99.9_ms"] - latencies["otherwise"]["p99.9_ms"]
    result = {"snapshots": len(snapshots.asked), "pause_ms_at_most": {f"p{part * 100:g}": ms for part, ms in pause.items()},
              "pause_buckets_ms": buckets, "transactions_within": len(inside), "transactions_otherwise": len(outside),
              "latencies": latencies, "added_p999_ms": added, "transactions_per_second": report["transactions_per_second"]}
    count = sum(count for _, count in buckets)
    rows = [[f"pause of the worker, p99 of {count:.0f}", f"<= {pause[0.99]:.3f} ms{servers.met(pause[0.99], 1.024)}", "1 ms"],
            ["the same, p50 and longest", f"<= {pause[0.5]:.3f} ms, <= {pause[1.0]:.3f} ms", ""],
            ["p99.9 added in the 100 ms after", f"{added:+.2f} ms", ""]]
    for name, words in (("within_100_ms", "within 100 ms of a snapshot"), ("otherwise", "otherwise")):
        quantiles = latencies[name]
        rows.append([f"latency {words}", f"p50 {quantiles['p50_ms']:.2f}, p99 {quantiles['p99_ms']:.2f}, "
                     f"p99.9 {quantiles['p99.9_ms']:.2f} ms of {len(inside if name == 'within_100_ms' else outside):,}", ""])
    head = [f"{len(snapshots.asked)} snapshots under {report['transactions_per_second']:,.0f} TPC-C tx/s", "measured", "at most"]
    servers.finish(arguments, result, servers.table(head, rows))


if __name__ == "__main__":
    main()
