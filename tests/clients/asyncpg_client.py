"""asyncpg against a server: its introspection of types, prepared statements, transactions, cursors, copy.

Its one argument is the URL of an empty database.
"""

import asyncio
import datetime as dt
import io
import sys
import uuid
from decimal import Decimal

import asyncpg

URL = sys.argv[1]


async def values(connection):
    await connection.execute(
        """CREATE TABLE v (id serial PRIMARY KEY, i int, b bigint, s smallint, f double precision, n numeric(20,5), t text,
           ok bool, d date, at timestamp, tz timestamptz, every interval, u uuid, raw bytea, j jsonb, list int[], names text[])"""
    )
    row = (
        -5, 2**62, 7, 0.1, Decimal("12345.67890"), "naïve ☃", True, dt.date(2024, 2, 29), dt.datetime(2024, 1, 2, 3, 4, 5, 6),
        dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc), dt.timedelta(days=1, microseconds=3), uuid.uuid4(), b"\x00\xff",
        '{"a": 1}', [1, None, 3], ["a", 'b"c', None],
    )
    places = ", ".join(f"${n}" for n in range(1, len(row) + 1))
    columns = "i, b, s, f, n, t, ok, d, at, tz, every, u, raw, j, list, names"
    number = await connection.fetchval(f"INSERT INTO v ({columns}) VALUES ({places}) RETURNING id", *row)
    assert number == 1
    got = await connection.fetchrow(f"SELECT {columns} FROM v WHERE id = $1", number)
    assert tuple(got) == row, tuple(got)
    await connection.execute(f"INSERT INTO v ({columns}) VALUES ({places})", *[None] * len(row))
    assert set((await connection.fetchrow(f"SELECT {columns} FROM v WHERE id = 2")).values()) == {None}


async def introspection(connection):
    await connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    await connection.execute("CREATE TABLE p (id int PRIMARY KEY, m mood, ms mood[])")
    await connection.execute("INSERT INTO p VALUES ($1, $2, $3)", 1, "ok", ["sad", "ok"])
    row = await connection.fetchrow("SELECT m, ms FROM p WHERE id = 1")
    assert tuple(row) == ("ok", ["sad", "ok"]), row
    await connection.set_type_codec("jsonb", encoder=str, decoder=lambda text: text, schema="pg_catalog")
    statement = await connection.prepare("SELECT id, m FROM p WHERE id = $1")
    assert [p.name for p in statement.get_parameters()] == ["int4"]
    assert [(a.name, a.type.name) for a in statement.get_attributes()] == [("id", "int4"), ("m", "mood")]
    assert await statement.fetchval(1, column=1) == "ok"
    assert (await connection.fetchval("SELECT version()")).startswith("PostgreSQL 15")
    version = connection.get_server_version()
    assert version.major >= 15, version


async def transactions(connection):
    await connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    async with connection.transaction():
        await connection.execute("INSERT INTO t VALUES (1)")
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO t VALUES (2)")
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    assert [row["id"] for row in await connection.fetch("SELECT id FROM t")] == [1]
    try:
        await connection.execute("INSERT INTO t VALUES (1)")
        raise AssertionError("a duplicate passed")
    except asyncpg.UniqueViolationError as error:
        assert error.constraint_name == "t_pkey" and error.sqlstate == "23505"
    for isolation in ("read_committed", "repeatable_read", "serializable"):
        async with connection.transaction(isolation=isolation, readonly=True):
            assert await connection.fetchval("SHOW transaction_isolation") == isolation.replace("_", " ")
            try:
                async with connection.transaction():
                    await connection.execute("DELETE FROM t")
                raise AssertionError("written in a read-only transaction")
            except asyncpg.ReadOnlySQLTransactionError:
                pass
    await connection.executemany("INSERT INTO t VALUES ($1)", [(n,) for n in range(100, 1100)])
    async with connection.transaction():
        seen = [row["id"] async for row in connection.cursor("SELECT id FROM t WHERE id >= $1 ORDER BY id", 100, prefetch=64)]
        assert seen == list(range(100, 1100))
        cursor = await connection.cursor("SELECT id FROM t ORDER BY id")
        assert (await cursor.fetchrow())["id"] == 1
        assert [row["id"] for row in await cursor.fetch(3)] == [100, 101, 102]
        await cursor.forward(2)
        assert (await cursor.fetchrow())["id"] == 105
    # The executemany that fails leaves nothing.
    try:
        await connection.executemany("INSERT INTO t VALUES ($1)", [(5000,), (1,)])
        raise AssertionError("a duplicate passed")
    except asyncpg.UniqueViolationError:
        pass
    assert await connection.fetchval("SELECT count(*) FROM t WHERE id = 5000") == 0


async def copies(connection):
    await connection.execute("CREATE TABLE c (id int, note text, amount numeric)")
    records = [(n, None if n % 7 == 0 else f"note {n}", Decimal(n) / 8) for n in range(1000)]
    assert await connection.copy_records_to_table("c", records=records) == "COPY 1000"
    got = await connection.fetch("SELECT * FROM c ORDER BY id")
    assert [tuple(row) for row in got] == records
    out = io.BytesIO()
    assert await connection.copy_from_query("SELECT * FROM c WHERE id < $1", 10, output=out, format="csv") == "COPY 10"
    assert out.getvalue().decode().splitlines()[1] == "1,note 1,0.125", out.getvalue()
    out.seek(0)
    assert await connection.copy_to_table("c", source=out, format="csv") == "COPY 10"


async def pool_and_cancel():
    async with asyncpg.create_pool(URL, min_size=2, max_size=5) as pool:
        results = await asyncio.gather(*(pool.fetchval("SELECT $1::int + count(*) FROM t", n) for n in range(20)))
        assert [r - results[0] for r in results] == list(range(20))
        async with pool.acquire() as connection:
            try:
                await connection.execute("SELECT pg_sleep(30)", timeout=0.3)
                raise AssertionError("a statement outlived its timeout")
            except asyncio.TimeoutError:
                pass
            assert await connection.fetchval("SELECT 1") == 1


async def main():
    connection = await asyncpg.connect(URL, server_settings={"application_name": "asyncpg test"})
    await values(connection)
    await introspection(connection)
    await transactions(connection)
    await copies(connection)
    await connection.reset()
    await connection.close()
    await pool_and_cancel()
    connection = await asyncpg.connect(URL, ssl="require")
    assert await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") is True
    await connection.close()


asyncio.run(main())
