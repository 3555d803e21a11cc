//! TRUNCATE.

use base::{Oid, SqlError};
use sqlparser::ast::{CascadeOption, Truncate, TruncateIdentityOption, TruncateTableTarget};
use tenant::catalog::Privileges;

use super::names::notice;
use crate::session::{Home, Pause, Reply, Session};

pub(super) fn run(
    session: &mut Session,
    home: &mut Home<'_>,
    truncate: &Truncate,
    out: &mut dyn Reply,
) -> Result<(), Pause> {
    let Truncate { table_names, partitions, table: _, if_exists, identity, cascade, on_cluster } = truncate;
    if partitions.is_some() || *if_exists || on_cluster.is_some() {
        return Err(SqlError::unsupported("this clause of TRUNCATE").into());
    }
    let names = session.names(home);
    let mut tables: Vec<Oid> = Vec::new();
    // No table has children: ONLY and * mean the same.
    for TruncateTableTarget { name, only: _, has_asterisk: _ } in table_names {
        let table = names.table(name)?;
        if !tables.contains(&table.oid) {
            tables.push(table.oid);
        }
    }
    if matches!(cascade, Some(CascadeOption::Cascade)) {
        let mut next = 0;
        while next < tables.len() {
            let table = names.catalog.table(tables[next]).expect("resolved in this catalog");
            for by in &table.referenced_by {
                if !tables.contains(&by.table) {
                    let name = names.catalog.table(by.table).map_or("", |table| &table.name);
                    let message = format!("truncate cascades to table \"{name}\"");
                    notice(session, base::SqlState::SUCCESSFUL_COMPLETION, message, out);
                    tables.push(by.table);
                }
            }
            next += 1;
        }
    }
    for table in &tables {
        session.check_privilege(&names.catalog, *table, Privileges::TRUNCATE)?;
    }
    let restart = matches!(identity, Some(TruncateIdentityOption::Restart));
    if restart {
        let is_restarted = |(table, _): (Oid, usize)| tables.contains(&table);
        for sequence in names.catalog.sequences().filter(|s| s.owned_by.is_some_and(is_restarted)) {
            session.check_owner(&names.catalog, sequence.owner, "sequence", &sequence.name)?;
        }
    }
    session.ddl(home, |ddl| ddl.truncate(&tables, restart))
}
