#!/usr/bin/env python3
"""Latency of transactions while a checkpoint runs and while none does, and in the 100 ms after a snapshot and otherwise.

TPC-C runs at a fixed rate, so that a slow server cannot hide behind fewer transactions; latency is of each transaction, its
commit being durable included, from the intended start, by the client's clock. Each run has two parts on a fresh server each.

Checkpoints: --log-limit is so low that one is due every few seconds. When one begins and ends is told by /metrics, looked at
every 10 ms (rowhouse_snapshot_pause_seconds_count goes up at a beginning, for nothing else takes such a snapshot here, and
rowhouse_checkpoints_total at the end). A transaction belongs to the checkpoint if any of it fell into its time.

Snapshots: no checkpoint is due. About twice a second one session by turns begins a REPEATABLE READ transaction, reads a row,
which takes the snapshot, holds it for 100 ms and commits, or reads the row without any of that. What is compared is transactions
that were under way in the 100 ms after a snapshot and after such a read: a long transaction falls into more windows than a
short one, of either kind alike. `snapshot_pause.py` looks at snapshots of analytical queries, in a build that has them.

The floors: p99.9 during checkpoints at most twice that outside; p99.9 in the 100 ms after a snapshot at most 1 ms above that
after a mere read. Medians of runs.
"""

import bisect
import random
import tempfile
import threading
import time
from pathlib import Path

import servers
from servers import say
from snapshot_pause import WINDOW_US

RATIO, ADDED_MS = 2.0, 1.0
BEGUN, ENDED = "rowhouse_snapshot_pause_seconds_count", "rowhouse_checkpoints_total"
POINT_QUERY = "select d_next_o_id from district where d_w_id = 1 and d_id = 1"


class Watcher(threading.Thread):
    """A thread that watches, or disturbs, until told to end (`over`). What it fails by is kept: without it transactions would be taken for undisturbed."""

    def __init__(self):
        super().__init__(daemon=True)
        self.spans, self.over, self.failure = [], threading.Event(), None

    def run(self):
        try:
            self.watch()
        except Exception as error:  # Whatever it is, the run says nothing.
            self.failure = error


class Checkpoints(Watcher):
    """Watches the server's checkpoints: `[(first, last)]` in microseconds since 1970, and how many seconds the whole ones took. One that was under way at
    the beginning has no first moment, and one at the end no last."""

    def __init__(self, server):
        super().__init__()
        self.server, self.took = server, []

    def watch(self):
        found = self.server.metrics()
        begun, ended, since, last = found[BEGUN], found[ENDED], None, 0
        while not self.over.wait(0.01):
            now, found = time.time_ns() // 1000, self.server.metrics()
            if found[BEGUN] > begun and since is None:
                since = now - 10_000
            if found[ENDED] > ended:
                if since is not None:
                    self.took.append((now - since) / 1e6)
                self.spans.append((last if since is None else since, now))
                since, last = None, now
            begun, ended = found[BEGUN], found[ENDED]
        if since is not None:
            self.spans.append((since, 1 << 62))


class Snapshots(Watcher):
    """Takes a snapshot and reads without one by turns; the 100 ms after each, as `Checkpoints.spans`."""

    def __init__(self, server, every):
        super().__init__()
        self.connection = server.connect("latency1")
        self.every, self.controls = every, []

    def watch(self):
        while not self.over.wait(self.every * random.uniform(0.8, 1.2)):
            is_snapshot = len(self.spans) == len(self.controls)
            if is_snapshot:
                self.connection.query("begin isolation level repeatable read")
            asked = time.time_ns() // 1000
            self.connection.query(POINT_QUERY)
            time.sleep(WINDOW_US / 1e6)
            if is_snapshot:
                self.connection.query("commit")
            (self.spans if is_snapshot else self.controls).append((asked, asked + WINDOW_US))


def split_by_spans(log, spans):
    """Latencies in ms of transactions that touch one of the spans, and of those that do not."""
    inside, outside, ends = [], [], [last for _, last in spans]
    for end, latency in log:
        at = bisect.bisect_left(ends, end - latency)
        touches = at < len(spans) and spans[at][0] <= end
        (inside if touches else outside).append(latency / 1000)
    return inside, outside


def run_load(folder, arguments, options, watch, seed):
    """TPC-C on a fresh server beside what `watch(server)` starts; the log of the measured time, and the watcher."""
    load = ["tpcc", "--tenants", 1, "--prefix", "latency", "--warehouses", arguments.warehouses, "--scale", arguments.scale,
            "--clients", arguments.clients, "--seed", seed]
    with tempfile.TemporaryDirectory(dir=folder) as data, servers.running(servers.Rowhouse(Path(data), options)) as server, \
            tempfile.NamedTemporaryFile(dir=folder) as log_file:
        servers.bench(server, *load, "--load-only")
        run = [*load, "--no-load", "--no-check", "--rate", arguments.rate, "--warm-up", arguments.warm_up,
               "--seconds", arguments.seconds, "--latency-log", log_file.name]
        process = servers.start_bench(server, *run)
        watcher = watch(server)
        watcher.start()
        servers.finish_bench(process, server, *run)
        watcher.over.set()
        watcher.join(30)
        if watcher.failure or watcher.is_alive():
            raise SystemExit(f"void: the run was not watched to its end: {watcher.failure or 'no answer'}")
        return [tuple(map(int, line.split())) for line in Path(log_file.name).read_text().splitlines()], watcher


def quantiles(values):
    return {f"p{part * 100:g}": servers.percentile(values, part) for part in (0.5, 0.99, 0.999, 1)}


def main():
    parser = servers.parser(__doc__, runs=1, seconds=6.0, warehouses=1, clients=4, scale=0.02, rate=25.0, warm_up=1.0, log_limit="4MB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("checkpoints", "snapshots"), help="one of the two parts")
    parser.add_argument("--warehouses", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    parser.add_argument("--rate", type=float, default=100.0, help="transactions a second of each client")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--log-limit", default="160MB", help="in the part with checkpoints; a tenant's is due at a quarter of it")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between snapshots")
    parser.add_argument("--seed", type=int, default=1)
    arguments = servers.parse(parser)
    runs = {part: [] for part in ("checkpoints", "snapshots") if arguments.only in (None, part)}
    with servers.folder("commit-latency") as folder:
        for number in range(arguments.runs):
            seed = arguments.seed + number
            if "checkpoints" in runs:
                log, watcher = run_load(folder, arguments, ["--log-limit", arguments.log_limit], Checkpoints, seed)
                inside, outside = split_by_spans(log, watcher.spans)
                took = watcher.took
                if not took:
                    raise SystemExit("no whole checkpoint was due: lower --log-limit or raise --seconds")
                runs["checkpoints"].append({"count": len(took), "checkpoint_s": servers.median(took),
                                            "inside": quantiles(inside), "outside": quantiles(outside),
                                            "transactions": [len(inside), len(outside)]})
            if "snapshots" in runs:
                log, watcher = run_load(folder, arguments, ["--log-limit", "64GB"], lambda server: Snapshots(server, arguments.every), seed)
                inside, _ = split_by_spans(log, watcher.spans)
                outside, _ = split_by_spans(log, watcher.controls)
                runs["snapshots"].append({"count": len(watcher.spans), "inside": quantiles(inside), "outside": quantiles(outside),
                                          "transactions": [len(inside), len(outside)]})
            for part, of in runs.items():
                a, b = of[-1]["inside"], of[-1]["outside"]
                say(f"  run {number + 1}, {of[-1]['count']} {part}: p99.9 {a['p99.9']:.2f} ms beside them of "
                    f"{of[-1]['transactions'][0]:,}, {b['p99.9']:.2f} ms otherwise of {of[-1]['transactions'][1]:,}; longest "
                    f"{a['p100']:.1f} and {b['p100']:.1f} ms")
    rows = []
    for part, of in runs.items():
        middle = lambda when, what: servers.median([run[when][what] for run in of])
        named = {"checkpoints": ("during a checkpoint", "otherwise"),
                 "snapshots": ("in the 100 ms after a snapshot", "in the 100 ms after a read")}
        for when, words in zip(("inside", "outside"), named[part]):
            rows.append([f"latency {words}", f"p50 {middle(when, 'p50'):.2f}, p99 {middle(when, 'p99'):.2f}, p99.9 "
                         f"{middle(when, 'p99.9'):.2f}, longest {middle(when, 'p100'):.1f} ms", ""])
        if part == "checkpoints":
            ratio = servers.median([run["inside"]["p99.9"] / run["outside"]["p99.9"] for run in of])
            rows.append([f"p99.9 during checkpoints / otherwise ({of[-1]['count']} a run, of {of[-1]['checkpoint_s']:.1f} s)",
                         f"{ratio:.2f}{servers.met(ratio, RATIO)}", f"{RATIO:g}"])
        else:
            added = servers.median([run["inside"]["p99.9"] - run["outside"]["p99.9"] for run in of])
            rows.append([f"p99.9 added by a snapshot ({of[-1]['count']} a run)", f"{added:+.2f} ms{servers.met(added, ADDED_MS)}",
                         f"+{ADDED_MS:g} ms"])
    head = [f"TPC-C at {arguments.rate * arguments.clients:g} tx/s, {arguments.warehouses} warehouses, medians of "
            f"{arguments.runs} x {arguments.seconds:g} s, seeds from {arguments.seed}", "measured", "at most"]
    servers.finish(arguments, {"runs": runs}, servers.table(head, rows))


if __name__ == "__main__":
    main()
