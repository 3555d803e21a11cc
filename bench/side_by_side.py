#!/usr/bin/env python3
"""Measures Rowhouse beside PostgreSQL on this machine, both durable at commit, and prints a table of ratios.

Each measurement runs the two servers in turn, A B A B ..., on the same cores, and takes medians. Both stay up from the load
to the last run, so both are warm; the one whose turn it is not is stopped (SIGSTOP) and disturbs nobody. Needs PostgreSQL's server binaries and pgbench, and a release build
(`cargo build --release`, or another one that ROWHOUSE names).

    bench/side_by_side.py                      every measurement, five runs each
    bench/side_by_side.py --only select,tpcb --runs 3 --seconds 10

With `cargo build --release -p env --example canned` there are rows of a server that does nothing but flush, which tell
what any server could reach on this machine with these clients.
"""

import re
import subprocess

import servers
from servers import psql, say

CANNED = servers.ROWHOUSE.parent / "examples" / "canned"

PREPARED = ["pgbench", "-n", "-M", "prepared", "-c", "8", "-j", "2"]

# Name: what is measured, by the local socket or TCP, options, floor of the rate, floor of PostgreSQL's CPU a transaction by
# ours. pgbench uses the local socket unless told otherwise; TPC-C is measured by TCP, then by the local socket.
PGBENCH = {
    "select": ("pgbench -S -M prepared -c 8 -j 2", True, ["-S"], 1.5, 1.0),
    "select_tcp": ("pgbench -S -M prepared -c 8 -j 2 -h 127.0.0.1", False, ["-S"], 1.5, 1.0),
    "tpcb": ("pgbench TPC-B -M prepared -c 8 -j 2", True, [], 3.0, 1.0),
    "tpcb_tcp": ("pgbench TPC-B -M prepared -c 8 -j 2 -h 127.0.0.1", False, [], 3.0, 1.0),
}
TPCC = {
    "tpcc": ("TPC-C, 1 tenant x 5 warehouses x 10 clients",
             ["--tenants", 1, "--prefix", "one", "--warehouses", 5, "--clients", 10], 1.5, 3.0),
    "tpcc32": ("TPC-C, 32 tenants x 1 warehouse x 1 client",
               ["--tenants", 32, "--prefix", "t", "--warehouses", 1, "--clients", 1], 3.0, 1.0),
}


def tps(out):
    """Transactions a second, as pgbench printed them."""
    return float(re.search(r"tps = ([0-9.]+)", out)[1])


def pgbench(server, local, *options):
    """Transactions a second, and the server's CPU in microseconds a transaction."""
    before = servers.cpu_seconds(server.pid)
    command = [*PREPARED, *options, server.dsn("pgb", local)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cpu = servers.cpu_seconds(server.pid) - before
    count = int(re.search(r"actually processed: (\d+)", out)[1])
    return {"rate": tps(out), "cpu_us": cpu / count * 1e6}


class Comparison:
    """Measurements of both servers, and the rows of the printed table."""

    def __init__(self, arguments, both):
        self.arguments, self.both, self.rows, self.runs = arguments, both, [], {}

    def interleave(self, what, measure):
        """Runs `measure(server)` on each server in turn."""
        runs = self.runs[what] = {server.name: [] for server in self.both}
        for number in range(self.arguments.runs):
            for server in self.both:
                with servers.awake(server):
                    run = measure(server)
                runs[server.name].append(run)
                say(f"  {what}, run {number + 1}, {server.name}: "
                    f"{run.get('rate') or run['tpmc']:,.0f}{'/s' if 'rate' in run else ' tpmC'}, {run['cpu_us']:.1f} us/tx")

    def spread(self, what, unit, key):
        """Values of `key` by server, and a cell for each: median and spread."""
        values = {name: [run[key] for run in runs] for name, runs in self.runs[what].items()}
        return values, [f"{servers.median(each):,.1f} {unit} ({min(each):,.1f} to {max(each):,.1f})" for each in values.values()]

    def add(self, what, words, unit, key, floor, less=False):
        """A row: medians and spreads of `key`, and the ratio in which we are better."""
        values, cells = self.spread(what, unit, key)
        ours, theirs = servers.median(values["Rowhouse"]), servers.median(values["PostgreSQL"])
        ratio = theirs / ours if less else ours / theirs
        missed = " **missed**" if ratio < floor else ""
        self.rows.append([words, *cells, f"{ratio:.2f}x{' less' if less else ''}{missed}", f"{floor}x"])

    def tell(self, what, words, unit, key):
        """A row that no floor is of."""
        self.rows.append([words, *self.spread(what, unit, key)[1], "", ""])

    def add_bound(self, what, words, rates):
        """A row: what a server that does nothing reached, so that no server can pass it on this machine with this client."""
        most = servers.median(rates)
        ratio = most / servers.median([run["rate"] for run in self.runs[what]["PostgreSQL"]])
        self.rows.append([words, f"{most:,.1f} tx/s ({min(rates):,.1f} to {max(rates):,.1f})", "", f"{ratio:.2f}x", ""])


def canned(arguments, folder, *options):
    """Transactions a second of pgbench against a server that does nothing, but makes commits durable in a file of `folder`."""
    with subprocess.Popen([CANNED, folder, "poll", folder / "canned.log"], stdout=subprocess.PIPE) as server:
        try:
            server.stdout.readline()
            run = [*PREPARED, *options, "-T", str(round(arguments.seconds)), "-h", folder, "postgres"]
            outs = [subprocess.run(run, check=True, capture_output=True, text=True).stdout for _ in range(arguments.runs)]
        finally:
            server.terminate()
    (folder / ".s.PGSQL.5432").unlink()
    return [tps(out) for out in outs]


def measure_pgbench(comparison, folder, wanted):
    arguments = comparison.arguments
    for server in comparison.both:
        with servers.awake(server):
            psql(server, server.admin_database, server.create("pgb"))
            initialise = ["pgbench", "-q", "-i", "-s", str(arguments.pgbench_scale), server.dsn("pgb", True)]
            subprocess.run(initialise, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for what in wanted:
        words, local, options, floor, cpu_floor = PGBENCH[what]

        def run(server):
            pgbench(server, local, *options, "-T", str(max(1, round(arguments.seconds / 4))))
            return pgbench(server, local, *options, "-T", str(round(arguments.seconds)))

        comparison.interleave(what, run)
        words += f", scale {arguments.pgbench_scale}"
        comparison.add(what, words, "tx/s", "rate", floor)
        comparison.add(what, f"{words}: server CPU", "us/tx", "cpu_us", cpu_floor, less=True)
        if local and CANNED.exists():
            comparison.add_bound(what, f"{words}: a server that does nothing", canned(arguments, folder, *options))


def measure_tpcc(comparison, what):
    arguments = comparison.arguments
    words, options, floor, cpu_floor = TPCC[what]
    options = ["tpcc", *options, "--scale", arguments.tpcc_scale]
    for server in comparison.both:
        with servers.awake(server):
            say(f"  loading on {server.name}")
            servers.bench(server, *options, "--load-only")
    words += "" if arguments.tpcc_scale == 1 else f", scale {arguments.tpcc_scale}"
    for local, where in ((False, ""), (True, ", local socket")):
        run = what + ("_local" if local else "")
        comparison.interleave(run, lambda server: servers.bench_with_cpu(
            server, *options, "--no-load", "--no-check", warm_up=max(1, arguments.seconds / 4), seconds=arguments.seconds, local=local))
        comparison.add(run, words + where, "tpmC", "tpmc", floor)
        comparison.add(run, f"{words}{where}: server CPU", "us/tx", "cpu_us", cpu_floor, less=True)
        comparison.tell(run, f"{words}{where}: CPU of the load generator", "us/tx", "client_us")
        comparison.tell(run, f"{words}{where}: CPU that nobody used", "us/tx", "idle_us")
    for server in comparison.both:
        with servers.awake(server):
            servers.check_conditions(server, *options)


def main():
    names = [*PGBENCH, *TPCC]
    parser = servers.parser(__doc__, runs=1, seconds=2.0, pgbench_scale=1, tpcc_scale=0.01)
    parser.add_argument("--only", default=",".join(names), help=f"of {', '.join(names)}")
    parser.add_argument("--runs", type=int, default=5, help="runs of each server")
    parser.add_argument("--seconds", type=float, default=20.0, help="measured seconds of a run")
    parser.add_argument("--memory", default="4GB", help="PostgreSQL's shared_buffers")
    parser.add_argument("--log", default="4GB", help="log that both keep before they checkpoint")
    parser.add_argument("--pgbench-scale", type=int, default=20)
    parser.add_argument("--tpcc-scale", type=float, default=1.0, help="part of TPC-C's population")
    arguments = servers.parse(parser)
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"unknown measurement: {', '.join(unknown)}")
    with servers.folder("side-by-side") as folder, servers.running(servers.Rowhouse(folder, ["--log-limit", arguments.log])) as ours, \
            servers.running(servers.Postgres(folder, arguments.memory, arguments.log)) as theirs:
        comparison = Comparison(arguments, [ours, theirs])
        for server in comparison.both:
            servers.put_to_sleep(server)
        if scripts := [what for what in PGBENCH if what in wanted]:
            measure_pgbench(comparison, folder, scripts)
        for what in TPCC:
            if what in wanted:
                measure_tpcc(comparison, what)
    say(f"{arguments.runs} runs of {arguments.seconds:g} s, interleaved; both durable at commit (fdatasync)")
    head = ["measurement", "Rowhouse", "PostgreSQL", "ratio", "at least"]
    servers.finish(arguments, {"runs": comparison.runs}, servers.table(head, comparison.rows))


if __name__ == "__main__":
    main()
