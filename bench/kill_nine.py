#!/usr/bin/env python3
"""Kills a server with `kill -9` under TPC-C load, many times over, and checks each time what is left.

A round: TPC-C on every tenant and beside it ledgers of numbered commits; when each has one, after a random moment `kill -9`; then
`rowhouse verify` on the directory as the kill left it, a restart, every commit of a ledger that was acknowledged must be
there, and every commit that a reply showed, and no other than the one under way; TPC-C's consistency conditions must hold
in every tenant (a build without the analytical path cannot check those, which is said). With --memory the population is
to be larger than the memory for pages; how often is told.

Needs the standard library alone. A failure keeps the directory and prints the seed.

    bench/kill_nine.py                         50 rounds
    bench/kill_nine.py --rounds 5 --seed 7
    bench/kill_nine.py --rounds 300 --memory 64MiB --scale 1 --log-limit 256MB    data of five times the memory
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import servers
import wire
from servers import ROWHOUSE, say


# A ledger without a commit until then holds nothing.
FIRST_COMMIT_S_MAX = 30.0


class Ledger(threading.Thread):
    """One client that commits numbers in order and remembers the last one the server acknowledged."""

    def __init__(self, server, database, client, last):
        super().__init__(daemon=True)
        self.server, self.database, self.client = server, database, client
        self.first, self.last, self.seen, self.failure = last, last, 0, None

    def run(self):
        try:
            with self.server.connect(self.database) as connection:
                while True:
                    connection.query(f"insert into ledger values ({self.client}, {self.last + 1})")
                    self.last += 1
                    self.note()
                    # What others committed and this client was shown must survive as well.
                    other = (self.client + 1) % 2
                    rows = connection.query(
                        f"select number from ledger where client = {other} order by number desc limit 1")
                    self.seen = max([self.seen, *(int(number) for number, in rows)])
                    self.note()
        except OSError:
            # The kill.
            pass
        except wire.ServerError as error:
            self.failure = error

    def note(self):
        """It was just told of `last`, or shown `seen`, and has sent nothing since."""


def load_options(options):
    return ["--tenants", options.tenants, "--prefix", "killed", "--warehouses", options.warehouses, "--scale", options.scale,
            "--clients", options.clients]


def check_ledger(server, database, client, ledgers):
    """What is wrong with a ledger after the restart, and its last number."""
    ledger, reader = ledgers[database, client], ledgers[database, (client + 1) % 2]
    with server.connect(database) as connection:
        numbers = [int(number) for number, in connection.query(
            f"select number from ledger where client = {client} order by number")]
    found = numbers[-1] if numbers else 0
    wrong = []
    if ledger.failure:
        wrong.append(f"{database}/{client}: the server said {ledger.failure}")
    if numbers != list(range(1, found + 1)):
        wrong.append(f"{database}/{client}: {len(numbers)} numbers up to {found}: some are missing")
    if found not in (ledger.last, ledger.last + 1):
        wrong.append(f"{database}/{client}: {ledger.last} was acknowledged, {found} is found")
    if reader.seen > found:
        wrong.append(f"{database}/{client}: a reply showed {reader.seen}, {found} is found")
    return wrong, found


def work(server, options, seed, moment, ledgers):
    """Loads the server and kills it `moment` seconds after each ledger has had a commit; what went wrong before."""
    tpcc = servers.start_bench(server, "tpcc", *load_options(options), "--no-load", "--no-check", "--warm-up", 0, "--seconds", 3600, "--seed", seed)
    for ledger in ledgers.values():
        ledger.start()
    # From here on each of them holds the server to something.
    until = time.monotonic() + FIRST_COMMIT_S_MAX
    while any(ledger.last == ledger.first for ledger in ledgers.values()) and time.monotonic() < until:
        time.sleep(0.01)
    failures = [f"{database}/{client}: nothing was committed in {FIRST_COMMIT_S_MAX:.0f} s"
                for (database, client), ledger in ledgers.items() if ledger.last == ledger.first]
    time.sleep(moment)
    failures += [f"{database}/{client}: its session ended before the kill" for (database, client), ledger in ledgers.items() if not ledger.is_alive()]
    ended = tpcc.poll() is not None
    server.kill()
    said = tpcc.communicate()
    for ledger in ledgers.values():
        ledger.join()
    return failures + ([f"the load ended before the kill: {said}"] if ended else [])


def check_what_is_left(server, options, ledgers, last, analytic):
    """Verifies a directory whose server was ended, and starts it there. What is wrong, and how long the start took; `last` is brought up to date."""
    failures = []
    verified = subprocess.run([ROWHOUSE, "verify", "--data", server.data], capture_output=True, text=True)
    if verified.returncode != 0:
        failures.append(f"verify: {verified.stdout}{verified.stderr}")
    restart = server.start()
    for key in last:
        wrong, last[key] = check_ledger(server, *key, ledgers)
        failures += wrong
    if analytic:
        check = ["tpcc", *load_options(options), "--no-load", "--warm-up", 0, "--seconds", 0]
        process = servers.start_bench(server, *check)
        out, errors = process.communicate()
        if process.returncode != 0:
            failures.append(f"conditions: {out}{errors}")
    return failures, restart


def round_of(server, options, number, moment, last, analytic):
    """One load, kill and check. What went wrong, and how long the restart took; `last` is brought up to date."""
    ledgers = {key: Ledger(server, *key, at) for key, at in last.items()}
    failures = work(server, options, options.seed + number, moment, ledgers)
    wrong, restart = check_what_is_left(server, options, ledgers, last, analytic)
    return failures + wrong, restart


def load(server, options):
    """Tenants with their population and empty ledgers: the last number of each of these, and whether the build can check the conditions."""
    analytic = server.is_analytic()
    if not analytic:
        say("this build has no analytical path: the consistency conditions are not checked")
    servers.bench(server, "tpcc", *load_options(options), "--load-only")
    last = {}
    for n in range(1, options.tenants + 1):
        with server.connect(f"killed{n}") as connection:
            connection.query("create table ledger (client int, number bigint, primary key (client, number))")
        last.update({(f"killed{n}", client): 0 for client in (0, 1)})
    return last, analytic


def end(options, failures, folder):
    """Says what went wrong, and keeps the directory for it or where it is asked for."""
    for failure in failures:
        say(failure)
    if failures:
        sys.exit(f"failed; the directory is kept: {folder}")
    if options.keep:
        say(f"the directory is kept: {folder}")
    else:
        shutil.rmtree(folder)


def main():
    parser = servers.parser(__doc__, rounds=2, tenants=2, scale=0.01, seconds=1.0)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--tenants", type=int, default=4)
    parser.add_argument("--clients", type=int, default=2, help="TPC-C clients of each tenant")
    parser.add_argument("--scale", type=float, default=0.05, help="part of TPC-C's population")
    parser.add_argument("--warehouses", type=int, default=1, help="of each tenant")
    parser.add_argument("--memory", default="4GiB", help="the server's memory for pages")
    parser.add_argument("--log-limit", default="1GiB", help="log that is kept before tenants are checkpointed")
    parser.add_argument("--seconds", type=float, default=4.0, help="longest load of a round")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = servers.parse(parser)
    chance = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="kill-nine-", dir=os.environ.get("BENCH_DIR")))
    server = servers.Rowhouse(folder, ["--memory", options.memory, "--log-limit", options.log_limit])
    say(f"seed {options.seed}, directory {folder}, {options.tenants} tenants, {options.clients} TPC-C clients each")
    server.start()
    last, analytic = load(server, options)
    data = servers.data_bytes(server) / servers.bytes_of(options.memory)
    say(f"data files of {data:.2f} times the memory for pages")

    failures, restarts = [], []
    for number in range(1, options.rounds + 1):
        wrong, restart = round_of(server, options, number, chance.uniform(0.3, options.seconds), last, analytic)
        failures += [f"round {number}: {what}" for what in wrong]
        restarts.append(restart)
        say(f"round {number}: {sum(last.values())} ledger commits so far, restart {restart:.2f} s, {len(failures)} failures")
        if failures:
            break
    if server.process:
        server.stop()
    result = {"seed": options.seed, "rounds": len(restarts), "ledger_commits": sum(last.values()),
              "restart_seconds_max": max(restarts), "data_by_memory": data, "conditions_checked": analytic, "failures": failures}
    rows = [["rounds", len(restarts)], ["data / memory for pages, after loading", f"{data:.2f}"], ["acknowledged ledger commits, each found again", f"{sum(last.values()):,}"],
            ["TPC-C's conditions after each round", "checked" if analytic else "not checked"],
            ["longest restart", f"{max(restarts):.2f} s"], ["failures", len(failures)]]
    servers.finish(options, result, servers.table(["kill -9 under TPC-C load", f"seed {options.seed}"], rows))
    end(options, failures, folder)


if __name__ == "__main__":
    main()
