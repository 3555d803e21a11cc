//! What monitoring and administration tools read of the system's tables.

#[allow(dead_code, reason = "what only other tests use")]
mod support;

use base::SqlState;
use support::Sample;

#[test]
fn settings_have_types_units_and_bounds() {
    let columns = "name, setting, unit, context, vartype, source, min_val, max_val, enumvals, boot_val";
    let sql = format!("select {columns} from pg_settings where name !~ 'server|tablespace' order by name");
    let expected = "default_table_access_method|heap|∅|user|enum|default|∅|∅|{heap}|heap
jit|off|∅|user|bool|default|∅|∅|∅|off
lock_timeout|90000|ms|user|integer|session|0|2147483647|∅|0
my.own|1|∅|user|string|session|∅|∅|∅|∅
work_mem|4096|kB|user|integer|default|64|2147483647|∅|4096
";
    assert_eq!(Sample::new().text(&sql).unwrap(), expected);
}

/// Power BI asks for the first of these when it connects.
#[test]
fn the_standards_views_of_character_sets_and_columns_have_rows() {
    let mut sample = Sample::new();
    let mut asked = |sql: &str| sample.text(sql).unwrap();
    let sets = asked("select character_set_name from INFORMATION_SCHEMA.character_sets");
    assert_eq!(sets, "UTF8\n");
    let collations = asked("select collation_name from information_schema.collations order by 1");
    assert_eq!(collations, "C\nPOSIX\ndefault\n");
    let granted = asked(
        "select column_name, privilege_type, is_grantable from information_schema.role_column_grants \
         where table_name = 'parent' and column_name in ('id', 'price') order by 1, 2",
    );
    let of = |column: &str| {
        ["INSERT", "REFERENCES", "SELECT", "UPDATE"].map(|word| format!("{column}|{word}|YES\n")).concat()
    };
    assert_eq!(granted, of("id") + &of("price"));
    let of_views = asked("select count(*) from information_schema.column_privileges where table_name = 'v'");
    assert_eq!(of_views, "12\n");
}

#[test]
fn no_password_is_shown_that_a_copy_of_the_roles_would_have() {
    let mut sample = Sample::new();
    let copied = sample.text("select count(*) > 0, count(rolpassword) from pg_authid").unwrap();
    assert_eq!(copied, "t|0\n");
    let shown = sample.text("select distinct rolpassword from pg_roles").unwrap();
    assert_eq!(shown, "********\n");
}

#[test]
fn what_exporters_collect_has_the_rows_that_they_wait_for() {
    let mut sample = Sample::new();
    for (sql, expected) in [
        ("select checkpoints_timed, buffers_alloc, stats_reset from pg_stat_bgwriter", "∅|∅|∅\n"),
        ("select wal_records, wal_bytes from pg_stat_wal", "∅|∅\n"),
        (
            "select archived_count, extract(epoch from now() - last_archived_time) from pg_stat_archiver",
            "0|∅\n",
        ),
        ("select datname, confl_lock + confl_snapshot from pg_stat_database_conflicts", "postgres|0\n"),
        (
            "select indexrelname, idx_blks_hit from pg_statio_user_indexes where relname = 'parent'",
            "parent_pkey|∅\n",
        ),
        ("select count(*) from pg_stats where most_common_vals is null", "0\n"),
        ("select count(*) from pg_stat_user_functions", "0\n"),
        (
            "select case when not pg_is_in_recovery() then 0 \
             when pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0 \
             else greatest(0, extract(epoch from (now() - pg_last_xact_replay_timestamp()))) end",
            "0\n",
        ),
    ] {
        assert_eq!(sample.text(sql).unwrap(), expected, "{sql}");
    }
}

#[test]
fn when_the_server_began_is_told_in_from_too() {
    let mut sample = Sample::new();
    for sql in [
        "select extract(epoch from pg_postmaster_start_time())::bigint",
        "select extract(epoch from pg_postmaster_start_time)::bigint from pg_postmaster_start_time()",
        "select round(extract(epoch from pg_catalog.pg_conf_load_time() at time zone 'UTC'))",
    ] {
        // A day after 2000-01-01.
        assert_eq!(sample.text(sql).unwrap(), "946771200\n", "{sql}");
    }
}

/// As Atlas and JetBrains' tools look at indexes.
#[test]
fn columns_of_indexes_have_operator_classes_and_properties() {
    let mut sample = Sample::new();
    for position in [6, 7] {
        sample.add_index("child", position);
    }
    let classes = "select o.opcname, o.opcdefault from pg_index x join pg_opclass o on o.oid = x.indclass[0] \
                   where x.indrelid = 'child'::regclass order by 1";
    let expected = "array_ops|t\nenum_ops|t\nint4_ops|t\nint8_ops|t\ntext_ops|t\nuuid_ops|t\n";
    assert_eq!(sample.text(classes).unwrap(), expected);
    let has = |word: &str| format!("pg_index_column_has_property('child_tag'::regclass, n, '{word}')");
    let words = ["asc", "DESC", "nulls_first", "nulls_last", "orderable", "nonsense"].map(has).join(", ");
    let columns = format!("select n, {words} from generate_series(1, 3) as s(n) order by n");
    let expected = "1|t|f|f|t|t|∅\n2|f|t|t|f|t|∅\n3|∅|∅|∅|∅|∅|∅\n";
    assert_eq!(sample.text(&columns).unwrap(), expected);
    let methods = "select a.amname, pg_indexam_has_property(a.oid, 'can_order') from pg_am a order by 1";
    assert_eq!(sample.text(methods).unwrap(), "btree|t\nheap|∅\n");
    let index =
        "select pg_index_has_property(r, 'index_scan') from (values ('child_tag'), ('child')) as s(r)";
    assert_eq!(sample.text(index).unwrap(), "t\n∅\n");
    let in_from = "select c.relname, o from pg_class c \
                   cross join pg_catalog.pg_indexam_has_property(c.relam, 'can_order') o \
                   where c.relname = 'child_tag'";
    assert_eq!(sample.text(in_from).unwrap(), "child_tag|t\n");
}

/// JetBrains' tools ask for the objects that have changed by the transactions that made them.
#[test]
fn rows_of_the_catalog_have_the_number_of_a_commit() {
    let mut sample = Sample::new();
    let numbered = "select n.xmin::text <> '0', age(n.xmin), c.xmin = n.xmin from pg_namespace n \
                    join pg_class c on c.relnamespace = n.oid where c.relname = 'child'";
    assert_eq!(sample.text(numbered).unwrap(), "t|0|t\n");
    let changed = "select count(*) from pg_class where relname = 'child' and pg_catalog.age(xmin) \
                   <= coalesce(nullif(greatest(pg_catalog.age('7'::varchar::xid), -1), -1), 2147483647)";
    assert_eq!(sample.text(changed).unwrap(), "1\n");
    let mut columns = |table: &str| {
        let (fields, _) = sample.query(&format!("select * from {table}")).unwrap();
        fields.iter().map(|field| field.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(columns("pg_am"), ["oid", "amname", "amhandler", "amtype"]);
    assert!(columns("pg_replication_slots").contains(&"xmin".to_owned()), "a column of its own");
    let counted = sample.text("select relnatts from pg_class where relname = 'pg_am'").unwrap();
    assert_eq!(counted, "4\n");
}

#[test]
fn the_size_of_a_database_is_known_in_it_alone() {
    let mut sample = Sample::new();
    let sizes = "select pg_database_size('postgres') > 0, pg_database_size(1::oid)";
    assert_eq!(sample.text(sizes).unwrap(), "t|∅\n");
    let error = sample.text("select pg_database_size('nowhere')").unwrap_err();
    assert_eq!(error.state(), SqlState::INVALID_CATALOG_NAME);
    assert_eq!(error.message(), "database \"nowhere\" does not exist");
}
