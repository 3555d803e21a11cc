import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/**
 * The PostgreSQL JDBC driver against a server: java -cp DRIVER.jar JdbcClient.java URL USER PASSWORD
 * The database must have no other tables; those of an earlier run are dropped first.
 */
public final class JdbcClient {
    private static int checks = 0;

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0], arguments[1], arguments[2])) {
            for (String table : List.of("child", "t", "v", "c")) {
                run(connection, "DROP TABLE IF EXISTS " + table);
            }
            values(connection);
            transactions(connection);
            batches(connection);
            cursors(connection);
            metadata(connection);
            copies(connection);
            errors(connection);
        }
        try (Connection connection = DriverManager.getConnection(arguments[0] + "?sslmode=require", arguments[1], arguments[2])) {
            equal(1, scalar(connection, "SELECT 1"));
        }
        System.out.println(checks + " checks passed");
    }

    private static void equal(Object expected, Object found) {
        checks++;
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static Object scalar(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getObject(1);
        }
    }

    private static void run(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    private static void values(Connection connection) throws SQLException {
        run(connection, "CREATE TABLE v (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, i int, s smallint, t text, n numeric(12,2), "
            + "f double precision, ok boolean, d date, at timestamp, tz timestamptz, u uuid, raw bytea, list int[], j jsonb)");
        UUID token = UUID.randomUUID();
        OffsetDateTime zoned = OffsetDateTime.of(2024, 7, 1, 12, 0, 0, 0, ZoneOffset.UTC);
        String insert = "INSERT INTO v (i, s, t, n, f, ok, d, at, tz, u, raw, list, j) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?::jsonb)";
        try (PreparedStatement statement = connection.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            // More often than the driver's threshold, so that it goes over to a named statement and binary transfer.
            for (int n = 1; n <= 12; n++) {
                statement.setInt(1, n);
                statement.setShort(2, (short) -n);
                statement.setString(3, "text ☃ " + n);
                statement.setBigDecimal(4, new BigDecimal("10.25"));
                statement.setDouble(5, n / 4.0);
                statement.setBoolean(6, n % 2 == 0);
                statement.setObject(7, LocalDate.of(2024, 2, 29));
                statement.setObject(8, LocalDateTime.of(2024, 1, 2, 3, 4, 5));
                statement.setObject(9, zoned);
                statement.setObject(10, token);
                statement.setBytes(11, new byte[] {0, -1, (byte) n});
                statement.setArray(12, connection.createArrayOf("int4", new Integer[] {n, null}));
                statement.setString(13, "{\"n\": " + n + "}");
                equal(1, statement.executeUpdate());
                try (ResultSet keys = statement.getGeneratedKeys()) {
                    keys.next();
                    equal((long) n, keys.getLong("id"));
                }
            }
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM v WHERE id = ?")) {
            for (long n = 1; n <= 12; n++) {
                statement.setLong(1, n);
                try (ResultSet row = statement.executeQuery()) {
                    equal(true, row.next());
                    equal((int) n, row.getInt("i"));
                    equal((short) -n, row.getShort("s"));
                    equal("text ☃ " + n, row.getString("t"));
                    equal(new BigDecimal("10.25"), row.getBigDecimal("n"));
                    equal(n / 4.0, row.getDouble("f"));
                    equal(n % 2 == 0, row.getBoolean("ok"));
                    equal(LocalDate.of(2024, 2, 29), row.getObject("d", LocalDate.class));
                    equal(LocalDateTime.of(2024, 1, 2, 3, 4, 5), row.getObject("at", LocalDateTime.class));
                    equal(zoned.toInstant(), row.getObject("tz", OffsetDateTime.class).toInstant());
                    equal(token, row.getObject("u"));
                    equal(List.of((byte) 0, (byte) -1, (byte) n), List.of(row.getBytes("raw")[0], row.getBytes("raw")[1], row.getBytes("raw")[2]));
                    equal(Arrays.asList((int) n, null), Arrays.asList((Integer[]) row.getArray("list").getArray()));
                    equal("{\"n\": " + n + "}", row.getString("j"));
                    equal(false, row.next());
                }
            }
        }
    }

    private static void transactions(Connection connection) throws SQLException {
        run(connection, "CREATE TABLE t (id int PRIMARY KEY, n int)");
        connection.setAutoCommit(false);
        run(connection, "INSERT INTO t VALUES (1, 0)");
        Savepoint point = connection.setSavepoint("point");
        run(connection, "INSERT INTO t VALUES (2, 0)");
        connection.rollback(point);
        connection.commit();
        equal(1L, scalar(connection, "SELECT count(*) FROM t"));
        connection.rollback();
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        equal("serializable", scalar(connection, "SHOW transaction_isolation"));
        connection.rollback();
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        connection.setAutoCommit(true);
    }

    private static void batches(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO t VALUES (?, ?)")) {
            for (int n = 100; n < 1100; n++) {
                statement.setInt(1, n);
                statement.setInt(2, n);
                statement.addBatch();
            }
            equal(1000, statement.executeBatch().length);
        }
        equal(1001L, scalar(connection, "SELECT count(*) FROM t"));
    }

    private static void cursors(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM t ORDER BY id")) {
            statement.setFetchSize(64);
            int count = 0;
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    count++;
                }
            }
            equal(1001, count);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }

    private static void metadata(Connection connection) throws SQLException {
        run(connection, "CREATE TABLE child (id int PRIMARY KEY, parent int NOT NULL REFERENCES t (id) ON DELETE CASCADE, name varchar(7))");
        run(connection, "CREATE INDEX child_by_name ON child (name)");
        DatabaseMetaData meta = connection.getMetaData();
        equal("PostgreSQL", meta.getDatabaseProductName());
        Set<String> tables = new TreeSet<>();
        try (ResultSet rows = meta.getTables(null, "public", "%", new String[] {"TABLE"})) {
            while (rows.next()) {
                tables.add(rows.getString("TABLE_NAME"));
            }
        }
        equal(Set.of("v", "t", "child"), tables);
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = meta.getColumns(null, "public", "child", "%")) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " " + rows.getInt("COLUMN_SIZE") + " " + rows.getInt("NULLABLE"));
            }
        }
        equal(List.of("id int4 10 0", "parent int4 10 0", "name varchar 7 1"), columns);
        try (ResultSet rows = meta.getPrimaryKeys(null, "public", "child")) {
            equal(true, rows.next());
            equal("id", rows.getString("COLUMN_NAME"));
            equal("child_pkey", rows.getString("PK_NAME"));
        }
        try (ResultSet rows = meta.getImportedKeys(null, "public", "child")) {
            equal(true, rows.next());
            equal("t", rows.getString("PKTABLE_NAME"));
            equal("parent", rows.getString("FKCOLUMN_NAME"));
            equal((short) DatabaseMetaData.importedKeyCascade, rows.getShort("DELETE_RULE"));
        }
        Set<String> indexes = new TreeSet<>();
        try (ResultSet rows = meta.getIndexInfo(null, "public", "child", false, false)) {
            while (rows.next()) {
                indexes.add(rows.getString("INDEX_NAME") + " " + rows.getBoolean("NON_UNIQUE"));
            }
        }
        equal(Set.of("child_by_name true", "child_pkey false"), indexes);
        try (ResultSet rows = meta.getSchemas()) {
            Set<String> schemas = new TreeSet<>();
            while (rows.next()) {
                schemas.add(rows.getString(1));
            }
            equal(true, schemas.containsAll(Set.of("public", "pg_catalog", "information_schema")));
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT id, name, sum(parent) AS total FROM child GROUP BY id, name")) {
            ResultSetMetaData result = statement.getMetaData();
            equal("int4 varchar int8", result.getColumnTypeName(1) + " " + result.getColumnTypeName(2) + " " + result.getColumnTypeName(3));
            equal("total", result.getColumnLabel(3));
        }
    }

    private static void copies(Connection connection) throws Exception {
        CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
        run(connection, "CREATE TABLE c (id int, note text)");
        equal(2L, copy.copyIn("COPY c FROM STDIN", new java.io.StringReader("1\tone\n2\t\\N\n")));
        java.io.StringWriter out = new java.io.StringWriter();
        equal(2L, copy.copyOut("COPY c TO STDOUT (FORMAT csv)", out));
        equal("1,one\n2,\n", out.toString());
    }

    private static void errors(Connection connection) throws SQLException {
        for (String[] pair : new String[][] {
            {"INSERT INTO t VALUES (1, 1)", "23505"}, {"SELECT 1/0", "22012"}, {"SELECT * FROM nothing", "42P01"},
            {"INSERT INTO child VALUES (1, 999999, 'x')", "23503"}, {"SELEC", "42601"}}) {
            try {
                run(connection, pair[0]);
                throw new AssertionError(pair[0] + " should fail");
            } catch (SQLException error) {
                equal(pair[1], error.getSQLState());
            }
        }
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.execute("SELECT pg_sleep(30)");
            throw new AssertionError("a statement outlived its timeout");
        } catch (SQLException error) {
            equal("57014", error.getSQLState());
        }
        equal(1, scalar(connection, "SELECT 1"));
    }
}
