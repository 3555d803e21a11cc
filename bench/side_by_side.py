#!/usr/bin/env python3
"""Measures Rowhouse beside PostgreSQL on this machine, both durable at commit, and prints the table of docs/benchmarks.md.

Each measurement runs the two servers in turn, A B A B ..., on the same cores, warmed up, and takes medians; the servers
run one at a time, so neither disturbs the other. Needs PostgreSQL's server binaries and pgbench, and a release build
(`cargo build --release`).

    bench/side_by_side.py                      every measurement, five runs each
    bench/side_by_side.py --only select,tpcb --runs 3 --seconds 10
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWHOUSE = Path(os.environ.get("ROWHOUSE", ROOT / "target" / "release" / "rowhouse"))
PASSWORD = "side-by-side"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def process_tree(pid):
    """The process and all its descendants."""
    pids, todo = [], [pid]
    while todo:
        parent = todo.pop()
        pids.append(parent)
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            children = []
        todo += [int(child) for child in children]
    return pids


def cpu_seconds(pid):
    """CPU that a server and its processes have used, ended children of the first included."""
    ticks = 0
    for p in process_tree(pid):
        try:
            fields = Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
        if p == pid:
            ticks += int(fields[13]) + int(fields[14])
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for_port(port, process):
    for _ in range(600):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process is not None and process.poll() is not None:
            sys.exit("the server ended at its start; its output is above")
        time.sleep(0.1)
    sys.exit(f"nothing listens on port {port}")


class Postgres:
    name = "PostgreSQL"

    def __init__(self, folder, memory):
        self.data, self.port = folder / "postgres", free_port()
        self.bin = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.memory = memory
        self.run(self.bin / "initdb", "-D", self.data, "-U", "admin", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8")

    def run(self, *command):
        command = [str(part) for part in command]
        if os.geteuid() == 0:
            shutil.chown(self.data.parent, "postgres")
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -k /tmp -c shared_buffers={self.memory} "
            "-c max_connections=700 -c max_wal_size=16GB -c wal_sync_method=fdatasync -c synchronous_commit=on -c fsync=on"
        )
        self.run(self.bin / "pg_ctl", "-D", self.data, "-w", "-o", options, "-l", self.data.parent / "postgres.log", "start")
        self.pid = int((self.data / "postmaster.pid").read_text().split()[0])

    def stop(self):
        self.run(self.bin / "pg_ctl", "-D", self.data, "-w", "-m", "fast", "stop")

    def url(self, database="postgres"):
        return f"postgres://admin@127.0.0.1:{self.port}/{database}"

    admin_database = "postgres"

    def create(self, name):
        return f"create database {name}"

    def drop(self, name):
        return f"drop database if exists {name}"


class Rowhouse:
    name = "Rowhouse"

    def __init__(self, folder, memory):
        self.data, self.port, self.admin_port = folder / "rowhouse", free_port(), free_port()

    def start(self):
        environment = dict(os.environ, ROWHOUSE_ADMIN_PASSWORD=PASSWORD)
        self.log = open(self.data.parent / "rowhouse.log", "a")
        self.process = subprocess.Popen(
            [str(ROWHOUSE), "serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}",
             "--admin-listen", f"127.0.0.1:{self.admin_port}"],
            env=environment, stdout=self.log, stderr=self.log,
        )
        wait_for_port(self.port, self.process)
        self.pid = self.process.pid

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)

    def url(self, database="rowhouse"):
        return f"postgres://admin:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    admin_database = "rowhouse"

    def create(self, name):
        return f"create tenant {name}"

    def drop(self, name):
        return f"drop tenant if exists {name}"


def psql(server, database, sql):
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", server.url(database), "-c", sql], check=True)


def pgbench(server, database, *options):
    """Transactions a second, mean latency in ms and server CPU in microseconds a transaction."""
    before = cpu_seconds(server.pid)
    out = subprocess.run(
        ["pgbench", "-n", *options, server.url(database)], check=True, capture_output=True, text=True
    ).stdout
    cpu = cpu_seconds(server.pid) - before
    tps = float(re.search(r"tps = ([0-9.]+)", out).group(1))
    count = int(re.search(r"actually processed: (\d+)", out).group(1))
    return {"rate": tps, "cpu_us": cpu / count * 1e6}


def bench(server, *options):
    """A run of `rowhouse bench` as JSON, with the server's CPU a transaction."""
    before = cpu_seconds(server.pid)
    done = subprocess.run(
        [str(ROWHOUSE), "bench", *options, "--url", server.url(), "--json"], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{server.name}: bench {' '.join(options)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    if not done.stdout.strip():
        return {}
    report = json.loads(done.stdout)
    # The warm-up's transactions are not counted, its CPU is: take it off by time.
    seconds, warm = report["seconds"], float(options[options.index("--warm-up") + 1]) if "--warm-up" in options else 5.0
    cpu = (cpu_seconds(server.pid) - before) * seconds / (seconds + warm)
    report["cpu_us"] = cpu / max(1, report["transactions"]) * 1e6
    return report


class Comparison:
    """Rows of the printed table."""

    def __init__(self, arguments):
        self.arguments, self.rows = arguments, []

    def interleave(self, servers, measure):
        """Runs `measure(server)` on each server in turn; medians by server and the raw values."""
        results = {server.name: [] for server in servers}
        for _ in range(self.arguments.runs):
            for server in servers:
                server.start()
                try:
                    results[server.name].append(measure(server))
                finally:
                    server.stop()
        return results

    def add(self, what, unit, results, key, floor, invert=False):
        median = {name: statistics.median(run[key] for run in runs) for name, runs in results.items()}
        ours, theirs = median["Rowhouse"], median["PostgreSQL"]
        ratio = theirs / ours if invert else ours / theirs
        spread = {name: (min(r[key] for r in runs), max(r[key] for r in runs)) for name, runs in results.items()}
        self.rows.append((what, unit, ours, theirs, ratio, floor))
        print(
            f"  {what}: Rowhouse {ours:,.1f} {unit} ({spread['Rowhouse'][0]:,.1f} to {spread['Rowhouse'][1]:,.1f}), "
            f"PostgreSQL {theirs:,.1f} ({spread['PostgreSQL'][0]:,.1f} to {spread['PostgreSQL'][1]:,.1f}), ratio {ratio:.2f}",
            flush=True,
        )

    def table(self):
        lines = ["| measurement | Rowhouse | PostgreSQL | ratio | at least |", "| --- | --- | --- | --- | --- |"]
        for what, unit, ours, theirs, ratio, floor in self.rows:
            met = "" if ratio >= floor else " **missed**"
            lines.append(f"| {what} | {ours:,.1f} {unit} | {theirs:,.1f} {unit} | {ratio:.2f}x{met} | {floor}x |")
        return "\n".join(lines)


def measure_pgbench(comparison, servers, scripts):
    seconds, scale = comparison.arguments.seconds, comparison.arguments.pgbench_scale
    for server in servers:
        server.start()
        psql(server, server.admin_database, server.drop("pgb"))
        psql(server, server.admin_database, server.create("pgb"))
        subprocess.run(["pgbench", "-q", "-i", "-s", str(scale), server.url("pgb")], check=True, stderr=subprocess.DEVNULL)
        server.stop()
    for name, options, floor in scripts:
        def run(server):
            pgbench(server, "pgb", *options, "-T", str(max(2, seconds // 4)))
            return pgbench(server, "pgb", *options, "-T", str(seconds))
        results = comparison.interleave(servers, run)
        comparison.add(name, "tx/s", results, "rate", floor)
        comparison.add(f"{name}: server CPU", "us/tx", results, "cpu_us", 1.0, invert=True)


def measure_tpcc(comparison, servers, name, options, floor, cpu_floor):
    seconds = comparison.arguments.seconds
    for server in servers:
        server.start()
        bench(server, "tpcc", *options, "--load-only")
        server.stop()
    def run(server):
        return bench(server, "tpcc", *options, "--no-load", "--no-check", "--warm-up", "5", "--seconds", str(seconds))
    results = comparison.interleave(servers, run)
    comparison.add(name, "tpmC", results, "tpmc", floor)
    comparison.add(f"{name}: server CPU", "us/tx", results, "cpu_us", cpu_floor, invert=True)
    # The conditions hold after all runs, on both.
    for server in servers:
        server.start()
        bench(server, "tpcc", *options, "--no-load", "--warm-up", "0", "--seconds", "1")
        server.stop()


def measure_tenants(comparison, server):
    """Table 1 of the paper on HyPer: throughput by number of tenants, one warehouse and one client each."""
    scale, seconds = comparison.arguments.tenants_scale, comparison.arguments.seconds
    counts = [1 << n for n in range(10) if 1 << n <= comparison.arguments.tenants_max]
    server.start()
    common = ["--prefix", "many", "--warehouses", "1", "--scale", str(scale)]
    print(f"  loading {counts[-1]} tenants at scale {scale}", flush=True)
    bench(server, "tpcc", "--tenants", str(counts[-1]), *common, "--load-only")
    print("  | tenants | average tx/s a tenant | sum tx/s |\n  | --- | --- | --- |")
    sums = []
    for count in counts:
        runs = [
            bench(server, "tpcc", "--tenants", str(count), *common, "--no-load", "--no-check", "--warm-up", "3",
                  "--seconds", str(seconds))["transactions_per_second"]
            for _ in range(max(1, comparison.arguments.runs // 2))
        ]
        sums.append(statistics.median(runs))
        print(f"  | {count} | {sums[-1] / count:,.1f} | {sums[-1]:,.0f} |", flush=True)
    server.stop()
    print(f"  sum at {counts[-1]} / best sum = {sums[-1] / max(sums):.3f} (at least 0.87 at 512)")


MEASUREMENTS = ["select", "tpcb", "tpcc", "tpcc32", "tenants"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help=f"of {', '.join(MEASUREMENTS)}")
    parser.add_argument("--runs", type=int, default=5, help="runs of each server")
    parser.add_argument("--seconds", type=int, default=20, help="measured seconds of a run")
    parser.add_argument("--memory", default="4GB", help="PostgreSQL's shared_buffers")
    parser.add_argument("--pgbench-scale", type=int, default=20)
    parser.add_argument("--tenants-scale", type=float, default=0.01)
    parser.add_argument("--tenants-max", type=int, default=512)
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(MEASUREMENTS):
        parser.error(f"unknown measurement: {', '.join(unknown)}")
    if not ROWHOUSE.exists():
        sys.exit("build first: cargo build --release")
    print(f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}")
    print(f"{arguments.runs} runs of {arguments.seconds} s, interleaved; both durable at commit (fdatasync)\n")
    with tempfile.TemporaryDirectory(prefix="side-by-side-", dir=os.environ.get("BENCH_DIR")) as folder:
        folder = Path(folder)
        os.chmod(folder, 0o755)
        (folder / "pg").mkdir()
        servers = [Rowhouse(folder, arguments.memory), Postgres(folder / "pg", arguments.memory)]
        comparison = Comparison(arguments)
        if "select" in wanted or "tpcb" in wanted:
            scripts = []
            if "select" in wanted:
                scripts.append(("pgbench -S -M prepared -c 8 -j 2", ["-S", "-M", "prepared", "-c", "8", "-j", "2"], 1.5))
            if "tpcb" in wanted:
                scripts.append((f"pgbench TPC-B -M prepared -c 8, scale {arguments.pgbench_scale}",
                                ["-M", "prepared", "-c", "8", "-j", "2"], 3.0))
            measure_pgbench(comparison, servers, scripts)
        if "tpcc" in wanted:
            measure_tpcc(comparison, servers, "TPC-C by wire, 1 tenant, 5 warehouses, 10 clients",
                         ["--tenants", "1", "--prefix", "one", "--warehouses", "5", "--clients", "10"], 1.5, 3.0)
        if "tpcc32" in wanted:
            measure_tpcc(comparison, servers, "TPC-C, 32 tenants x 1 warehouse x 1 client",
                         ["--tenants", "32", "--prefix", "t", "--warehouses", "1", "--clients", "1"], 3.0, 1.0)
        if "tenants" in wanted:
            measure_tenants(comparison, servers[0])
        print("\n" + comparison.table())


if __name__ == "__main__":
    main()
