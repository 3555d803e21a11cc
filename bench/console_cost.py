#!/usr/bin/env python3
"""What the console costs the server that has many tenants: nobody looking, the overview open, and the worst of its table.

Makes the tenants, has some of them work (pgbench -S at a fixed rate), and takes the processor time of the threads that serve HTTP and of those that
read for them: first with nobody there, then with a client that asks for what the page's overview asks for: the live stream with its ten
minutes of history, a page of the table every two seconds by what is used most, the server every ten. Then with the table asked for as often as the
server gathers it anew. Processor time, not the wall's: what else the machine does changes it little. The floor: 1 % of a core more with the console open.
"""

import http.client
import itertools
import threading
import time
from pathlib import Path
from urllib.parse import urlencode, urlparse

import idle_tenants
import servers
from console_client import ConsoleClient
from servers import PASSWORD, say

TABLE_EVERY = 2.0
SERVER_EVERY = 10.0
GATHERED_EVERY = 1.05
ROWS = 100
TOP = 9
LINES = 256
HISTORY = 600
HTTP_THREADS = ("admin", "console-read")


class Page:
    """What a browser with the overview open asks for, until it is closed."""

    def __init__(self, server, table_every):
        self.client, self.table_every = ConsoleClient(urlparse(server.metrics_url).netloc, PASSWORD), table_every
        self.over, self.frames, self.tables, self.bytes = threading.Event(), 0, 0, 0
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.listen, self.ask)]
        for thread in self.threads:
            thread.start()

    def listen(self):
        for line in self.client.listen("/api/live?" + urlencode({"top": TOP, "lines": LINES, "history": HISTORY})):
            self.frames += line == b"event: frame\n"
            self.bytes += len(line)
            if self.over.is_set():
                return
        raise AssertionError("the stream ended")

    def ask(self):
        query = urlencode({"sort": "cpu", "order": "desc", "offset": 0, "limit": ROWS})
        next_server = 0.0
        while not self.over.wait(self.table_every):
            found = self.client.get(f"/api/tenants?{query}")
            self.tables, self.total = self.tables + 1, found["total"]
            if time.monotonic() >= next_server:
                next_server = time.monotonic() + SERVER_EVERY
                self.client.get("/api/server")
            assert len(found["rows"]) == min(ROWS, found["total"]), found["matched"]

    def close(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def create(server, count, first):
    """Creates so many tenants with promises, over connections that wait for each other's commits: tenants a second, and the server's CPU seconds for each."""
    cpu = servers.cpu_seconds(server.pid)
    rate = idle_tenants.create(server, count, 8, first + 1, "with (size = small)")
    return rate, (servers.cpu_seconds(server.pid) - cpu) / count


def http_cpu(server):
    """Seconds, by the scheduler's own count, which is finer than the clock's ticks."""
    threads = [tid for (tid, name), _ in servers.thread_cpu_seconds(server.pid).items() if name.startswith(HTTP_THREADS)]
    return sum(int(Path(f"/proc/{server.pid}/task/{tid}/schedstat").read_text().split()[0]) for tid in threads) / 1e9


def core_share(server, seconds):
    """Of the threads that serve HTTP; and of the whole server."""
    http, whole, began = http_cpu(server), servers.cpu_seconds(server.pid), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    return (http_cpu(server) - http) / elapsed, (servers.cpu_seconds(server.pid) - whole) / elapsed


def watched(server, seconds, table_every):
    page = Page(server, table_every)
    # The history is sent once, and is not what an open page costs.
    time.sleep(3)
    frames, tables, size = page.frames, page.tables, page.bytes
    shares = core_share(server, seconds)
    frames, tables, size = page.frames - frames, page.tables - tables, page.bytes - size
    page.close()
    assert frames >= seconds * 0.8 - 2 and tables >= seconds / table_every * 0.8 - 2, f"{frames} frames, {tables} tables"
    return {"http_core_share": shares[0], "server_core_share": shares[1], "frames": frames, "tables": tables,
            "stream_bytes_per_second": size / seconds, "tenants_in_table": page.total}


def page_sent(server):
    """Bytes of the page's own files as they are sent, and as they are."""
    address, sizes = urlparse(server.metrics_url).netloc, []
    for accept in ("gzip", "identity"):
        total, paths = 0, ["/"]
        while paths:
            connection = http.client.HTTPConnection(address, timeout=60)
            path = paths.pop()
            connection.request("GET", path, headers={"Accept-Encoding": accept})
            body = connection.getresponse().read()
            total += len(body)
            if path == "/":
                text = body.decode()
                paths = [part.split('"')[0] for part in text.split('="')[1:] if part.startswith("/assets/")]
        sizes.append(total)
    return sizes


def main():
    parser = servers.parser(__doc__, tenants=200, working=4, seconds=5.0)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--working", type=int, default=20, help="tenants beside them that work")
    parser.add_argument("--rate", type=float, default=20.0, help="transactions a second of each")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each case is watched")
    arguments = servers.parse(parser)
    with servers.folder("console-cost") as folder:
        server = servers.Rowhouse(folder)
        with servers.running(server):
            say(f"creating {arguments.tenants} tenants")
            parts = [arguments.tenants // 10] * 10
            making = [create(server, count, first) for first, count in zip(itertools.accumulate([0, *parts]), parts)]
            say(f"  loading {arguments.working}")
            load = ["pgbench-select", "--tenants", arguments.working, "--prefix", "works"]
            servers.bench(server, *load, "--load-only")
            running = servers.start_bench(server, *load, "--no-load", "--no-check", "--rate", arguments.rate, "--seconds", 100_000)
            time.sleep(10)
            cases = {}
            say(f"nobody looks, for {arguments.seconds:.0f} s")
            http, whole = core_share(server, arguments.seconds)
            cases["closed"] = {"http_core_share": http, "server_core_share": whole}
            say("the overview is open")
            cases["open"] = watched(server, arguments.seconds, TABLE_EVERY)
            say("the table is asked for each time it is gathered")
            cases["busiest"] = watched(server, arguments.seconds, GATHERED_EVERY)
            sent, plain = page_sent(server)
            if running.poll() is not None:
                raise SystemExit(f"void: the load ended before its time: {running.communicate()}")
            running.kill()
            running.wait()
    more = cases["open"]["http_core_share"] - cases["closed"]["http_core_share"]
    busiest = cases["busiest"]["http_core_share"] - cases["closed"]["http_core_share"]
    def made(tenth):
        return f"{making[tenth][1] * 1000:.2f} ms of CPU each, {making[tenth][0]:,.0f} /s"

    rows = [
        ["HTTP threads, nobody looks", f"{cases['closed']['http_core_share']:.3%} of a core", ""],
        ["more with the overview open", f"{more:.3%}{servers.met(more, 0.01)}", "1 %"],
        ["more with the table gathered every second", f"{busiest:.3%}", ""],
        ["the stream", f"{cases['open']['stream_bytes_per_second'] / 1024:.1f} KiB/s", ""],
        ["the page's files, as sent and as they are", f"{sent / 1024:.0f} and {plain / 1024:.0f} KiB", ""],
        ["the first tenth of the tenants created", made(0), ""],
        ["the last tenth", made(-1), ""],
    ]
    result = {"cases": cases, "more_with_the_overview_open": more, "created_by_tenth": making, "page_sent_bytes": sent, "page_bytes": plain}
    head = [f"{arguments.tenants:,} tenants, {arguments.working} of them working", "measured", "at most"]
    servers.finish(arguments, result, servers.table(head, rows))


if __name__ == "__main__":
    main()
