#!/usr/bin/env python3
"""How long a tenant takes to be there again after `kill -9`, by how much of the log it is in, and how others fare meanwhile.

TPC-C runs on one tenant until it has written --gigabytes of log, which no checkpoint makes superfluous (--log-limit is set
above it); then `kill -9`, a restart, and one session asks that tenant for a row, which has its log replayed. At the same time
one session at each of several other tenants, which have little in the log, asks for a row again and again. Log bytes are the
server's own count (/metrics): of records, without the padding of the log's blocks, which is a fifth more under TPC-C.

The floor: 2 s a GB of log, from the start of the process to the big tenant's answer, other tenants served meanwhile.
"""

import threading
import time

import servers
from servers import say

FLOOR = 2.0


class Asker(threading.Thread):
    """Asks a tenant for a row until told to end; the time of the first answer and the longest wait after it."""

    def __init__(self, server, database):
        super().__init__(daemon=True)
        self.server, self.database, self.over = server, database, threading.Event()
        self.began, self.first, self.longest, self.answers = time.monotonic(), None, 0.0, 0

    def run(self):
        with self.server.connect(self.database, timeout=600.0) as connection:
            while not self.over.is_set():
                asked = time.monotonic()
                connection.query("select d_next_o_id from district where d_w_id = 1 and d_id = 1")
                now = time.monotonic()
                if self.first is None:
                    self.first = now - self.began
                else:
                    self.longest = max(self.longest, now - asked)
                self.answers += 1
                time.sleep(0.002)


def log_bytes(server):
    return sum(value for name, value in server.metrics().items() if name.startswith("rowhouse_log_durable_bytes_total"))


def checkpoints(server):
    return server.metrics()["rowhouse_checkpoints_total"]


def main():
    parser = servers.parser(__doc__, runs=1, gigabytes=0.02, warehouses=1, scale=0.05)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--warehouses", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    arguments = servers.parse(parser)
    big = ["tpcc", "--tenants", 1, "--prefix", "big", "--warehouses", arguments.warehouses, "--scale", arguments.scale,
           "--clients", arguments.clients]
    others = ["tpcc", "--tenants", 4, "--prefix", "other", "--warehouses", 1, "--scale", 0.01, "--clients", 1]
    results = []
    for number in range(arguments.runs):
        with servers.folder("recovery") as folder, \
                servers.running(servers.Rowhouse(folder, ["--log-limit", f"{int(8 * arguments.gigabytes) + 8}GB"])) as server:
            say(f"run {number + 1}: loading")
            servers.bench(server, *others, "--load-only")
            servers.bench(server, *big, "--load-only")
            load = servers.start_bench(server, *big, "--no-load", "--no-check", "--warm-up", 0, "--seconds", 3600)
            while log_bytes(server) < arguments.gigabytes * 1e9:
                if load.poll() is not None:
                    raise SystemExit(f"the load ended before the kill: {load.communicate()}")
                time.sleep(0.2)
            written, published = log_bytes(server) / 1e9, checkpoints(server)
            server.kill()
            load.communicate()
            began = time.monotonic()
            server.start()
            askers = [Asker(server, f"other{n}") for n in range(1, 5)]
            for asker in askers:
                asker.start()
            with server.connect("big1", timeout=600.0) as connection:
                connection.query("select d_next_o_id from district where d_w_id = 1 and d_id = 1")
            recovered = time.monotonic() - began
            for asker in askers:
                asker.over.set()
            for asker in askers:
                asker.join()
            first = max(asker.first for asker in askers)
            longest = max(asker.longest for asker in askers)
            if server.is_analytic():
                say("  checking the consistency conditions")
                servers.bench(server, *big, "--no-load", "--warm-up", 0, "--seconds", 0)
        results.append({"gigabytes": written, "checkpoints": published, "seconds": recovered, "others_first": first, "others_longest": longest,
                        "others_answers": sum(asker.answers for asker in askers)})
        say(f"  {written:.2f} GB of log, {recovered:.2f} s; others: first answer after {first:.3f} s, longest wait {longest:.3f} s")
    middle = {key: servers.median([run[key] for run in results]) for key in results[0]}
    rate = servers.median([run["seconds"] / run["gigabytes"] for run in results])
    rows = [
        ["log to be replayed", f"{middle['gigabytes']:.2f} GB", ""],
        ["checkpoints before the kill, which leave less to be replayed", f"{middle['checkpoints']:.0f}", "0"],
        ["start of the process to the tenant's first answer", f"{middle['seconds']:.2f} s", ""],
        ["a GB of log", f"{rate:.2f} s{servers.met(rate, FLOOR)}", f"{FLOOR:g} s"],
        ["4 other tenants meanwhile: first answer of the last of them", f"{1e3 * middle['others_first']:.0f} ms", ""],
        ["the same, longest wait after that", f"{1e3 * middle['others_longest']:.0f} ms", ""],
    ]
    head = [f"recovery after kill -9, medians of {arguments.runs}", "measured", "at most"]
    servers.finish(arguments, {"runs": results}, servers.table(head, rows))


if __name__ == "__main__":
    main()
