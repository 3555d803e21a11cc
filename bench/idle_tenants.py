#!/usr/bin/env python3
"""What 10,000 tenants that nobody uses cost: to create, at a start, and by the second.

Creates the tenants over a few connections, stops the server in order, starts it and takes the time until a query is
answered, then kills it with `kill -9` and takes that time again. At last the CPU of the idle server, the first second
after the start left out. The floors: 5 s to the first answer, 1 % of a core.
"""

import threading
import time

import servers
from servers import say


def create(server, count, connections, first=1, options=""):
    """Creates so many tenants from `t{first}` on, each with these options; tenants a second."""
    numbers, lock = iter(range(first, first + count)), threading.Lock()

    def work():
        with server.connect() as connection:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                connection.query(f"create tenant t{number} {options}")
                if number % 1000 == 0:
                    say(f"  {number} tenants")

    began = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (time.monotonic() - began)


def idle(server, seconds):
    """Share of a core, and context switches a second, of a server nobody talks to."""
    time.sleep(1)
    cpu, switches, began = servers.cpu_seconds(server.pid), servers.context_switches(server.pid), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    return (servers.cpu_seconds(server.pid) - cpu) / elapsed, (servers.context_switches(server.pid) - switches) / elapsed


def main():
    parser = servers.parser(__doc__, tenants=200, seconds=3.0)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=8, help="connections that create tenants")
    parser.add_argument("--promise", default="cpu = 0.001, iops = 1, memory = '64kB'", help="of each tenant; empty for none")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the idle server is watched")
    arguments = servers.parse(parser)
    with servers.folder("idle-tenants") as folder:
        server = servers.Rowhouse(folder)
        with servers.running(server):
            say(f"creating {arguments.tenants} tenants")
            options = f"with ({arguments.promise})" if arguments.promise else ""
            rate = create(server, arguments.tenants, arguments.connections, options=options)
            say(f"  {rate:,.0f} tenants/s; stopping")
        with servers.running(server):
            server.kill()
            after_kill = server.start()
            say(f"started after kill -9 in {after_kill:.2f} s")
        started = server.start()
        say(f"started in {started:.2f} s; watching for {arguments.seconds:.0f} s")
        with server.connect() as connection:
            found = len(connection.query("show tenants")) - 1
        assert found == arguments.tenants, f"{found} tenants are there"
        cpu, switches = idle(server, arguments.seconds)
        resident = servers.resident_kib(server.pid)
        server.stop()
    result = {"tenants": arguments.tenants, "promise": arguments.promise, "created_per_second": rate, "start_seconds": started,
              "start_after_kill_seconds": after_kill, "idle_core_share": cpu, "idle_context_switches_per_second": switches,
              "resident_kib": resident}
    rows = [
        ["tenants created", f"{rate:,.0f} /s over {arguments.connections} connections, each durable", ""],
        ["start to first answer", f"{started:.2f} s{servers.met(started, 5)}", "5 s"],
        ["the same after kill -9", f"{after_kill:.2f} s{servers.met(after_kill, 5)}", "5 s"],
        [f"idle CPU over {arguments.seconds:.0f} s", f"{cpu:.3%} of a core{servers.met(cpu, 0.01)}", "1 %"],
        ["idle context switches", f"{switches:,.0f} /s", ""],
        ["resident", f"{resident / 1024:,.0f} MiB, {resident / arguments.tenants:.2f} KiB a tenant", ""],
    ]
    servers.finish(arguments, result, servers.table([f"{arguments.tenants:,} idle tenants with {arguments.promise or 'no promise'}", "measured", "at most"], rows))


if __name__ == "__main__":
    main()
