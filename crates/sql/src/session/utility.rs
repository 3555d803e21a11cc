//! Maintenance, table locks, what goes for objects of every kind, and the administrator's statements on tenants.

use base::{SqlError, SqlState, TenantId, TreeId};
use rustc_hash::FxHashMap;
use tenant::Tenant;
use tenant::catalog::{Catalog, OWNER_ROLE, Privileges, Relation, Table};
use tenant::locks::{AdvisoryKey, LockTag, TableLock, WaitPolicy};

use super::host::LockRow;
use super::privilege::denied;
use super::run::{Ran, Run, pause};
use super::{CopyShape, Format, Home, HostOutcome, HostStatement, Pause, Reply, Session};
use crate::ddl;
use crate::parse::Utility;

/// The tenant's locks as `pg_locks` shows them.
pub fn lock_rows(tenant: &Tenant) -> Vec<LockRow> {
    let records = tenant.lock_records();
    let has_rows = records.iter().any(|record| matches!(record.tag, LockTag::Row(..)));
    let tables = if has_rows { tables_of_trees(tenant.catalog()) } else { FxHashMap::default() };
    records
        .into_iter()
        .map(|record| {
            let relation = match record.tag {
                LockTag::Table(oid) => Some(oid.0),
                LockTag::Row(tree, _) => tables.get(&tree).copied(),
                LockTag::Advisory(_) | LockTag::Ddl | LockTag::Branch => None,
            };
            let key = match record.tag {
                LockTag::Advisory(AdvisoryKey::Big(key)) => Some(((key >> 32) as u32, key as u32, 1)),
                LockTag::Advisory(AdvisoryKey::Pair(class, object)) => Some((class as u32, object as u32, 2)),
                _ => None,
            };
            LockRow {
                lock_type: record.tag.kind(),
                relation,
                key,
                pid: record.session,
                mode: record.mode.name(),
                granted: record.granted,
                blocked_by: record.blocked_by,
            }
        })
        .collect()
}

fn tables_of_trees(catalog: &Catalog) -> FxHashMap<TreeId, u32> {
    let trees = |table: &Table| {
        let (oid, indexes) = (table.oid.0, table.indexes.iter().map(|index| index.tree));
        indexes.chain([table.tree]).map(move |tree| (tree, oid)).collect::<Vec<_>>()
    };
    catalog.tables().flat_map(|table| trees(table)).collect()
}

fn lock_mode(name: &str) -> Option<TableLock> {
    Some(match name {
        "ACCESS SHARE" => TableLock::AccessShare,
        "ROW SHARE" => TableLock::RowShare,
        "ROW EXCLUSIVE" => TableLock::RowExclusive,
        "SHARE UPDATE EXCLUSIVE" => TableLock::ShareUpdateExclusive,
        "SHARE" => TableLock::Share,
        "SHARE ROW EXCLUSIVE" => TableLock::ShareRowExclusive,
        "EXCLUSIVE" => TableLock::Exclusive,
        "ACCESS EXCLUSIVE" => TableLock::AccessExclusive,
        _ => return None,
    })
}

/// 25001 for what must stand alone.
pub(super) fn not_in_block(what: &str) -> SqlError {
    let message = format!("{what} cannot run inside a transaction block");
    SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message)
}

impl Session {
    /// Runs a statement on tenants: the first call hands it to the server, the next finds its outcome.
    ///
    /// # Errors
    /// 42501 for others than the administrator and outside of the administrator's database; 25001 within a block, or behind
    /// statements of the same transaction that have locked something.
    pub(super) fn host_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &HostStatement,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<Ran, Pause> {
        if !self.is_administrator() || self.start.tenant != TenantId::SYSTEM {
            let message =
                "tenants and the server are administered by the administrator in the database \"rowhouse\"";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message).into());
        }
        let what = match statement {
            HostStatement::CreateTenant { .. } => Some("CREATE TENANT"),
            HostStatement::AlterTenant { .. }
            | HostStatement::RenameTenant { .. }
            | HostStatement::MoveTenant { .. } => Some("ALTER TENANT"),
            HostStatement::DropTenant { .. } => Some("DROP TENANT"),
            HostStatement::BackupTenant { .. } => Some("BACKUP TENANT"),
            HostStatement::RestoreTenant { .. } => Some("RESTORE TENANT"),
            HostStatement::CreateSize { .. } => Some("CREATE SIZE"),
            HostStatement::AlterSize { .. } => Some("ALTER SIZE"),
            HostStatement::DropSize { .. } => Some("DROP SIZE"),
            HostStatement::AlterServer { .. } => Some("ALTER SERVER"),
            HostStatement::AlterVolume { .. } => Some("ALTER VOLUME"),
            HostStatement::CreateRunawayRule { .. } => Some("CREATE RUNAWAY RULE"),
            HostStatement::AlterRunawayRule { .. } => Some("ALTER RUNAWAY RULE"),
            HostStatement::DropRunawayRule { .. } => Some("DROP RUNAWAY RULE"),
            HostStatement::ShowTenants
            | HostStatement::ShowSizes
            | HostStatement::ShowServer
            | HostStatement::ShowVolumes
            | HostStatement::ShowRunawayRules
            | HostStatement::Evict { .. } => None,
        };
        // The server writes to its catalogue by transactions of its own, which would wait for this one's locks while this one waits for them.
        let has_locks = self.transaction.peek().is_some_and(|open| open.txn.has_locks());
        if let Some(what) = what
            && (self.transaction.is_block() || has_locks)
        {
            return Err(not_in_block(what).into());
        }
        match self.host_outcome.take() {
            None => Err(Pause::Host(statement.clone())),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(HostOutcome::Done { tag, notices })) => {
                for notice in &notices {
                    self.notice(notice, out);
                }
                Ok(Ran::Tag(tag.into()))
            }
            Some(Ok(HostOutcome::CopyIn(tag))) => {
                out.copy_in(CopyShape { format: Format::Binary, columns: 0 });
                self.host_copy = Some(tag);
                Ok(Ran::CopyIn)
            }
            Some(Ok(HostOutcome::Rows { fields, rows, tag })) => {
                self.send_rows(home, &fields, &rows, run, out)?;
                Ok(Ran::Tag(tag.into()))
            }
        }
    }

    /// Runs a maintenance statement; its command tag.
    pub(super) fn utility_statement(
        &mut self,
        home: &mut Home<'_>,
        statement: &Utility,
        run: &Run<'_>,
        out: &mut dyn Reply,
    ) -> Result<String, Pause> {
        match statement {
            Utility::Vacuum { tables, analyze } => {
                if self.in_larger_transaction(run) {
                    return Err(not_in_block("VACUUM").into());
                }
                // Old versions are given back as snapshots end: there is nothing to vacuum.
                ddl::analyze(self, home, tables, if *analyze { "analyze" } else { "vacuum" }, out)?;
                Ok("VACUUM".into())
            }
            Utility::Analyze { tables } => {
                ddl::analyze(self, home, tables, "analyze", out)?;
                Ok("ANALYZE".into())
            }
            Utility::Checkpoint => {
                let catalog = self.catalog(home);
                if !self.acts_for(&catalog, OWNER_ROLE) {
                    let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message).into());
                }
                // Checkpoints follow the log's length; a commit is durable without one.
                Ok("CHECKPOINT".into())
            }
            Utility::Unlisten => Ok("UNLISTEN".into()),
            Utility::LockTable { tables, mode, nowait } => self.lock_tables(home, tables, mode, *nowait, run),
            Utility::Rename { kind, name, to, if_exists } => {
                ddl::rename(self, home, *kind, name, to, *if_exists, out)
            }
            Utility::SetSchema { kind, name, schema, if_exists } => {
                ddl::set_schema(self, home, *kind, name, schema, *if_exists, out)
            }
            Utility::SetOwner { kind, name, owner, if_exists } => {
                ddl::set_owner(self, home, *kind, name, owner, *if_exists, out)
            }
            Utility::Comment { kind, name, text } => {
                ddl::comment(self, home, *kind, name, text.as_deref(), out)
            }
            Utility::CreateExtension { name, if_not_exists, schema, version } => {
                let (schema, version) = (schema.as_deref(), version.as_deref());
                ddl::create_extension(self, home, name, *if_not_exists, schema, version, out)
            }
            Utility::DropExtension { names, if_exists } => {
                ddl::drop_extensions(self, home, names, *if_exists, out)
            }
            Utility::Deallocate(name) => Ok(self.deallocate(name.as_deref())?),
            Utility::ReassignOwned { from, to } => ddl::reassign_owned(self, home, from, to),
            Utility::DropOwned { roles, cascade } => ddl::drop_owned(self, home, roles, *cascade, out),
            Utility::AlterConstraint(statement) => ddl::alter_constraint(self, home, statement, out),
            Utility::DropExpression(statement) => ddl::drop_expression(self, home, statement, out),
            Utility::Tune(statement) => ddl::tune(self, home, statement, out),
            Utility::Refused(what) => Err(SqlError::unsupported(what).into()),
        }
    }

    fn lock_tables(
        &mut self,
        home: &mut Home<'_>,
        tables: &[Vec<String>],
        mode: &str,
        nowait: bool,
        run: &Run<'_>,
    ) -> Result<String, Pause> {
        if !self.in_larger_transaction(run) {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message).into());
        }
        let mode = lock_mode(mode).ok_or_else(|| {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{mode}\""))
        })?;
        let policy = if nowait { WaitPolicy::NoWait } else { WaitPolicy::Wait };
        let names = self.names(home);
        for parts in tables {
            let (schema, name) = super::privilege::split_name(parts)?;
            let oid = match names.catalog.resolve_relation(schema, name, &names.path)? {
                Relation::Table(table) => {
                    self.check_usage(&names.catalog, table.schema)?;
                    table.oid
                }
                Relation::View(_) => return Err(SqlError::unsupported("LOCK TABLE on a view").into()),
                Relation::Index(..) | Relation::Sequence(_) => {
                    let message = format!("\"{name}\" is not a table or view");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
                }
            };
            let change = [Privileges::UPDATE, Privileges::DELETE, Privileges::TRUNCATE];
            let suffices: &[Privileges] = match mode {
                TableLock::AccessShare => &[Privileges::SELECT, change[0], change[1], change[2]],
                TableLock::RowShare | TableLock::RowExclusive => {
                    &[Privileges::INSERT, change[0], change[1], change[2]]
                }
                _ => &change,
            };
            if !suffices.iter().any(|one| self.check_privilege(&names.catalog, oid, *one).is_ok()) {
                return Err(denied("table", name).into());
            }
            // Not by a view, which would take the transaction's snapshot before the lock is there.
            let open = self.transaction.open().expect("a statement runs in a transaction");
            let locked = home.tenant.lock_table(&mut open.txn, oid, mode, policy);
            locked.map_err(|interrupt| pause(interrupt, home.tenant, &open.txn))?;
        }
        Ok("LOCK TABLE".into())
    }

    /// A role that shall own something: the session must be able to become it.
    ///
    /// # Errors
    /// 42704 for an unknown role; 42501.
    pub(crate) fn role_to_own(&self, catalog: &Catalog, name: &str) -> Result<base::Oid, SqlError> {
        let role = self.named_role(catalog, name)?;
        if !self.may_become(catalog, role) {
            let message = format!("must be member of role \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(role)
    }

    /// 42501 unless the role may make schemas: with CREATE on the database, which its owner has unless that was revoked.
    pub(crate) fn check_create_schema(&self, catalog: &Catalog) -> Result<(), SqlError> {
        let may = self.is_administrator() || catalog.has_database_privileges(self.role(), Privileges::CREATE);
        if may { Ok(()) } else { Err(denied("database", &self.start.database)) }
    }
}
