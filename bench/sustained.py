#!/usr/bin/env python3
"""TPC-C on many tenants for hours: whether throughput, memory and files stay as they were in the first ten minutes.

Every --every seconds: commits with changes (/metrics), the server's CPU, the resident memory of the process, the memory for pages, bytes of
the data files and of the log on disk, and what the tenants' data take (SHOW TENANTS, storage_used). Of the two windows also where the
sessions' time went (/metrics, as rowhouse.tenant_waits) and how many pages were missed, read and written. TPC-C's data grow by
themselves, so data files are compared with what is in them. The window at the beginning and at the end is ten minutes, or a
third of the run if that is less; --settle seconds before the first do not count.

The floors: throughput at the end at least 0.97 of the beginning; memory, log, and data files by what is in them, flat: at the end
at most 5 % more.
"""

import re
import time

import servers
from servers import say

FLOOR, FLAT = 0.97, 1.05
PAGES = ("misses", "reads", "evictions", "writes")


def sample(server, began):
    found = server.metrics()
    total = lambda name: sum(value for key, value in found.items() if key.startswith(name))
    used = sum(int(tenant["storage_used"] or 0) for tenant in server.tenants())
    waits = {}
    for key, value in found.items():
        if key.startswith("rowhouse_tenant_wait_seconds_total"):
            wait = re.search(r'wait="([^"]*)"', key)[1]
            waits[wait] = waits.get(wait, 0.0) + value
    pages = {what: total(f"rowhouse_tenant_page_{what}_total") for what in PAGES}
    return {"waits": waits, **pages, "at": time.monotonic() - began, "commits": total("rowhouse_tenant_commits_total"),
            "checkpoints": total("rowhouse_checkpoints_total"), "cpu": servers.cpu_seconds(server.pid), "written": servers.disk_bytes(server.pid)[1],
            "resident": servers.resident_kib(server.pid) * 1024, "pages": found["rowhouse_page_memory_resident_bytes"],
            "log": servers.directory_bytes(server.data / "log"), "data": servers.data_bytes(server), "used": used}


def window(samples, first, last):
    """Rates and medians of the samples from `first` to `last` seconds."""
    of = [each for each in samples if first <= each["at"] <= last]
    seconds = of[-1]["at"] - of[0]["at"]
    middle = {what: servers.median([each[what] for each in of]) for what in ("resident", "pages", "log", "data", "used")}
    rate = {what: (of[-1][what] - of[0][what]) / seconds for what in ("commits", "written")}
    commits = max(1, of[-1]["commits"] - of[0]["commits"])
    rate["waits_us"] = {wait: (whole - of[0]["waits"].get(wait, 0.0)) / commits * 1e6 for wait, whole in of[-1]["waits"].items()}
    rate |= {what: (of[-1][what] - of[0][what]) / commits for what in PAGES}
    rate["cpu_us"] = (of[-1]["cpu"] - of[0]["cpu"]) / commits * 1e6
    return {**middle, **rate, "data_by_used": middle["data"] / middle["used"]}


def main():
    parser = servers.parser(__doc__, minutes=0.2, tenants=3, scale=0.02, every=1.0, settle=1.0)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--clients", type=int, default=1, help="of each tenant")
    parser.add_argument("--warehouses", type=int, default=2, help="of each tenant")
    parser.add_argument("--scale", type=float, default=1.0, help="part of TPC-C's population")
    parser.add_argument("--memory", default="4GiB", help="the server's memory for pages")
    parser.add_argument("--log-limit", default="1GiB")
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--settle", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = servers.parse(parser)
    length = arguments.minutes * 60
    load = ["tpcc", "--tenants", arguments.tenants, "--prefix", "long", "--warehouses", arguments.warehouses, "--scale", arguments.scale,
            "--clients", arguments.clients, "--seed", arguments.seed]
    samples = []
    with servers.folder("sustained") as folder, servers.running(servers.Rowhouse(
            folder, ["--memory", arguments.memory, "--log-limit", arguments.log_limit])) as server:
        say("loading")
        servers.bench(server, *load, "--load-only")
        run = [*load, "--no-load", "--no-check", "--warm-up", arguments.settle, "--seconds", length]
        process = servers.start_bench(server, *run)
        time.sleep(arguments.settle)
        began = time.monotonic()
        while (now := time.monotonic() - began) < length and process.poll() is None:
            samples.append(sample(server, began))
            if len(samples) > 1:
                a, b = samples[-2:]
                say(f"  {b['at'] / 60:5.1f} min: {(b['commits'] - a['commits']) / (b['at'] - a['at']):,.0f} commits/s, resident "
                    f"{b['resident'] / 1e6:,.0f} MB, data files {b['data'] / 1e6:,.0f} of {b['used'] / 1e6:,.0f} MB used, log "
                    f"{b['log'] / 1e6:,.0f} MB, {b['checkpoints'] - a['checkpoints']:.0f} checkpoints")
            time.sleep(max(0.0, arguments.every - (time.monotonic() - began - now)))
        report = servers.finish_bench(process, server, *run)
        # Of two tenants, if there are many: all of 27 GB take more minutes than anyone has after two hours.
        load[load.index("--tenants") + 1] = min(2, arguments.tenants)
        servers.check_conditions(server, *load)
    width = min(600.0, length / 3)
    first, last = window(samples, 0, width), window(samples, samples[-1]["at"] - width, samples[-1]["at"])
    ratio = last["commits"] / first["commits"]
    rows = [["commits with changes", f"{first['commits']:,.0f}/s", f"{last['commits']:,.0f}/s",
             f"{ratio:.3f}" + ("" if ratio >= FLOOR else " **missed**"), f"at least {FLOOR}"]]
    rows.append(["server CPU a commit", f"{first['cpu_us']:,.0f} us", f"{last['cpu_us']:,.0f} us", f"{last['cpu_us'] / first['cpu_us']:.3f}", ""])
    for wait in sorted(last["waits_us"], key=last["waits_us"].get, reverse=True):
        before, after = first["waits_us"].get(wait, 0.0), last["waits_us"][wait]
        if after >= 1:
            rows.append([f"time of sessions a commit: {wait}", f"{before:,.0f} us", f"{after:,.0f} us", f"{after - before:+,.0f} us", ""])
    for what in PAGES:
        rows.append([f"page {what} a commit", f"{first[what]:.3f}", f"{last[what]:.3f}", "", ""])
    for what, words in (("resident", "resident memory of the process"), ("pages", "memory for pages"), ("log", "log on disk")):
        grown = last[what] / first[what]
        rows.append([words, f"{first[what] / 1e6:,.0f} MB", f"{last[what] / 1e6:,.0f} MB", f"{grown:.3f}{servers.met(grown, FLAT)}",
                     f"at most {FLAT}"])
    grown = last["data_by_used"] / first["data_by_used"]
    rows.append(["data files / what is in them", f"{first['data_by_used']:.3f}", f"{last['data_by_used']:.3f}",
                 f"{grown:.3f}{servers.met(grown, FLAT)}", f"at most {FLAT}"])
    rows.append(["data files", f"{first['data'] / 1e6:,.0f} MB", f"{last['data'] / 1e6:,.0f} MB", "", ""])
    rows.append(["written to disk", f"{first['written'] / 1e6:,.1f} MB/s", f"{last['written'] / 1e6:,.1f} MB/s", "", ""])
    head = [f"TPC-C, {arguments.tenants} tenants of {arguments.warehouses} warehouses, {arguments.minutes:g} min, {arguments.memory}, seed {arguments.seed}",
            f"first {width / 60:.1f} min", f"last {width / 60:.1f} min", "ratio", ""]
    servers.finish(arguments, {"samples": samples, "tpmc": report["tpmc"]}, servers.table(head, rows))


if __name__ == "__main__":
    main()
