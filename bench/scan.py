#!/usr/bin/env python3
"""How fast an analytical query takes a resident table into Arrow arrays on one core.

The table is the one of `cargo bench -p btree`: 500,000 rows of about 300 bytes, by default of eight columns. The query counts
the values of every column, so that all of them are read into arrays and next to nothing is done with these; what it takes is
the scan, beginning of the statement and reply included. `select count(*)`, which reads no column, is printed beside it. The
bytes are those of the stored rows, as `rowhouse verify` counts them: the values' own, three bytes of NULL bits and length,
and two for each text.

The floor: at least 1 GB/s a core.
"""

import time

import servers

ROWS = 500_000
COLUMNS = {
    "id bigint primary key": 8, "a int not null": 4, "b bigint not null": 8, "c double precision not null": 8,
    "d timestamp not null": 8, "e text not null": 82, "f text not null": 82, "g text not null": 91,
}
TEXTS = 3


def main():
    parser = servers.parser(__doc__, runs=3, rows=20_000)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--rows", type=int, default=ROWS)
    arguments = servers.parse(parser)
    row_bytes = 2 + 1 + sum(COLUMNS.values()) + 2 * TEXTS
    seconds = {"no column": [], "all columns": []}
    names = [column.split()[0] for column in COLUMNS]
    with servers.folder("scan") as folder, servers.running(servers.Rowhouse(folder)) as server:
        if not server.is_analytic():
            raise SystemExit("this build has no analytical path")
        with server.connect() as administrator:
            administrator.query(server.create("scan"))
        connection = server.connect("scan", timeout=600.0)
        connection.query(f"create table r ({', '.join(COLUMNS)})")
        servers.say("loading")
        for first in range(0, arguments.rows, 10_000):
            connection.query(
                "insert into r select i, i % 1000, i * 7, i * 0.5, timestamp '2026-01-01' + i * interval '1 second',"
                " repeat(chr(97 + i % 26), 82), repeat(chr(65 + i % 26), 82), repeat('x', 91)"
                f" from generate_series({first}, {min(first + 10_000, arguments.rows) - 1}) g(i)"
            )
        queries = {
            "no column": "select count(*), max(1) from r",
            "all columns": f"select {', '.join(f'count({name})' for name in names)} from r",
        }
        for run in range(arguments.runs + 1):
            for name, query in queries.items():
                began = time.monotonic()
                connection.query(query)
                if run:
                    seconds[name].append(time.monotonic() - began)
        connection.close()
    taken = {name: servers.median(values) for name, values in seconds.items()}
    rate = arguments.rows * row_bytes / taken["all columns"] / 1e9
    rows = [
        [name, f"{1e3 * taken[name]:.1f} ms ({1e3 * min(values):.1f} to {1e3 * max(values):.1f})",
         f"{1e9 * taken[name] / arguments.rows:.0f} ns"]
        for name, values in seconds.items()
    ]
    rows.append(["bytes of rows a second, all columns", f"{rate:.2f} GB/s" + ("" if rate >= 1 else " **missed**"), ""])
    head = [f"{arguments.rows:,} rows of {row_bytes} bytes, medians of {arguments.runs}", "a query", "a row"]
    result = {"rows": arguments.rows, "row_bytes": row_bytes, "seconds": seconds, "gb_per_second": rate}
    servers.finish(arguments, result, servers.table(head, rows))


if __name__ == "__main__":
    main()
