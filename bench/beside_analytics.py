#!/usr/bin/env python3
"""Server CPU of a TPC-C transaction while an analytical query loops beside it, against the same without the query.

Runs alternate, without, with, without, ...; medians. What is counted is the CPU (user and system, from
/proc/PID/task/*/stat) of every thread of the server but those named `analytic`, which run the query; so the workers' whole
time is in it: transactions, log, sockets, page copies that the query's snapshots cause, and what handing the core to the
query and back costs. It is taken over the measured time of each run and divided by the transactions a second of the run.

The query is one session that asks again as soon as it is answered, of the tenant that TPC-C runs on, so that its snapshots
are of the pages that transactions write; --beside other gives it a tenant of its own. The load is a closed loop, or with
--rate an open one, where both sides do the same work.

The floor: at most 1.10 times. Void where the query had less than a tenth of a core in one of the runs.
"""

import threading
import time

import servers
import wire
from servers import say

# A query that gets less beside a closed loop that takes all there is shows nothing.
QUERY_CORES_MIN = 0.1

QUERY = """select ol_number, sum(ol_quantity), sum(ol_amount), avg(ol_quantity), avg(ol_amount), count(*)
from order_line where ol_delivery_d > '2007-01-02' group by ol_number order by ol_number"""


class Loop(threading.Thread):
    """Asks the query again and again."""

    def __init__(self, server, database):
        super().__init__(daemon=True)
        self.connection = server.connect(database, timeout=600.0)
        self.seconds, self.over, self.failure = [], False, None

    def run(self):
        try:
            while not self.over:
                began = time.monotonic()
                self.connection.query(QUERY)
                self.seconds.append(time.monotonic() - began)
        except (wire.ServerError, OSError) as error:
            self.failure = error

    def end(self):
        self.over = True
        self.join(600)
        self.connection.close()
        if self.failure:
            raise SystemExit(f"the analytical query failed: {self.failure}")


class Sampler:
    """The CPU of all threads but those that run queries, for `servers.bench_with_cpu`; that of these is kept beside."""

    def __init__(self):
        self.queries = []

    def __call__(self, pid):
        others = servers.cpu_without_analytics(pid)
        self.queries.append((time.time(), sum(servers.thread_cpu_seconds(pid).values()) - others))
        return others

    def query_cores(self, report, seconds):
        """Cores that queries had over the measured time of a run."""
        began = report["measured_from_us"] / 1e6
        within = [sampled for sampled in self.queries if began <= sampled[0] <= began + seconds]
        (first, before), (last, after) = within[0], within[-1]
        return (after - before) / (last - first)


def main():
    parser = servers.parser(__doc__, runs=1, seconds=4.0, warm_up=1.0, warehouses=1, scale=0.05, clients=4)
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--warehouses", type=int, default=5)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    parser.add_argument("--rate", type=float, help="open loop: transactions a second of each client")
    parser.add_argument("--beside", choices=["same", "other"], default="same", help="whose tables the query reads")
    arguments = servers.parse(parser)
    one = ["--warehouses", arguments.warehouses, "--scale", arguments.scale]
    load = ["--tenants", 1, "--prefix", "beside", *one, "--clients", arguments.clients]
    runs = {False: [], True: []}
    answered = []
    with servers.folder("beside-analytics") as folder, servers.running(servers.Rowhouse(folder)) as server:
        if not server.is_analytic():
            raise SystemExit("this build has no analytical path")
        say("loading")
        servers.bench(server, "tpcc", *load, "--load-only")
        database = "beside1"
        if arguments.beside == "other":
            servers.bench(server, "tpcc", "--tenants", 1, "--prefix", "analysed", *one, "--load-only")
            database = "analysed1"
        rate = ["--rate", arguments.rate] if arguments.rate else []
        for number in range(arguments.runs):
            for beside in (False, True):
                loop = Loop(server, database) if beside else None
                if loop:
                    loop.start()
                sampler = Sampler()
                run = servers.bench_with_cpu(server, "tpcc", *load, *rate, "--no-load", "--no-check",
                                             warm_up=arguments.warm_up, seconds=arguments.seconds,
                                             cpu=sampler)
                run["query_cores"] = sampler.query_cores(run, arguments.seconds)
                if loop:
                    loop.end()
                    answered += loop.seconds
                runs[beside].append(run)
                say(f"  run {number + 1} {'with' if beside else 'without'}: {run['cpu_us']:.1f} us/tx, "
                    f"{run['transactions_per_second']:,.0f} tx/s, {run['tpmc']:,.0f} tpmC, {run['cpu_cores']:.2f} cores and {run['query_cores']:.2f} of the query's")
        servers.check_conditions(server, "tpcc", *load)
    without, beside = ([run["cpu_us"] for run in runs[kind]] for kind in (False, True))
    ratio = servers.median(beside) / servers.median(without)
    least = min(run["query_cores"] for run in runs[True])
    # What hardly runs is beside nothing.
    void = "" if least >= QUERY_CORES_MIN else f" **void**: the query had {least:.2f} of a core"
    result = {"without": runs[False], "with": runs[True], "cpu_ratio": ratio, "queries": len(answered),
              "query_seconds_median": servers.median(answered) if answered else None}

    def row(words, kind):
        values = [run["cpu_us"] for run in runs[kind]]
        rates = [run["transactions_per_second"] for run in runs[kind]]
        return [words, f"{servers.median(values):.1f} us/tx ({min(values):.1f} to {max(values):.1f}), "
                f"{servers.median(rates):,.0f} tx/s", ""]

    rows = [row("without", False), row(f"with a query beside ({arguments.beside} tenant)", True),
            ["ratio of CPU a transaction", f"{ratio:.3f}x{void or servers.met(ratio, 1.10)}", "1.10x"],
            ["cores of the query beside it, least of the runs", f"{least:.2f}", ""],
            ["queries answered", f"{len(answered)}, median {servers.median(answered):.2f} s" if answered else "none", ""]]
    servers.finish(arguments, result,
                   servers.table(["workers' CPU a TPC-C transaction", f"medians of {arguments.runs}", "at most"], rows))


if __name__ == "__main__":
    main()
