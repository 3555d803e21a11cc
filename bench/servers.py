"""Rowhouse and PostgreSQL as the benchmarks start them, and what the system says their processes used.

Both are durable at commit, on fresh directories, on loopback. ROWHOUSE in the environment names the build to measure,
BENCH_DIR the folder that data directories are made in. Progress goes to stderr, results to stdout.
"""

import argparse
import contextlib
import csv
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
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import wire

ROOT = Path(__file__).resolve().parent.parent
ROWHOUSE = Path(os.environ.get("ROWHOUSE", ROOT / "target" / "release" / "rowhouse"))
PASSWORD = "benchmark"
TICKS = os.sysconf("SC_CLK_TCK")
SIZES = {"k": 10, "m": 20, "g": 30}


def say(*words):
    """Progress."""
    print(*words, file=sys.stderr, flush=True)


# ---- what the system counts ----


def bytes_of(text):
    """`512MiB` or `512MB`, both binary."""
    number, unit = text.rstrip("iBb")[:-1], text.rstrip("iBb")[-1].lower()
    return int(float(number) * (1 << SIZES[unit]))


def process_tree(pid):
    """The process and all its descendants."""
    pids, todo = [], [pid]
    while todo:
        parent = todo.pop()
        pids.append(parent)
        with contextlib.suppress(OSError):
            todo += [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return pids


def stat_fields(path):
    """The name and the fields behind it of a `stat` file."""
    head, fields = Path(path).read_text().rsplit(")", 1)
    return head.split("(", 1)[1], fields.split()


def cpu_seconds(pid):
    """CPU that a server and its processes have used, ended children of the first included."""
    ticks = 0
    for p in process_tree(pid):
        with contextlib.suppress(OSError):
            _, fields = stat_fields(f"/proc/{p}/stat")
            ticks += int(fields[11]) + int(fields[12])
            if p == pid:
                ticks += int(fields[13]) + int(fields[14])
    return ticks / TICKS


def thread_cpu_seconds(pid):
    """CPU of each thread of a process so far: `{(thread id, name): seconds}`."""
    cpu = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            name, fields = stat_fields(task / "stat")
            cpu[int(task.name), name] = (int(fields[11]) + int(fields[12])) / TICKS
    return cpu


def cpu_without_analytics(pid):
    """CPU of all threads but those that run analytical queries."""
    return sum(cpu for (_, name), cpu in thread_cpu_seconds(pid).items() if not name.startswith("analytic"))


def idle_seconds():
    """Time for which cores of this machine had nothing to do so far, all of them together."""
    idle, waiting = Path("/proc/stat").read_text().split(maxsplit=6)[4:6]
    return (int(idle) + int(waiting)) / TICKS


def resident_kib(pid):
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1])


def context_switches(pid):
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            count += sum(int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", (task / "status").read_text()))
    return count


def disk_bytes(pid):
    """Bytes that a server and its processes, ended children of the first included, have read from disk and written to it."""
    totals = [0, 0]
    for p in process_tree(pid):
        with contextlib.suppress(OSError):
            counts = dict(re.findall(r"^(\w+): (\d+)$", Path(f"/proc/{p}/io").read_text(), re.M))
            totals[0] += int(counts["read_bytes"])
            totals[1] += int(counts["write_bytes"]) - int(counts["cancelled_write_bytes"])
    return tuple(totals)


def directory_bytes(path):
    """Bytes on disk of the files under a directory; files that go away meanwhile do not count."""
    total = 0
    for file in Path(path).rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_blocks * 512 if file.is_file() else 0
    return total


def data_bytes(server):
    """Bytes of a server's data directory on disk, without logs and what is set aside."""
    aside = ("pg_wal", "log", "reserve")
    return sum(directory_bytes(entry) if entry.is_dir() else entry.stat().st_blocks * 512
               for entry in server.data.iterdir() if entry.name not in aside)


# ---- servers ----


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Postgres:
    """PostgreSQL, the newest on this machine."""

    name = "PostgreSQL"
    admin_database = "postgres"

    def __init__(self, folder, memory="4GB", log="4GB"):
        self.data, self.port, self.memory, self.log = folder / "pg" / "data", free_port(), memory, log
        self.data.parent.mkdir()
        self.bin = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.run(self.bin / "initdb", "-D", self.data, "-U", "admin", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8")

    def run(self, *command):
        command = [str(part) for part in command]
        if os.geteuid() == 0:
            # Its programs refuse to run as root.
            shutil.chown(self.data.parent, "postgres")
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -k /tmp -c shared_buffers={self.memory} "
            f"-c max_connections=700 -c max_wal_size={self.log} -c wal_sync_method=fdatasync -c synchronous_commit=on -c fsync=on"
        )
        self.run(self.bin / "pg_ctl", "-D", self.data, "-w", "-o", options, "-l", self.data.parent / "log", "start")
        self.pid = int((self.data / "postmaster.pid").read_text().split()[0])

    def stop(self):
        self.run(self.bin / "pg_ctl", "-D", self.data, "-w", "-m", "fast", "stop")

    def url(self, database="postgres", local=False):
        host = "%2Ftmp" if local else "127.0.0.1"
        return f"postgres://admin@{host}:{self.port}/{database}"

    def dsn(self, database, local):
        """For libpq: over TCP or the local socket, in the clear both."""
        host = "/tmp" if local else "127.0.0.1"
        return f"host={host} port={self.port} user=admin dbname={database} sslmode=disable"

    def create(self, name):
        return f"create database {name}"

    def drop(self, name):
        return f"drop database if exists {name}"


class Rowhouse:
    """A build of Rowhouse. Its log is beside its data directory."""

    name = "Rowhouse"
    admin_database = "rowhouse"

    def __init__(self, folder, options=(), build=ROWHOUSE):
        self.data, self.options, self.build, self.process = folder / "rowhouse", list(options), build, None

    def start(self):
        """Starts it and waits until it answers a query; the seconds that took."""
        log = open(self.data.with_suffix(".log"), "ab")
        began = time.monotonic()
        self.process = subprocess.Popen(
            [str(self.build), "serve", "--data", str(self.data), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
             "--socket-dir", str(self.data.parent), *self.options],
            env=dict(os.environ, ROWHOUSE_ADMIN_PASSWORD=PASSWORD), stdout=subprocess.PIPE, stderr=log, text=True,
        )
        for line in self.process.stdout:
            if found := re.search(r"postgres://([\d.]+:\d+)", line):
                self.address, self.pid = found[1], self.process.pid
                self.metrics_url = re.search(r"http://\S+/metrics", line)[0]
                with self.connect() as connection:
                    connection.query("select 1")
                return time.monotonic() - began
        sys.exit(f"the server did not start:\n{self.data.with_suffix('.log').read_text()[-2000:]}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=600)
        self.process = None

    def kill(self):
        """`kill -9`."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def url(self, database="rowhouse", local=False):
        host, port = self.address.split(":")
        host = urllib.parse.quote(str(self.data.parent), safe="") if local else host
        return f"postgres://admin:{PASSWORD}@{host}:{port}/{database}"

    def dsn(self, database, local):
        """For libpq: over TCP or the local socket, in the clear both."""
        host, port = self.address.split(":")
        host = self.data.parent if local else host
        return f"host={host} port={port} user=admin password={PASSWORD} dbname={database} sslmode=disable"

    def create(self, name):
        return f"create tenant {name}"

    def drop(self, name):
        return f"drop tenant if exists {name}"

    def connect(self, database="rowhouse", timeout=60.0):
        return wire.Connection(self.url(database), timeout)

    def tenants(self):
        """The rows of SHOW TENANTS."""
        command = ["psql", "-qX", "--csv", "-v", "ON_ERROR_STOP=1", self.url(), "-c", "show tenants"]
        return list(csv.DictReader(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()))

    def metrics(self):
        """Every series of /metrics: `{"name{labels}": value}`."""
        text = urllib.request.urlopen(self.metrics_url, timeout=10).read().decode()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def is_analytic(self):
        """Whether this build has the analytical path."""
        with self.connect() as connection:
            try:
                connection.query("select count(*) from pg_class group by relkind")
                return True
            except wire.ServerError as error:
                if error.state == "0A000":
                    return False
                raise


def psql(server, database, sql):
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", server.url(database), "-c", sql], check=True)


# ---- load ----


def start_bench(server, *options, local=False):
    """`rowhouse bench` in the background, over TCP or the local socket."""
    command = [str(ROWHOUSE), "bench", *[str(option) for option in options], "--url", server.url(local=local), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish_bench(process, server, *options):
    """Its report; ends this program if it failed."""
    out, errors = process.communicate()
    if process.returncode:
        sys.exit(f"{server.name}: bench {' '.join(map(str, options))} failed:\n{out[-2000:]}{errors[-2000:]}")
    return json.loads(out) if out.strip() else {}


def bench(server, *options):
    """A run of `rowhouse bench`, which ends this program if it fails: its report, or `{}` of one that only loads."""
    return finish_bench(start_bench(server, *options), server, *options)


def latencies_beside(server, load, arguments, statement):
    """Latencies of a load, in ms, without `statement` and while it was under way, and how long the statement took, in seconds.

    The load goes on for `arguments.seconds` alone. Then `statement()`, which says from when to when it ran, is called again and again until
    `arguments.least` seconds are over.
    """
    with tempfile.NamedTemporaryFile() as log_file:
        run = [*load, "--no-load", "--no-check", "--rate", arguments.rate, "--warm-up", arguments.warm_up,
               "--seconds", arguments.seconds + arguments.longest, "--latency-log", log_file.name]
        process = start_bench(server, *run)
        time.sleep(arguments.warm_up + arguments.seconds)
        began, spans = time.time(), []
        while not spans or time.time() - began < arguments.least:
            spans.append(statement())
            if process.poll() is not None:
                break
        if time.time() - began > arguments.longest:
            process.kill()
            sys.exit(f"void: the statement outlasted the load of {arguments.longest:g} s (--longest): nothing was measured beside its end")
        report = finish_bench(process, server, *run)
        log = [tuple(map(int, line.split())) for line in Path(log_file.name).read_text().splitlines()]
    first = report["measured_from_us"]
    without = [latency / 1000 for end, latency in log if first <= end - latency and end < began * 1e6]
    beside = [latency / 1000 for end, latency in log
              if any(end >= since * 1e6 and end - latency <= until * 1e6 for since, until in spans)]
    at = lambda found: {what: percentile(found, part) for what, part in (("p50", .5), ("p99", .99), ("max", 1))}
    return {"without": at(without), "with": at(beside), "transactions_without": len(without), "transactions_with": len(beside),
            "took_s": median([until - since for since, until in spans])}


def bench_with_cpu(server, *options, warm_up, seconds, cpu=cpu_seconds, local=False):
    """As `bench`, and CPU a transaction over the measured seconds: `cpu_us` the server's, `client_us` the load generator's, `idle_us` what
    nobody used."""
    options = [*options, "--warm-up", warm_up, "--seconds", seconds]
    process = start_bench(server, *options, local=local)
    samples, over = [], threading.Event()

    def sample():
        # Looking through a server of many processes takes CPU that one of a single process keeps, so it is done seldom.
        while not over.wait(min(1.0, max(0.05, seconds / 8))):
            samples.append((time.time(), cpu(server.pid), cpu_seconds(process.pid), idle_seconds()))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    report = finish_bench(process, server, *options)
    over.set()
    sampler.join()
    # Connecting and preparing come before the warm-up, the check after the end: what is between is the run.
    began = report["measured_from_us"] / 1e6
    within = [sampled for sampled in samples if began <= sampled[0] <= began + seconds]
    (first, *before), (last, *after) = within[0], within[-1]
    for what, used_before, used_after in zip(("cpu", "client", "idle"), before, after):
        report[f"{what}_cores"] = (used_after - used_before) / (last - first)
        report[f"{what}_us"] = report[f"{what}_cores"] / max(1.0, report["transactions_per_second"]) * 1e6
    return report


def check_conditions(server, *options):
    """TPC-C's consistency conditions in every database of a load; ends this program if one does not hold."""
    if server.name == "Rowhouse" and not server.is_analytic():
        say("  the consistency conditions are not checked: this build has no analytical path")
        return
    say(f"  checking the consistency conditions on {server.name}")
    bench(server, *options, "--no-load", "--warm-up", 0, "--seconds", 0)


# ---- reports ----


def parser(description, **quick):
    """A parser with what every benchmark has. `quick` are the values of options under --quick."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    made.add_argument("--quick", action="store_true", help="a check of the script that takes seconds, not a measurement")
    made.set_defaults(_quick=quick)
    return made


def parse(made):
    """The options; those that --quick changes are changed unless they were given."""
    arguments = made.parse_args()
    if arguments.quick:
        for name, value in made.get_default("_quick").items():
            if getattr(arguments, name) == made.get_default(name):
                setattr(arguments, name, value)
    del arguments._quick
    if not ROWHOUSE.exists():
        sys.exit(f"{ROWHOUSE} is not there: cargo build --release, or name a build by ROWHOUSE")
    say(f"{machine()}; {ROWHOUSE}{'; --quick: not a measurement' if arguments.quick else ''}")
    return arguments


def machine():
    return f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"


@contextlib.contextmanager
def folder(prefix):
    """A folder for data directories, gone at the end."""
    with tempfile.TemporaryDirectory(prefix=f"{prefix}-", dir=os.environ.get("BENCH_DIR")) as path:
        os.chmod(path, 0o755)
        yield Path(path)


@contextlib.contextmanager
def running(server):
    """The server, started, and stopped at the end."""
    server.start()
    try:
        yield server
    finally:
        if server.name == "PostgreSQL" or server.process:
            wake(server)
            server.stop()


@contextlib.contextmanager
def awake(server):
    """Lets a running server work that sleeps otherwise (SIGSTOP, SIGCONT): it stays warm and disturbs nobody meanwhile."""
    wake(server)
    try:
        yield server
    finally:
        put_to_sleep(server)


def put_to_sleep(server):
    signal_all(server, signal.SIGSTOP)


def wake(server):
    signal_all(server, signal.SIGCONT)


def signal_all(server, number):
    for pid in process_tree(server.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def table(head, rows):
    """A markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def met(value, bound):
    """How a table says whether a measured value is within its upper bound."""
    return "" if value <= bound else " **missed**"


def finish(arguments, result, printed):
    """Prints the result, as JSON or as the table `printed`."""
    settings = {name: value for name, value in vars(arguments).items() if name != "json"}
    if arguments.json:
        print(json.dumps({"machine": machine(), "build": str(ROWHOUSE), "settings": settings, **result}, indent=2))
    else:
        print(printed)


def percentile(values, part):
    """The smallest of the values that at least this part of them does not exceed; NaN of none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[max(0, min(len(ordered), -int(-part * len(ordered) // 1)) - 1)]


def median(values):
    return statistics.median(values)
