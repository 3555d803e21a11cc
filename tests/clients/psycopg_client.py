"""psycopg 3 against a server: values in text and binary, transactions, cursors, copy, errors, batches, pipelines.

Its one argument is the URL of an empty database.
"""

import datetime as dt
import enum
import sys
import uuid
from decimal import Decimal

import psycopg
import psycopg.types.enum
from psycopg import errors
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.json import Json, Jsonb

URL = sys.argv[1]

VALUES = [
    ("smallint", [0, -32768, 32767]),
    ("integer", [0, -(2**31), 2**31 - 1]),
    ("bigint", [0, -(2**63), 2**63 - 1]),
    ("real", [0.0, 1.5, -2.25, float("inf"), float("-inf")]),
    ("double precision", [0.1, -1e300, 5e-324, float("inf")]),
    ("numeric", [Decimal("0"), Decimal("1.10"), Decimal("-123456789012345678901234567890.123456789"), Decimal("0.0001"), Decimal("10000")]),
    ("numeric(12,2)", [Decimal("0.00"), Decimal("9999999999.99"), Decimal("-0.01")]),
    ("text", ["", "plain", "quote ' and \\ backslash", "naïve ☃ 𝄞", "tab\tand\nline"]),
    ("varchar(20)", ["", "twenty characters ok"]),
    ("boolean", [True, False]),
    ("date", [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    ("time", [dt.time(0, 0), dt.time(23, 59, 59, 999999)]),
    ("timestamp", [dt.datetime(1999, 12, 31, 23, 59, 59, 123456), dt.datetime(1970, 1, 1)]),
    ("timestamptz", [dt.datetime(2024, 7, 1, 12, 30, tzinfo=dt.timezone.utc), dt.datetime(1900, 1, 1, tzinfo=dt.timezone.utc)]),
    ("interval", [dt.timedelta(0), dt.timedelta(days=3, seconds=5, microseconds=7), dt.timedelta(days=-1)]),
    ("uuid", [uuid.UUID(int=0), uuid.UUID("12345678-1234-5678-1234-567812345678")]),
    ("bytea", [b"", b"\x00\xff\\'abc", bytes(range(256))]),
    ("integer[]", [[], [1, 2, 3], [None, -1]]),
    ("text[]", [["a", 'quote "', "comma,", None, ""], []]),
    ("numeric[]", [[Decimal("1.5"), None]]),
]


def round_trips(connection):
    for kind, values in VALUES:
        connection.execute("DROP TABLE IF EXISTS v")
        connection.execute(f"CREATE TABLE v (n integer PRIMARY KEY, v {kind})")
        for n, value in enumerate([*values, None]):
            for place in ("%s", "%b", "%t"):
                connection.execute("DELETE FROM v WHERE n = %s", (n,))
                connection.execute(f"INSERT INTO v VALUES (%s, {place})", (n, value))
                for binary in (False, True):
                    with connection.cursor(binary=binary) as cursor:
                        got = cursor.execute("SELECT v FROM v WHERE n = %s", (n,)).fetchone()[0]
                        assert got == value and type(got) is type(value), (kind, place, binary, value, got)
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                got = [row[0] for row in cursor.execute("SELECT v FROM v ORDER BY n").fetchall()]
                assert got == [*values, None], (kind, binary, got)
    document = {"a": [1, 2.5, None, "☃"], "b": {"c": True}}
    connection.execute("CREATE TABLE documents (id int PRIMARY KEY, j json, b jsonb)")
    connection.execute("INSERT INTO documents VALUES (1, %s, %s)", (Json(document), Jsonb(document)))
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            assert cursor.execute("SELECT j, b FROM documents").fetchone() == (document, document)
    row = connection.execute("SELECT b->>'a', b->'b'->>'c' FROM documents WHERE id = 1").fetchone()
    assert row[1] == "true", row


def enums(connection):
    class Mood(enum.Enum):
        sad = "sad"
        ok = "ok"

    connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    connection.execute("CREATE TABLE person (id int PRIMARY KEY, mood mood)")
    info = psycopg.types.enum.EnumInfo.fetch(connection, "mood")
    assert info is not None and list(info.labels) == ["sad", "ok"], info
    psycopg.types.enum.register_enum(info, connection, Mood)
    connection.execute("INSERT INTO person VALUES (1, %s), (2, 'sad')", (Mood.ok,))
    rows = connection.execute("SELECT mood FROM person ORDER BY mood").fetchall()
    assert rows == [(Mood.sad,), (Mood.ok,)], rows
    fails(errors.InvalidTextRepresentation, connection, "INSERT INTO person VALUES (3, 'angry')")


def fails(kind, connection, query, parameters=None):
    try:
        with connection.transaction():
            connection.execute(query, parameters)
    except kind as error:
        return error
    raise AssertionError(f"{query} did not fail with {kind.__name__}")


def failures(connection):
    connection.execute("CREATE TABLE parent (id int PRIMARY KEY)")
    connection.execute(
        "CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, n int CHECK (n > 0), t varchar(3) NOT NULL)"
    )
    connection.execute("INSERT INTO parent VALUES (1)")
    connection.execute("INSERT INTO child VALUES (1, 1, 1, 'abc')")
    error = fails(errors.UniqueViolation, connection, "INSERT INTO child VALUES (1, 1, 1, 'x')")
    assert error.sqlstate == "23505" and error.diag.constraint_name == "child_pkey", error.diag
    assert error.diag.message_detail == "Key (id)=(1) already exists.", error.diag.message_detail
    assert error.diag.table_name == "child" and error.diag.schema_name == "public"
    error = fails(errors.ForeignKeyViolation, connection, "INSERT INTO child VALUES (2, 9, 1, 'x')")
    assert error.diag.constraint_name == "child_parent_fkey"
    fails(errors.ForeignKeyViolation, connection, "DELETE FROM parent")
    error = fails(errors.CheckViolation, connection, "INSERT INTO child VALUES (2, 1, 0, 'x')")
    assert error.diag.constraint_name == "child_n_check"
    error = fails(errors.NotNullViolation, connection, "INSERT INTO child VALUES (2, 1, 1, NULL)")
    assert error.diag.column_name == "t"
    fails(errors.StringDataRightTruncation, connection, "INSERT INTO child VALUES (2, 1, 1, 'abcd')")
    fails(errors.NumericValueOutOfRange, connection, "SELECT 2147483647 + 1")
    fails(errors.NumericValueOutOfRange, connection, "INSERT INTO parent VALUES (%s)", (2**40,))
    fails(errors.DivisionByZero, connection, "SELECT 1 / 0")
    fails(errors.UndefinedTable, connection, "SELECT * FROM nothing")
    fails(errors.UndefinedColumn, connection, "SELECT nothing FROM parent")
    fails(errors.UndefinedFunction, connection, "SELECT nothing(1)")
    fails(errors.SyntaxError, connection, "SELECT FROM WHERE")
    fails(errors.InvalidTextRepresentation, connection, "SELECT 'x'::int")
    fails(errors.InvalidDatetimeFormat, connection, "SELECT 'x'::date")
    fails(errors.DatetimeFieldOverflow, connection, "SELECT '2023-02-30'::date")
    fails(errors.DuplicateTable, connection, "CREATE TABLE parent (id int)")
    fails(errors.AmbiguousColumn, connection, "SELECT id FROM parent, child")
    fails(errors.GroupingError, connection, "SELECT id, count(*) FROM parent")
    fails(errors.InvalidSavepointSpecification, connection, "ROLLBACK TO nothing")


def transactions():
    with psycopg.connect(URL) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.commit()
        connection.execute("INSERT INTO t VALUES (1)")
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
        with connection.transaction():
            connection.execute("INSERT INTO t VALUES (1)")
            try:
                with connection.transaction("inner"):
                    connection.execute("INSERT INTO t VALUES (2)")
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            with connection.transaction():
                connection.execute("INSERT INTO t VALUES (3)")
        assert connection.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (3,)]
        connection.commit()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        for level in (psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE):
            connection.isolation_level = level
            shown = connection.execute("SHOW transaction_isolation").fetchone()[0]
            assert shown == level.name.lower().replace("_", " "), shown
            with psycopg.connect(URL, autocommit=True) as other:
                before = connection.execute("SELECT count(*) FROM t").fetchone()
                other.execute("INSERT INTO t SELECT max(id) + 1 FROM t")
                assert connection.execute("SELECT count(*) FROM t").fetchone() == before
            connection.commit()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with psycopg.connect(URL, autocommit=True) as other:
            connection.execute("SELECT count(*) FROM t")
            other.execute("UPDATE t SET id = 1001 WHERE id = 1")
            try:
                connection.execute("UPDATE t SET id = 2001 WHERE id = 1")
                raise AssertionError("a lost update")
            except errors.SerializationFailure:
                connection.rollback()
        connection.isolation_level = None
        connection.read_only = True
        try:
            connection.execute("INSERT INTO t VALUES (50)")
            raise AssertionError("written in a read-only transaction")
        except errors.ReadOnlySqlTransaction:
            connection.rollback()


def cursors(connection):
    connection.execute("CREATE TABLE many (n int PRIMARY KEY, t text)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(n, f"row {n}") for n in range(1000)])
        assert cursor.rowcount == 1000, cursor.rowcount
        cursor.executemany("INSERT INTO many VALUES (%s, 'x') RETURNING n", [(n,) for n in (5000, 5001)], returning=True)
        first = cursor.fetchone()
        assert cursor.nextset()
        assert (first, cursor.fetchone()) == ((5000,), (5001,))
    connection.execute("DELETE FROM many WHERE n >= 5000")
    with connection.transaction():
        with connection.cursor(name="by_server") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT n FROM many WHERE n < %s ORDER BY n", (950,))
            assert cursor.fetchone() == (0,)
            assert [row[0] for row in cursor.fetchmany(5)] == [1, 2, 3, 4, 5]
            assert sum(1 for _ in cursor) == 944
        with connection.cursor(name="scrolls", scrollable=True, binary=True) as cursor:
            cursor.execute("SELECT n FROM many ORDER BY n")
            cursor.scroll(500, mode="absolute")
            assert cursor.fetchone() == (500,)
            cursor.scroll(-2)
            assert cursor.fetchone() == (499,)
    with connection.cursor(row_factory=dict_row) as cursor:
        assert cursor.execute("SELECT n, t FROM many WHERE n = 7").fetchone() == {"n": 7, "t": "row 7"}
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        assert cursor.execute("SELECT n AS number FROM many WHERE n = 7").fetchone().number == 7
    # The same statement often enough that psycopg prepares it.
    for n in range(10):
        assert connection.execute("SELECT t FROM many WHERE n = %s", (n,)).fetchone() == (f"row {n}",)
    assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0] >= 1
    for n in range(10):
        assert connection.execute("SELECT * FROM many WHERE n = %s", (n,)).fetchone() == (n, f"row {n}")
    connection.execute("ALTER TABLE many ADD COLUMN extra int")
    for n in range(10):
        assert connection.execute("SELECT t FROM many WHERE n = %s", (n,)).fetchone() == (f"row {n}",)
    fails(errors.FeatureNotSupported, connection, "SELECT * FROM many WHERE n = %s", (1,))


def copies(connection):
    connection.execute("CREATE TABLE c (id int, at timestamp, note text, amount numeric)")
    rows = [(n, dt.datetime(2024, 1, 1, n % 24), None if n % 5 == 0 else f"note\t{n}\\", Decimal(n) / 4) for n in range(500)]
    for options, types in (("", None), (" (FORMAT BINARY)", ["int4", "timestamp", "text", "numeric"])):
        connection.execute("TRUNCATE c")
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY c (id, at, note, amount) FROM STDIN{options}") as copy:
                if types:
                    copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
            assert cursor.rowcount == 500
            with cursor.copy(f"COPY (SELECT * FROM c ORDER BY id) TO STDOUT{options}") as copy:
                copy.set_types(["int4", "timestamp", "text", "numeric"])
                assert list(copy.rows()) == rows
    try:
        with connection.cursor() as cursor, cursor.copy("COPY c FROM STDIN") as copy:
            copy.write_row((1, None, None, None))
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert connection.execute("SELECT count(*) FROM c").fetchone() == (500,)


def pipelines():
    with psycopg.connect(URL) as connection:
        connection.execute("CREATE TABLE p (id int PRIMARY KEY)")
        connection.commit()
        with connection.pipeline():
            for n in range(100):
                connection.execute("INSERT INTO p VALUES (%s)", (n,))
            cursor = connection.execute("SELECT count(*) FROM p")
        assert cursor.fetchone() == (100,)
        connection.commit()
        try:
            with connection.pipeline():
                connection.execute("INSERT INTO p VALUES (200)")
                connection.execute("INSERT INTO p VALUES (1)")
                connection.execute("INSERT INTO p VALUES (201)")
            raise AssertionError("a duplicate in a pipeline passed")
        except errors.UniqueViolation:
            connection.rollback()
        assert connection.execute("SELECT count(*) FROM p").fetchone() == (100,)


def settings():
    with psycopg.connect(URL, options="-c statement_timeout=123456 -c TimeZone=Asia/Kolkata", application_name="round trip") as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("123456ms",)
        assert connection.info.parameter_status("TimeZone") == "Asia/Kolkata"
        assert connection.info.parameter_status("application_name") == "round trip"
        assert connection.info.parameter_status("server_encoding") == "UTF8"
        assert connection.info.server_version >= 150000
        shown = connection.execute("SELECT '2024-01-01 00:00+00'::timestamptz::text").fetchone()
        assert shown == ("2024-01-01 05:30:00+05:30",), shown
        name = connection.execute("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchone()
        assert name == ("round trip",), name
        young = connection.execute("SELECT pg_postmaster_start_time() BETWEEN now() - interval '1 hour' AND now()").fetchone()
        assert young == (True,), young
        (places,) = connection.execute("SELECT setting::int FROM pg_settings WHERE name = 'max_connections'").fetchone()
        assert connection.execute("SHOW max_connections").fetchone() == (str(places),) and places > 0, places
        connection.execute("SET TIME ZONE 'UTC'")
        assert connection.info.parameter_status("TimeZone") == "UTC"
        connection.rollback()
        assert connection.info.parameter_status("TimeZone") == "Asia/Kolkata"


def notices(connection):
    heard = []
    connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary))
    connection.execute("DROP TABLE IF EXISTS nothing_here")
    assert heard == ['table "nothing_here" does not exist, skipping'], heard


def passwords(connection):
    """Which form a password is to have the server is asked, as psql's `\\password` and `createuser --pwprompt` do."""
    hashed = connection.pgconn.encrypt_password(b"secret", b"somebody")
    assert hashed.startswith(b"SCRAM-SHA-256$"), hashed


def main():
    with psycopg.connect(URL, autocommit=True) as connection:
        # `v` changes its type all the time, which a prepared statement would not take.
        connection.prepare_threshold = None
        round_trips(connection)
        connection.prepare_threshold = 5
        enums(connection)
        failures(connection)
        cursors(connection)
        copies(connection)
        notices(connection)
        passwords(connection)
    transactions()
    pipelines()
    settings()


main()
