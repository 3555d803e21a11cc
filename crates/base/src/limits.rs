//! Fixed limits of the system. A queue or a size without a limit here is a defect.

use crate::ByteCount;

/// Bytes of a page: of a tree node, a map node, a slot of the data file. 8 KiB; a build for measurements (`bench/page_sizes.py`) may
/// have another size, named by the environment variable `ROWHOUSE_PAGE_KIB` while it is compiled, and opens no data files but its own.
pub const PAGE_SIZE: usize = match option_env!("ROWHOUSE_PAGE_KIB") {
    None => 8192,
    Some(kib) => match kib.as_bytes() {
        [b'4'] => 4096,
        [b'8'] => 8192,
        [b'1', b'6'] => 16_384,
        _ => panic!("ROWHOUSE_PAGE_KIB may be 4, 8 or 16"),
    },
};

/// Longest key of a tree in bytes: 1,600. Four keys must fit a page beside their header, or a split could not balance.
pub const KEY_LEN_MAX: usize = PAGE_SIZE / 128 * 25;
const _: () = assert!(4 * (KEY_LEN_MAX + 64) < PAGE_SIZE);

/// Longest row that is kept in a leaf, 1,800 bytes; what is longer moves to a chain of overflow pages.
pub const INLINE_VALUE_LEN_MAX: usize = PAGE_SIZE / 1024 * 225;
const _: () = assert!(2 * (KEY_LEN_MAX + INLINE_VALUE_LEN_MAX + 64) < PAGE_SIZE);

/// Longest value of a row, all columns together.
pub const ROW_LEN_MAX: ByteCount = ByteCount::from_mib(256);

/// Bytes that count as one I/O of a promise, sequential and random alike; a longer request counts as several.
pub const IO_UNIT: ByteCount = ByteCount::from_kib(64);

/// Columns of a table, as PostgreSQL's.
pub const TABLE_COLUMNS_MAX: usize = 1600;

/// Columns of a query's rows, as in PostgreSQL. The protocol counts them with 16 bits.
pub const RESULT_COLUMNS_MAX: usize = 1664;

/// Key columns of an index, as PostgreSQL's.
pub const INDEX_COLUMNS_MAX: usize = 32;

/// Bytes of an identifier, as PostgreSQL's `NAMEDATALEN - 1`; longer ones are truncated with a notice.
pub const IDENTIFIER_LEN_MAX: usize = 63;

/// Longest message accepted from an authenticated client. PostgreSQL's own bound is 1 GiB - 1.
pub const MESSAGE_LEN_MAX: ByteCount = ByteCount::from_mib(256);

/// What a session keeps for its client by names: prepared statements, cursors and portals with their parameters and rows in memory. By estimate.
pub const SESSION_KEPT_MAX: ByteCount = ByteCount::from_mib(64);

/// Longest message accepted before authentication, as PostgreSQL's `MAX_STARTUP_PACKET_LENGTH`.
pub const STARTUP_MESSAGE_LEN_MAX: ByteCount = ByteCount(10_000);

/// Size of a segment of a worker's log.
pub const LOG_SEGMENT_LEN: ByteCount = ByteCount::from_mib(16);

/// Stack of every thread that runs statements. Only what was used of it takes memory.
pub const THREAD_STACK_LEN: ByteCount = ByteCount::from_mib(256);

/// Levels that expressions and queries of a statement may nest. Debug builds of the analytical planner take the most stack, some
/// 50 KiB a level.
pub const NESTING_MAX: usize = 2_000;
const _: () = assert!(2 * NESTING_MAX * (50 << 10) < THREAD_STACK_LEN.0 as usize);

/// Tokens of a statement, blanks among them; each takes some 100 bytes while the statement is parsed.
pub const STATEMENT_TOKENS_MAX: usize = 5_000_000;
