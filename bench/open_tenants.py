#!/usr/bin/env python3
"""Memory of an open tenant with TPC-C's empty schema: nine tables, their primary keys, two further indexes.

Makes the tenants and their schema, starts the server anew, so that nothing is counted that only making them took, opens
each by one session that runs one query and leaves, and takes the growth of the resident set (VmRSS) by the tenant. The
floor: 256 KiB.
"""

import time

import servers
from servers import say


def open_all(server, count, query):
    for number in range(1, count + 1):
        with server.connect(f"open{number}") as connection:
            connection.query(query)
        if number % 500 == 0:
            say(f"  {number} open, {servers.resident_kib(server.pid) / 1024:,.0f} MiB resident")


def main():
    parser = servers.parser(__doc__, tenants=50)
    parser.add_argument("--tenants", type=int, default=2_000)
    arguments = servers.parse(parser)
    count = arguments.tenants
    with servers.folder("open-tenants") as folder:
        server = servers.Rowhouse(folder, ["--close-tenants-after", "86400", "--max-connections", "1000"])
        with servers.running(server):
            fresh = servers.resident_kib(server.pid)
            say(f"making {count} tenants with an empty schema")
            servers.bench(server, "tpcc", "--tenants", count, "--prefix", "open", "--schema-only")
            made = (servers.resident_kib(server.pid) - fresh) / count
        with servers.running(server):
            # Sessions, their stacks and buffers: once for all.
            open_all(server, 1, "select 1")
            time.sleep(1)
            closed = servers.resident_kib(server.pid)
            say(f"opening them; {closed / 1024:,.0f} MiB resident before")
            open_all(server, count, "select w_id from warehouse where w_id = 1")
            time.sleep(2)
            opened = (servers.resident_kib(server.pid) - closed) / count
            with server.connect() as connection:
                state = [row[2] for row in connection.query("show tenants")]
            assert state.count("open") >= count, f"only {state.count('open')} tenants are open"
    result = {"tenants": count, "kib_a_tenant": opened, "kib_a_tenant_when_made": made, "resident_before_kib": closed}
    rows = [
        ["resident memory an open tenant", f"{opened:,.1f} KiB{servers.met(opened, 256)}", "256 KiB"],
        ["the same in the process that made them", f"{made:,.1f} KiB", ""],
        ["before any was open", f"{closed / 1024:,.1f} MiB", ""],
    ]
    servers.finish(arguments, result, servers.table([f"{count:,} tenants, TPC-C's empty schema", "measured", "at most"], rows))


if __name__ == "__main__":
    main()
