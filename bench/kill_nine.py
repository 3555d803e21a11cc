#!/usr/bin/env python3
"""Kills a server with `kill -9` under TPC-C load, many times over, and checks each time what is left.

A round: TPC-C on every tenant and beside it a ledger of numbered commits; after a random moment `kill -9`; then
`rowhouse verify` on the directory as the kill left it, a restart, every commit of the ledger that was acknowledged must be
there, none may be there that a later reply contradicts, and TPC-C's consistency conditions must hold in every tenant.

    bench/kill_nine.py                         50 rounds on a release build
    bench/kill_nine.py --rounds 5 --binary target/debug/rowhouse
"""

import argparse
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
PASSWORD = "kill-nine"


class Server:
    def __init__(self, binary, data):
        self.binary, self.data = binary, data
        self.log = open(data.with_suffix(".log"), "ab")

    def start(self):
        begun = time.monotonic()
        self.process = subprocess.Popen(
            [self.binary, "serve", "--data", self.data, "--listen", "127.0.0.1:0", "--no-admin"],
            env={"ROWHOUSE_ADMIN_PASSWORD": PASSWORD, "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        for line in self.process.stdout:
            found = re.search(r"postgres://([\d.]+:\d+)", line)
            if found:
                self.url = f"postgres://admin:{PASSWORD}@{found[1]}/rowhouse"
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return time.monotonic() - begun
        sys.exit(f"the server did not start; its log is {self.data.with_suffix('.log')}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def database(self, name):
        return self.url.rsplit("/", 1)[0] + "/" + name


class Ledger(threading.Thread):
    """One client that commits numbers in order and remembers the last one the server acknowledged."""

    def __init__(self, server, database, client, last):
        super().__init__()
        self.url, self.client, self.last, self.seen = server.database(database), client, last, 0

    def run(self):
        try:
            with psycopg.connect(self.url) as connection:
                while True:
                    connection.execute("INSERT INTO ledger VALUES (%s, %s)", (self.client, self.last + 1))
                    connection.commit()
                    self.last += 1
                    # What others committed and this client was shown must survive as well.
                    (seen,) = connection.execute(
                        "SELECT max(number) FROM ledger WHERE client = %s", ((self.client + 1) % 2,)
                    ).fetchone()
                    connection.commit()
                    self.seen = max(self.seen, seen or 0)
        except psycopg.Error:
            pass


def bench(binary, server, arguments, options):
    command = [binary, "bench", "tpcc", "--url", server.url, "--tenants", str(options.tenants), "--prefix", "killed",
               "--warehouses", "1", "--scale", str(options.scale), "--clients", str(options.clients), "--json", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_bench(binary, server, arguments, options):
    process = bench(binary, server, arguments, options)
    out, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"rowhouse bench {' '.join(arguments)} failed:\n{out}{errors}")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--tenants", type=int, default=4)
    parser.add_argument("--clients", type=int, default=2, help="TPC-C clients of each tenant")
    parser.add_argument("--scale", type=float, default=0.05, help="part of TPC-C's population")
    parser.add_argument("--seconds", type=float, default=4.0, help="longest load of a round")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--binary", default=str(ROOT / "target/release/rowhouse"))
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(2**32)
    chance = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="rowhouse-kill-nine-"))
    server = Server(options.binary, folder / "data")
    print(f"seed {seed}, directory {folder}, {options.tenants} tenants, {options.clients} TPC-C clients each, scale {options.scale}")
    server.start()
    run_bench(options.binary, server, ["--load-only"], options)
    databases = [f"killed{n}" for n in range(1, options.tenants + 1)]
    last = {}
    for database in databases:
        with psycopg.connect(server.database(database), autocommit=True) as connection:
            connection.execute("CREATE TABLE ledger (client int, number bigint, PRIMARY KEY (client, number))")
        last.update({(database, client): 0 for client in (0, 1)})

    commits, failures, restarts = 0, [], []
    for number in range(1, options.rounds + 1):
        load = bench(options.binary, server, ["--no-load", "--no-check", "--warm-up", "0", "--seconds", "3600",
                                              "--seed", str(seed + number)], options)
        ledgers = {key: Ledger(server, *key, at) for key, at in last.items()}
        for ledger in ledgers.values():
            ledger.start()
        time.sleep(chance.uniform(0.5, options.seconds))
        if load.poll() is not None:
            sys.exit(f"the load ended before the kill:\n{load.communicate()}")
        server.kill()
        load.communicate()
        for ledger in ledgers.values():
            ledger.join()

        verified = subprocess.run([options.binary, "verify", "--data", server.data], capture_output=True, text=True)
        if verified.returncode != 0:
            failures.append(f"round {number}: verify: {verified.stdout}{verified.stderr}")
        restarts.append(server.start())
        for (database, client), ledger in ledgers.items():
            with psycopg.connect(server.database(database)) as connection:
                count, found = connection.execute(
                    "SELECT count(*), coalesce(max(number), 0) FROM ledger WHERE client = %s", (client,)
                ).fetchone()
            if found not in (ledger.last, ledger.last + 1) or count != found:
                failures.append(f"round {number}: {database}/{client}: {ledger.last} acknowledged, {found} found, {count} rows")
            reader = ledgers[database, (client + 1) % 2]
            if reader.seen > found:
                failures.append(f"round {number}: {database}/{client}: a reply showed {reader.seen}, {found} found")
            commits += ledger.last - last[database, client]
            last[database, client] = found
        # A run of no length that checks the conditions.
        check = bench(options.binary, server, ["--no-load", "--warm-up", "0", "--seconds", "0"], options)
        out, errors = check.communicate()
        if check.returncode != 0:
            violations = json.loads(out).get("violations") if out.strip().startswith("{") else out
            failures.append(f"round {number}: conditions: {violations} {errors}")
        print(f"round {number}: {commits} ledger commits so far, restart {restarts[-1]:.2f} s, {len(failures)} failures", flush=True)
        if failures:
            break

    server.process.send_signal(signal.SIGTERM)
    server.process.wait()
    print(f"{number} rounds, {commits} acknowledged ledger commits, longest restart {max(restarts):.2f} s")
    for failure in failures:
        print(failure)
    if failures:
        sys.exit(f"failed; seed {seed}, the directory is kept: {folder}")
    if not options.keep:
        shutil.rmtree(folder)


main()
