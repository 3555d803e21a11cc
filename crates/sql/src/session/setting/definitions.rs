//! Which settings there are: the name of each, its default, what it takes and what is said of it.

use super::{Definition, Kind, def, of_transaction, read_only, reported};

const ISOLATION: Kind =
    Kind::OneOf(&["read uncommitted", "read committed", "repeatable read", "serializable"]);
const MESSAGE_LEVELS: Kind = Kind::OneOf(&[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning", "error",
]);

/// The PostgreSQL release whose behaviour we take as the measure.
pub const SERVER_VERSION: &str = "15.8 (Rowhouse)";
const SERVER_VERSION_NUM: &str = "150008";

macro_rules! settings {
    ($($id:ident = $definition:expr;)*) => {
        /// Index of each setting that code asks for by name.
        #[allow(non_camel_case_types, dead_code, reason = "one for each setting, by the setting's own name; few are asked for by code")]
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(in crate::session) enum Id { $($id),* }
        pub(super) static DEFINITIONS: &[Definition] = &[$($definition),*];
    };
}

settings! {
    application_name = reported(def("application_name", "", Kind::Text, "Name of the client's application."));
    bytea_output = def("bytea_output", "hex", Kind::OneOf(&["hex", "escape"]), "Text form of bytea.");
    check_function_bodies = def("check_function_bodies", "on", Kind::Bool, "Has no effect: there are no functions.");
    client_encoding = reported(def("client_encoding", "UTF8", Kind::Encoding, "Encoding of the client; UTF8 only."));
    client_min_messages = def("client_min_messages", "notice", MESSAGE_LEVELS, "Least severity of notices sent.");
    date_style = reported(def("DateStyle", "ISO, MDY", Kind::DateStyle, "Form of dates and order of their fields."));
    default_tablespace = def("default_tablespace", "", Kind::Text, "Must be empty.");
    default_table_access_method = def("default_table_access_method", "heap", Kind::OneOf(&["heap"]), "Storage of new tables.");
    default_transaction_deferrable = def("default_transaction_deferrable", "off", Kind::Bool, "Has no effect: any snapshot is a safe one. Shown of new transactions.");
    default_transaction_isolation = def("default_transaction_isolation", "read committed", ISOLATION, "Isolation of new transactions.");
    default_transaction_read_only = reported(def("default_transaction_read_only", "off", Kind::Bool, "Whether new transactions may not write."));
    default_with_oids = def("default_with_oids", "off", Kind::OneOf(&["off"]), "Must be off: rows have no numbers of their own.");
    extra_float_digits = def("extra_float_digits", "1", Kind::Integer(-15, 3), "Digits of floating-point text.");
    idle_in_transaction_session_timeout = def("idle_in_transaction_session_timeout", "0", Kind::Duration, "Longest idle time within a transaction.");
    idle_session_timeout = def("idle_session_timeout", "0", Kind::Duration, "Longest idle time outside a transaction.");
    in_hot_standby = read_only(reported(def("in_hot_standby", "off", Kind::Bool, "Whether this is a standby.")));
    integer_datetimes = read_only(reported(def("integer_datetimes", "on", Kind::Bool, "Times are integers.")));
    interval_style = reported(def("IntervalStyle", "postgres", Kind::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]), "Text form of intervals."));
    is_superuser = read_only(reported(def("is_superuser", "off", Kind::Bool, "Whether the current role is a superuser.")));
    jit = def("jit", "off", Kind::Bool, "Has no effect.");
    lc_collate = read_only(def("lc_collate", "C.UTF-8", Kind::Text, "Collation: bytes of UTF-8."));
    lc_ctype = read_only(def("lc_ctype", "C.UTF-8", Kind::Text, "Character classes."));
    lc_messages = def("lc_messages", "C", Kind::Text, "Has no effect: messages are English.");
    lc_monetary = def("lc_monetary", "C", Kind::Text, "Has no effect.");
    lc_numeric = def("lc_numeric", "C", Kind::Text, "Has no effect.");
    lc_time = def("lc_time", "C", Kind::Text, "Has no effect.");
    lock_timeout = def("lock_timeout", "0", Kind::Duration, "Longest wait for a lock.");
    maintenance_work_mem = def("maintenance_work_mem", "64MB", Kind::Memory(1024), "Has no effect: an index is built within the tenant's memory.");
    max_identifier_length = read_only(def("max_identifier_length", "63", Kind::Integer(63, 63), "Bytes of an identifier."));
    max_index_keys = read_only(def("max_index_keys", "32", Kind::Integer(32, 32), "Columns of an index."));
    password_encryption = def("password_encryption", "scram-sha-256", Kind::OneOf(&["scram-sha-256"]), "How passwords are kept.");
    role = def("role", "none", Kind::Role, "The role that the session acts as, where it is not its own.");
    row_security = def("row_security", "on", Kind::Bool, "Has no effect: there are no policies.");
    search_path = def("search_path", "\"$user\", public", Kind::SearchPath, "Schemas looked in for names without one.");
    server_encoding = read_only(reported(def("server_encoding", "UTF8", Kind::Text, "Encoding of stored text.")));
    server_version = read_only(reported(def("server_version", SERVER_VERSION, Kind::Text, "PostgreSQL release followed.")));
    server_version_num = read_only(def("server_version_num", SERVER_VERSION_NUM, Kind::Text, "The same as a number."));
    session_authorization = reported(def("session_authorization", "", Kind::Role, "The session's role."));
    session_replication_role = def("session_replication_role", "origin", Kind::ReplicationRole, "Has no effect: foreign keys are watched.");
    standard_conforming_strings = reported(def("standard_conforming_strings", "on", Kind::OneOf(&["on"]), "Backslashes are ordinary in '…'."));
    statement_timeout = def("statement_timeout", "0", Kind::Duration, "Longest run of a statement.");
    synchronize_seqscans = def("synchronize_seqscans", "on", Kind::Bool, "Has no effect.");
    synchronous_commit = def("synchronous_commit", "on", Kind::OneOf(&["on", "off", "local", "remote_write", "remote_apply"]), "Whether a commit's reply waits until it is durable.");
    time_zone = reported(def("TimeZone", "Etc/UTC", Kind::TimeZone, "Zone in which times are shown."));
    transaction_deferrable = of_transaction(def("transaction_deferrable", "off", Kind::Bool, "Has no effect: any snapshot is a safe one."));
    transaction_isolation = of_transaction(def("transaction_isolation", "read committed", ISOLATION, "Isolation of this transaction."));
    transaction_read_only = of_transaction(def("transaction_read_only", "off", Kind::Bool, "Whether this transaction may not write."));
    transaction_timeout = def("transaction_timeout", "0", Kind::Integer(0, 0), "Must be 0: transactions have no time of their own.");
    work_mem = def("work_mem", "4MB", Kind::Memory(64), "Has no effect: work memory is granted by the tenant's promise.");
    xmloption = def("xmloption", "content", Kind::OneOf(&["content", "document"]), "Has no effect: there is no XML.");
}

/// What PostgreSQL has as settings, clients ask for, and is the same for as long as a session lives. Of their values none keeps anything but that of `max_connections`.
pub(super) static FIXED: &[Definition] = &[
    fixed("archive_mode", "off", Kind::OneOf(&["always", "on", "off"]), "There is no archive."),
    fixed("block_size", "8192", Kind::Integer(8192, 8192), "Bytes of a page."),
    fixed("data_checksums", "on", Kind::Bool, "Pages have checksums."),
    fixed("fsync", "on", Kind::Bool, "What is committed is durable."),
    fixed(
        "max_connections",
        "100",
        Kind::Integer(1, u32::MAX as i64),
        "Sessions that there may be at a time.",
    ),
    fixed("max_prepared_transactions", "0", Kind::Integer(0, 0), "There is no two-phase commit."),
    fixed("max_replication_slots", "0", Kind::Integer(0, 0), "There is no replication."),
    fixed("max_wal_senders", "0", Kind::Integer(0, 0), "There is no replication."),
    fixed("shared_preload_libraries", "", Kind::Text, "There are no libraries to load."),
    fixed("track_activities", "on", Kind::Bool, "Sessions are shown with their statements."),
    fixed("track_counts", "off", Kind::Bool, "Uses are not counted by table and index."),
    fixed("track_functions", "none", Kind::OneOf(&["none", "pl", "all"]), "There are none."),
    fixed("track_io_timing", "off", Kind::Bool, "Waits are timed by tenant."),
    fixed("wal_level", "minimal", Kind::OneOf(&["minimal", "replica", "logical"]), "It is for recovery."),
];

/// What sessions and migrations tell PostgreSQL, most of it for its planner, and what changes nothing here. A session keeps what is set of it alone, as it keeps custom
/// settings.
pub(super) static TAKEN: &[Definition] = &[
    taken("constraint_exclusion", "partition", Kind::OneOf(&["partition", "on", "off"])),
    taken("cpu_index_tuple_cost", "0.005", COST),
    taken("cpu_operator_cost", "0.0025", COST),
    taken("cpu_tuple_cost", "0.01", COST),
    taken("cursor_tuple_fraction", "0.1", Kind::Real(0.0, 1.0)),
    taken("default_statistics_target", "100", Kind::Integer(1, 10_000)),
    taken("effective_cache_size", "4GB", Kind::Pages(1, PAGES_MAX)),
    taken("effective_io_concurrency", "1", Kind::Integer(0, 1_000)),
    taken("enable_async_append", "on", Kind::Bool),
    taken("enable_bitmapscan", "on", Kind::Bool),
    taken("enable_gathermerge", "on", Kind::Bool),
    taken("enable_hashagg", "on", Kind::Bool),
    taken("enable_hashjoin", "on", Kind::Bool),
    taken("enable_incremental_sort", "on", Kind::Bool),
    taken("enable_indexonlyscan", "on", Kind::Bool),
    taken("enable_indexscan", "on", Kind::Bool),
    taken("enable_material", "on", Kind::Bool),
    taken("enable_memoize", "on", Kind::Bool),
    taken("enable_mergejoin", "on", Kind::Bool),
    taken("enable_nestloop", "on", Kind::Bool),
    taken("enable_parallel_append", "on", Kind::Bool),
    taken("enable_parallel_hash", "on", Kind::Bool),
    taken("enable_partition_pruning", "on", Kind::Bool),
    taken("enable_partitionwise_aggregate", "off", Kind::Bool),
    taken("enable_partitionwise_join", "off", Kind::Bool),
    taken("enable_seqscan", "on", Kind::Bool),
    taken("enable_sort", "on", Kind::Bool),
    taken("enable_tidscan", "on", Kind::Bool),
    def("escape_string_warning", "on", Kind::Bool, "Has no effect: nothing is warned of."),
    taken("force_parallel_mode", "off", Kind::OneOf(&["off", "on", "regress"])),
    taken("from_collapse_limit", "8", Kind::Integer(1, INTEGER_MAX)),
    taken("geqo", "on", Kind::Bool),
    taken("geqo_effort", "5", Kind::Integer(1, 10)),
    taken("geqo_threshold", "12", Kind::Integer(2, INTEGER_MAX)),
    taken("hash_mem_multiplier", "2", Kind::Real(1.0, 1_000.0)),
    taken("jit_above_cost", "100000", Kind::Real(-1.0, f64::MAX)),
    taken("jit_inline_above_cost", "500000", Kind::Real(-1.0, f64::MAX)),
    taken("jit_optimize_above_cost", "500000", Kind::Real(-1.0, f64::MAX)),
    taken("join_collapse_limit", "8", Kind::Integer(1, INTEGER_MAX)),
    taken("maintenance_io_concurrency", "10", Kind::Integer(0, 1_000)),
    taken("max_parallel_maintenance_workers", "2", Kind::Integer(0, 1_024)),
    taken("max_parallel_workers", "8", Kind::Integer(0, 1_024)),
    taken("max_parallel_workers_per_gather", "2", Kind::Integer(0, 1_024)),
    taken("min_parallel_index_scan_size", "512kB", Kind::Pages(0, PAGES_MAX / 3)),
    taken("min_parallel_table_scan_size", "8MB", Kind::Pages(0, PAGES_MAX / 3)),
    taken("parallel_leader_participation", "on", Kind::Bool),
    taken("parallel_setup_cost", "1000", COST),
    taken("parallel_tuple_cost", "0.1", COST),
    taken("plan_cache_mode", "auto", Kind::OneOf(&["auto", "force_generic_plan", "force_custom_plan"])),
    def("quote_all_identifiers", "off", Kind::Bool, "Has no effect: a name is quoted where it must be."),
    taken("random_page_cost", "4", COST),
    taken("recursive_worktable_factor", "10", Kind::Real(0.001, 1_000_000.0)),
    taken("seq_page_cost", "1", COST),
];

const COST: Kind = Kind::Real(0.0, f64::MAX);
const INTEGER_MAX: i64 = 2_147_483_647;
const PAGES_MAX: u64 = 2_147_483_647;

const fn taken(name: &'static str, default: &'static str, kind: Kind) -> Definition {
    def(name, default, kind, "Has no effect: plans do not depend on it.")
}

const fn fixed(name: &'static str, value: &'static str, kind: Kind, description: &'static str) -> Definition {
    read_only(def(name, value, kind, description))
}
