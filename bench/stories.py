#!/usr/bin/env python3
"""The demo's stories, each told once at its own pace: what each group of clients got in each step, and what of its promise was missed.

Starts `rowhouse demo`, has it tell one story after the other by the interface that the console's page uses, and asks it twice a second for the figures
of the groups, of the last seconds, the first five seconds of each step left out. What was missed is the ledger's, of processor time, as a part of what was
owed (the lesser of promised and demanded) in the intervals that lie within the step. A quarter of a machine's cores, one at least, is the load's: with two the
server has one.

What the stories say of those who are not to notice is demanded of them: while promises hold, nineteen twentieths of the throughput that they had by themselves.
"""

import contextlib
import csv
import io
import re
import signal
import statistics
import subprocess
import threading
import time

import servers
from console_client import ConsoleClient
from servers import say

SETTLE_SECONDS = 5.0
SAMPLE_EVERY = 0.5
# A tenant that is dropped takes its rows of the ledger with it.
LEDGER_EVERY = 4.0
LEDGER_WAIT = 3.0
LEDGER_BACK_MS = 8000
LOAD_SECONDS_MAX = 600
# Of a group, steps (from 0) whose throughput is held against that of its first.
KEPT = {"growing": ("the fifty", (1, 2, 3, 4, 5)), "noisy": ("the quiet ones", (1, 4)), "analytics": ("order entry", (1, 2, 3))}
AT_LEAST = 0.95


class Demo:
    """`rowhouse demo`, and a session of its console."""

    def __enter__(self):
        command = [str(servers.ROWHOUSE), "demo", "--story", "none"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        found = None
        while not found:
            line = self.process.stdout.readline()
            assert line, "the demo ended"
            found = re.search(r"the console: http://([^/]+)/ \(user admin, password (.+)\)", line)
        # What it says later is nobody's, but has to go somewhere.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.client = ConsoleClient(found[1], found[2])
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)
        self.process.kill()

    def ledger(self, from_ms):
        text = self.client.ask("GET", f"/api/ledger.csv?resource=cpu&granularity=interval&from_ms={from_ms}")
        return {(row["tenant"], row["began_ms"]): row for row in csv.DictReader(io.StringIO(text))}


def tell(demo, story):
    """The steps with their texts, and of each when it was and its samples: of each group the throughput and the p99."""
    now = demo.client.send("POST", "/api/demo/start", {"story": story})
    texts = [step["text"] for step in now["running"]["steps"]]
    steps = [{"text": text, "from_ms": None, "to_ms": None, "samples": []} for text in texts]
    rows, ledger_at = {}, time.monotonic()
    deadline = time.monotonic() + LOAD_SECONDS_MAX
    while True:
        time.sleep(SAMPLE_EVERY)
        now = demo.client.get("/api/demo")
        running, now_ms = now["running"], time.time_ns() // 1_000_000
        failed = [group["error"] for group in now["groups"] if group["state"] == "failed"]
        assert not failed, f"{story}: {failed}"
        if running["is_loading"]:
            assert time.monotonic() < deadline, f"{story}: its tenants are not loaded"
            continue
        deadline = time.monotonic() + LOAD_SECONDS_MAX
        step = steps[running["step"]]
        step["from_ms"] = step["from_ms"] or now_ms
        step["to_ms"] = now_ms
        if now_ms >= step["from_ms"] + SETTLE_SECONDS * 1000:
            step["samples"].append({group["name"]: (group["throughput"], group["p99_ms"], group["tenant_prefix"]) for group in now["groups"]})
        if time.monotonic() >= ledger_at + LEDGER_EVERY:
            ledger_at = time.monotonic()
            rows.update(demo.ledger(now_ms - LEDGER_BACK_MS))
        if running["at_s"] >= running["length_s"]:
            break
    # The meters tell of an interval once it is over.
    time.sleep(LEDGER_WAIT)
    rows.update(demo.ledger(now_ms - LEDGER_BACK_MS))
    demo.client.send("POST", "/api/demo/stop", None)
    return [{"text": step["text"], "groups": groups_of(step, rows.values())} for step in steps]


def groups_of(step, rows):
    """Of each group in a step: throughput, p99, what was missed and given."""
    names = {name: figures[2] for sample in step["samples"] for name, figures in sample.items()}
    found = {}
    for name, prefix in names.items():
        rates = [sample[name][0] for sample in step["samples"] if name in sample and sample[name][0] is not None]
        p99s = [sample[name][1] for sample in step["samples"] if name in sample and sample[name][1] is not None]
        is_its = re.compile(re.escape(prefix) + r"\d+").fullmatch
        within = [row for row in rows if is_its(row["tenant"]) and int(row["began_ms"]) >= step["from_ms"] + SETTLE_SECONDS * 1000
                  and int(row["ended_ms"]) <= step["to_ms"]]
        owed = sum(min(float(row["promised"]), float(row["demanded"])) for row in within)
        found[name] = {
            "per_second": statistics.fmean(rates) if rates else 0.0,
            "p99_ms": statistics.median(p99s) if p99s else None,
            "missed": sum(float(row["missed"]) for row in within) / owed if owed else None,
            "given_cores": sum(float(row["given"]) for row in within) / max(1e-9, (step["to_ms"] - step["from_ms"]) / 1000 - SETTLE_SECONDS),
        }
    return found


def rows_of(story, steps):
    kept_name, kept_steps = KEPT.get(story, (None, ()))
    for number, step in enumerate(steps):
        for name, group in step["groups"].items():
            demand, mark = "", ""
            if name == kept_name and number in kept_steps:
                part = group["per_second"] / steps[0]["groups"][name]["per_second"]
                demand, mark = f"{AT_LEAST} of step 1", f" ({part:.2f} of step 1){'' if part >= AT_LEAST else ' **missed**'}"
            missed = "" if group["missed"] is None else f"{group['missed']:.1%}"
            p99 = "" if group["p99_ms"] is None else f"{group['p99_ms']:.1f} ms"
            yield [f"{story} {number + 1}: {step['text']}", name, f"{group['per_second']:,.0f}{mark}", p99, f"{group['given_cores']:.3f}", missed, demand]


def main():
    parser = servers.parser(__doc__, stories=["shops"])
    parser.add_argument("--stories", nargs="+", help="those to tell; all if not given")
    arguments = servers.parse(parser)
    result = {}
    with Demo() as demo:
        known = [story["id"] for story in demo.client.get("/api/demo")["stories"]]
        for story in arguments.stories or known:
            say(f"{story}")
            result[story] = tell(demo, story)
            for row in rows_of(story, result[story]):
                say("  " + " | ".join(row))
    heads = ["story and step", "group", "transactions/s", "p99", "cores given", "missed of what was owed", "at least"]
    servers.finish(arguments, result, servers.table(heads, [row for story, steps in result.items() for row in rows_of(story, steps)]))


if __name__ == "__main__":
    main()
