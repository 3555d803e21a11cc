#!/usr/bin/env python3
"""Runs the scripts on a PostgreSQL 15 and writes what it answers beside them.

usage: expect.py CONNINFO   (an empty database that may be written to)
"""
import pathlib
import sys

import psycopg
from psycopg.pq import ExecStatus


def statements(text):
    current = ""
    for line in text.splitlines():
        if line.startswith("--") or not line.strip():
            continue
        current += line + "\n"
        if line.endswith(";"):
            yield current.rstrip().rstrip(";")
            current = ""


def type_name(conn, oid, modifier):
    query = b"SELECT format_type(%d, %d)" % (oid, modifier)
    return conn.pgconn.exec_(query).get_value(0, 0).decode()


def run(conn, text):
    out = []
    for sql in statements(text):
        out.append(sql + ";")
        result = conn.pgconn.exec_(sql.encode())
        if result.status == ExecStatus.FATAL_ERROR:
            state = result.error_field(ord("C")).decode()
            out.append(f"ERROR {state}: {result.error_field(ord('M')).decode()}")
            detail = result.error_field(ord("D"))
            if detail:
                out.append("DETAIL " + detail.decode())
        else:
            if result.nfields:
                columns = [
                    result.fname(i).decode() + ":" + type_name(conn, result.ftype(i), result.fmod(i))
                    for i in range(result.nfields)
                ]
                out.append("|".join(columns))
                rows = []
                for row in range(result.ntuples):
                    values = [result.get_value(row, i) for i in range(result.nfields)]
                    rows.append("|".join("NULL" if v is None else v.decode() for v in values))
                if "order by" not in sql.lower():
                    rows.sort(key=lambda row: row.encode())
                out.extend(rows)
            tag = result.command_status.decode()
            out.append("DONE" if tag.startswith("CREATE") else tag)
        out.append("")
    return "\n".join(out) + "\n"


def main():
    folder = pathlib.Path(__file__).parent / "scripts"
    for script in sorted(folder.glob("*.sql")):
        with psycopg.connect(sys.argv[1], autocommit=True) as conn:
            conn.execute("SET timezone = 'UTC'")
            conn.execute("SET client_min_messages = error")
            conn.execute("DROP SCHEMA public CASCADE")
            conn.execute("CREATE SCHEMA public")
            script.with_suffix(".out").write_text(run(conn, script.read_text()))


main()
