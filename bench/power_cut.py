#!/usr/bin/env python3
"""Cuts the power of a server under TPC-C load at many moments, and checks each time what is left.

A round: a server records what it writes and flushes (`--record-io`) under TPC-C on every tenant and ledgers of numbered commits beside it; then `kill -9`.
The recording is replayed up to random moments, half of them just after a client was told of a commit, each into a directory that has what had been
flushed by then and a random part of what had not: most writes whole, some torn (`writes`), or each sector for itself (`sectors`). Of each:
`rowhouse verify`, a start, every commit of a ledger that was acknowledged or shown by then, and TPC-C's consistency conditions. The next round goes on
from what the last cut left, so that its recovery is cut too. At the end a canary: on a disk that ignores flushes the same checks must fail.

Needs the standard library, `target/release/power_cut` beside the server's binary (`cargo build --release -p rowhouse -p sim`), and memory for twice the data. A
failure keeps the directory and prints the seed. ROWHOUSE_IO=epoll has it done without a ring.

    bench/power_cut.py                         5 rounds of 20 cuts
    bench/power_cut.py --rounds 1 --cuts 5 --seed 7
    bench/power_cut.py --memory 64MiB --scale 1 --rounds 10      data of three times the memory
"""

import bisect
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import kill_nine
import servers
import wire
from servers import ROWHOUSE, say

POWER_CUT = ROWHOUSE.with_name("power_cut")
POLICIES = ("writes", "writes", "sectors", "nothing")


class Ledger(kill_nine.Ledger):
    """One that also remembers how long the recording was whenever it was told something."""

    def __init__(self, server, database, client, last, recording):
        super().__init__(server, database, client, last)
        self.recording, self.notes = recording, [(0, last, 0)]

    def note(self):
        self.notes.append((self.recording.stat().st_size, self.last, self.seen))

    def told_by(self, at):
        """What a cut at `at` must have kept, as `kill_nine.check_ledger` has it."""
        _, last, seen = self.notes[bisect.bisect_right(self.notes, at, key=lambda note: note[0]) - 1]
        return SimpleNamespace(last=last, seen=seen, failure=self.failure)


class Replay:
    """The program that replays a recording, from cut to cut."""

    def __init__(self, recording, root, base, *options):
        command = [POWER_CUT, "--recording", recording, "--root", root, "--base", base, *options]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def cut(self, at, policy, seed, to):
        """Writes what the power cut leaves into a new directory; the sectors of which it decided what they hold."""
        try:
            print(at, policy, seed, to, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{POWER_CUT} ended before it had cut at {at}")
        return int(answer)


def copy(directory, to):
    """With its holes."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", directory, to], check=True)


def moments(chance, count, end, ledgers):
    """Lengths of a recording of `end` bytes, in order, half of them just after a client was told something."""
    told = [at for ledger in ledgers.values() for at, _, _ in ledger.notes]
    return sorted(chance.choice(told) if n % 2 else chance.randrange(end + 1) for n in range(count))


def check(server, options, ledgers, at, last, analytic):
    """What is wrong with the directory of a server that a cut has left; `last` is brought up to date."""
    views = {key: ledger.told_by(at) for key, ledger in ledgers.items()}
    try:
        failures, _ = kill_nine.check_what_is_left(server, options, views, last, analytic)
    except (SystemExit, OSError, wire.ServerError) as error:
        failures = [f"after the start, or instead of it: {error}"]
    if server.process:
        server.kill()
    return failures


def find_the_canary(chance, options, places, server, ledgers, analytic):
    """How many cuts it took on a disk that ignores flushes until something was missing; `None` if nothing ever was."""
    tried = moments(chance, options.canaries, places.recording.stat().st_size, ledgers)
    with Replay(places.recording, places.data, places.base, "--ignore-flushes") as replay:
        for number, at in enumerate(tried, 1):
            replay.cut(at, "writes", chance.randrange(2**32), server.data)
            failures = check(server, options, ledgers, at, dict.fromkeys(ledgers, 0), analytic)
            shutil.rmtree(server.data)
            if failures:
                say(f"the canary was found at cut {number}: {failures[0][:300].strip()}")
                return number
    return None


def main():
    parser = servers.parser(__doc__, rounds=1, cuts=4, tenants=1, scale=0.01, seconds=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cuts", type=int, default=20, help="of each round")
    parser.add_argument("--canaries", type=int, default=20, help="cuts on a disk that ignores flushes, of which one must fail")
    parser.add_argument("--tenants", type=int, default=2)
    parser.add_argument("--clients", type=int, default=2, help="TPC-C clients of each tenant")
    parser.add_argument("--scale", type=float, default=0.05, help="part of TPC-C's population")
    parser.add_argument("--warehouses", type=int, default=1, help="of each tenant")
    parser.add_argument("--memory", default="8MiB", help="the server's memory for pages")
    parser.add_argument("--log-limit", default="64MB", help="log that is kept before tenants are checkpointed")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load in a round")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = servers.parse(parser)
    if not POWER_CUT.exists():
        sys.exit(f"{POWER_CUT} is not there: cargo build --release -p rowhouse -p sim")
    chance = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="power-cut-", dir=os.environ.get("BENCH_DIR")))
    (folder / "cut").mkdir()
    places = SimpleNamespace(data=folder / "rowhouse", base=folder / "base", recording=folder / "recording")
    memory = ["--memory", options.memory, "--log-limit", options.log_limit]
    say(f"seed {options.seed}, directory {folder}, {options.tenants} tenants, {options.clients} TPC-C clients each")
    first = servers.Rowhouse(folder, memory)
    first.start()
    last, analytic = kill_nine.load(first, options)
    first.stop()

    failures, cuts, undecided, recorded, canary = [], 0, [], 0, None
    left = servers.Rowhouse(folder / "cut", memory)
    for number in range(1, options.rounds + 1):
        copy(places.data, places.base)
        places.recording.unlink(missing_ok=True)
        server = servers.Rowhouse(folder, [*memory, "--record-io", str(places.recording)])
        server.start()
        ledgers = {key: Ledger(server, *key, at, places.recording) for key, at in last.items()}
        failures += kill_nine.work(server, options, (options.seed + number) % 2**32, options.seconds, ledgers)
        end = places.recording.stat().st_size
        recorded += end
        with Replay(places.recording, places.data, places.base) as replay:
            for n, at in enumerate(moments(chance, options.cuts, end, ledgers), 1):
                if failures:
                    break
                policy = POLICIES[cuts % len(POLICIES)]
                cuts += 1
                undecided.append(replay.cut(at, policy, chance.randrange(2**32), left.data))
                if n == options.cuts:
                    # What the next round goes on from, before it is recovered here.
                    copy(left.data, places.data)
                wrong = check(left, options, ledgers, at, last, analytic)
                failures += [f"round {number}, cut {cuts} at {at} of {end} ({policy}): {what}" for what in wrong]
                if not wrong:
                    shutil.rmtree(left.data)
        say(f"round {number}: {sum(last.values())} ledger commits in what the last cut left, {cuts} cuts so far, {len(failures)} failures")
        if failures:
            break
        if number == options.rounds:
            canary = find_the_canary(chance, options, places, left, ledgers, analytic)
            if canary is None:
                failures.append(f"a disk that ignores flushes was not found out in {options.canaries} cuts")
    decided = sum(1 for sectors in undecided if sectors)
    result = {"seed": options.seed, "rounds": options.rounds, "cuts": cuts, "cuts_with_unflushed": decided, "sectors_undecided": sum(undecided),
              "recorded_bytes": recorded, "canary_found_at": canary, "conditions_checked": analytic, "failures": failures}
    rows = [["cuts", cuts], ["of these with something that was not flushed", decided], ["sectors that were not flushed, on average", f"{sum(undecided) / max(1, cuts):,.0f}"],
            ["recorded", f"{recorded / 2**20:,.0f} MiB"], ["TPC-C's conditions after each cut", "checked" if analytic else "not checked"],
            ["a disk that ignores flushes", f"found at cut {canary}" if canary else "not found"], ["failures", len(failures)]]
    servers.finish(options, result, servers.table(["power cuts under TPC-C load", f"seed {options.seed}"], rows))
    kill_nine.end(options, failures, folder)


if __name__ == "__main__":
    main()
