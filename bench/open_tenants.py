#!/usr/bin/env python3
"""Memory of an open tenant with TPC-C's empty schema: nine tables, their primary keys, two further indexes.

Makes the tenants and their schema, starts the server anew, so that nothing is counted that only making them took, opens
each by one session that runs one query and leaves, and takes the growth of the resident set (VmRSS) by the tenant. The
first twentieth is opened before the growth is counted: by then the allocator has given back what the start took. The floor:
256 KiB.
"""

import time

import servers
from servers import say


def open_all(server, numbers, query):
    for number in numbers:
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
            query, first = "select w_id from warehouse where w_id = 1", max(1, count // 20)
            open_all(server, range(1, first + 1), query)
            time.sleep(2)
            before = servers.resident_kib(server.pid)
            say(f"opening them; {before / 1024:,.0f} MiB resident with {first}")
            open_all(server, range(first + 1, count + 1), query)
            time.sleep(2)
            opened = (servers.resident_kib(server.pid) - before) / (count - first)
            with server.connect() as connection:
                state = [row[2] for row in connection.query("show tenants")]
            assert state.count("open") >= count, f"only {state.count('open')} tenants are open"
    result = {"tenants": count, "kib_a_tenant": opened, "kib_a_tenant_when_made": made, "resident_before_kib": before}
    rows = [
        ["resident memory an open tenant", f"{opened:,.1f} KiB{servers.met(opened, 256)}", "256 KiB"],
        ["the same in the process that made them", f"{made:,.1f} KiB", ""],
        [f"of the process, {first} of them open", f"{before / 1024:,.1f} MiB", ""],
    ]
    servers.finish(arguments, result, servers.table([f"{count:,} tenants, TPC-C's empty schema", "measured", "at most"], rows))


if __name__ == "__main__":
    main()
