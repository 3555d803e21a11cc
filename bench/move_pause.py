#!/usr/bin/env python3
"""What a move to another worker costs the tenant that moves.

pgbench's tpcb-like script runs on one tenant, each client as fast as it can or at a fixed rate (then latency counts from the intended start). Meanwhile an
administrator moves the tenant to another worker and back, every --every seconds.

The pause is the server's own measurement (/metrics, rowhouse_move_pause_seconds: from the moment the tenant's tasks stand still to the moment its new home has taken them in; buckets that double, so a figure is the bound of the bucket it lies in). Attempts that were
given up are not in it. Latencies are of each transaction by the client's clock: those that were under way while a move was asked for or within 20 ms after it was acknowledged, against the others.

The floor: a pause is at most 10 ms. A bucket ends at 8.192 and the next at 16.384 ms, so one of more than 8.192 is called missed.
"""

import random
import time

import servers
from commit_latency import split_by_spans
from servers import say
from snapshot_pause import Disturber, pauses, quantile_bound, run_beside

WINDOW_US = 20_000
PAUSE_MS_MAX = 10
MOVES = "rowhouse_move_pause_seconds"
TENANT = "move1"


class Moves(Disturber):
    """Moves the tenant to and fro; how long each statement took, and from when it was asked for to 20 ms behind its end (`spans`)."""

    def __init__(self, server, workers, every):
        super().__init__(server.connect(), every)
        self.workers, self.took_ms, self.spans = workers, [], []

    def disturb(self):
        to = 0
        while not self.over.wait(self.every * random.uniform(0.8, 1.2)):
            to = (to + 1) % self.workers
            self.asked.append(time.time_ns() // 1000)
            began = time.monotonic()
            self.connection.query(f"alter tenant {TENANT} set worker {to}")
            self.took_ms.append((time.monotonic() - began) * 1000)
            self.spans.append((self.asked[-1], time.time_ns() // 1000 + WINDOW_US))


def main():
    parser = servers.parser(__doc__, seconds=6.0, clients=4, warm_up=1.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--rate", type=float, help="transactions a second of each client; without it as fast as they can")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--every", type=float, default=0.1, help="seconds between moves")
    arguments = servers.parse(parser)
    load = ["--tenants", 1, "--prefix", TENANT.rstrip("1"), "--scale", arguments.scale, "--clients", arguments.clients]
    with servers.folder("move-pause") as folder, \
            servers.running(servers.Rowhouse(folder, ["--workers", str(arguments.workers)])) as server:
        say("loading")
        servers.bench(server, "pgbench", *load, "--load-only")
        say(f"running for {arguments.warm_up + arguments.seconds:.0f} s")
        run = ["pgbench", *load, "--no-load"]
        if arguments.rate:
            run += ["--rate", arguments.rate]
        moves, report, (before, after), log = run_beside(
            server, folder, run, arguments, lambda: Moves(server, arguments.workers, arguments.every), WINDOW_US)
    inside, outside = split_by_spans(log, moves.spans)
    buckets = pauses(before, after, MOVES)
    parts = (0.5, 0.9, 0.99, 1.0)
    pause = {part: quantile_bound(buckets, part) for part in parts}
    took = {f"p{part * 100:g}_ms": servers.percentile(moves.took_ms, part) for part in parts[:3]}
    latencies = {
        name: {f"p{part * 100:g}_ms": servers.percentile(values, part) for part in (0.5, 0.99, 0.999)}
        for name, values in (("within_20_ms", inside), ("otherwise", outside))
    }
    result = {"moves": len(moves.took_ms), "pause_ms_at_most": {f"p{part * 100:g}": ms for part, ms in pause.items()},
              "pause_buckets_ms": buckets, "statement": took, "latencies": latencies,
              "transactions_per_second": report["transactions_per_second"]}
    count = sum(count for _, count in buckets)
    rows = [[f"pause, longest of {count:.0f}", f"<= {pause[1.0]:.3f} ms{servers.met(pause[1.0], PAUSE_MS_MAX)}", f"{PAUSE_MS_MAX} ms"],
            ["the same, p50, p90, p99", ", ".join(f"<= {pause[part]:.3f}" for part in parts[:3]) + " ms", ""],
            ["the statement, p50, p90, p99", ", ".join(f"{ms:.1f}" for ms in took.values()) + " ms", ""]]
    for name, words in (("within_20_ms", "within 20 ms of a move"), ("otherwise", "otherwise")):
        quantiles = latencies[name]
        rows.append([f"latency {words}", f"p50 {quantiles['p50_ms']:.2f}, p99 {quantiles['p99_ms']:.2f}, "
                     f"p99.9 {quantiles['p99.9_ms']:.2f} ms of {len(inside if name == 'within_20_ms' else outside):,}", ""])
    head = [f"{len(moves.took_ms)} moves under {report['transactions_per_second']:,.0f} TPC-B tx/s", "measured", "at most"]
    servers.finish(arguments, result, servers.table(head, rows))


if __name__ == "__main__":
    main()
