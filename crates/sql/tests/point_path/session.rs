//! The session a test's statements run in.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use base::{CommitNo, Lsn, Oid, TenantId};
use sql::expr::{AdvisoryKey, EvalError, EvalResult, SessionContext};
use tenant::catalog::Catalog;
use tenant::{Interrupt, RedoSink, View};
use types::{CatalogNames, PgType};

/// A log that is always durable.
#[derive(Default)]
pub(crate) struct Log(u64);

impl RedoSink for Log {
    fn append(&mut self, _tenant: TenantId, _commit: CommitNo, record: &[u8]) -> Lsn {
        self.0 += record.len() as u64 + 1;
        Lsn(self.0)
    }
}

pub(crate) struct TestSession<'a, 'v> {
    pub(crate) view: &'a RefCell<View<'v>>,
    pub(crate) last: &'a Cell<Option<i64>>,
}

fn raised(interrupt: Interrupt) -> EvalError {
    match interrupt {
        Interrupt::Error(error) => EvalError::Sql(error),
        other => panic!("a lone session waits: {other:?}"),
    }
}

impl SessionContext for TestSession<'_, '_> {
    fn current_user(&self) -> String {
        "postgres".into()
    }
    fn session_user(&self) -> String {
        "postgres".into()
    }
    fn current_database(&self) -> String {
        "postgres".into()
    }
    fn current_schemas(&self, _implicit: bool) -> Vec<String> {
        vec!["public".into()]
    }
    fn version(&self) -> String {
        "test".into()
    }
    fn backend_pid(&self) -> i32 {
        1
    }
    fn setting(&self, _name: &str) -> Option<String> {
        None
    }
    fn set_setting(&self, _name: &str, value: Option<&str>, _local: bool) -> EvalResult<String> {
        Ok(value.unwrap_or_default().into())
    }
    fn sequence_next(&self, sequence: u32) -> EvalResult<i64> {
        let value = self.view.borrow_mut().nextval(Oid(sequence)).map_err(raised)?;
        self.last.set(Some(value));
        Ok(value)
    }
    fn sequence_current(&self, _sequence: u32) -> EvalResult<i64> {
        Ok(self.last.get().expect("nextval was called"))
    }
    fn sequence_last(&self) -> EvalResult<i64> {
        Ok(self.last.get().expect("nextval was called"))
    }
    fn sequence_state(&self, sequence: u32) -> EvalResult<(i64, bool)> {
        let value = self.view.borrow_mut().sequence_value(Oid(sequence)).map_err(raised)?;
        Ok((value.last_value, value.is_called))
    }
    fn sequence_set(&self, sequence: u32, value: i64, called: bool) -> EvalResult<i64> {
        self.view.borrow_mut().setval(Oid(sequence), value, called).map_err(raised)?;
        Ok(value)
    }
    fn serial_sequence(&self, _table: &str, _column: &str) -> EvalResult<Option<String>> {
        Ok(None)
    }
    fn advisory_lock(&self, _: AdvisoryKey, _: bool, _: bool, _: bool) -> EvalResult<bool> {
        Ok(true)
    }
    fn advisory_unlock(&self, _: AdvisoryKey, _: bool) -> EvalResult<bool> {
        Ok(true)
    }
    fn advisory_unlock_all(&self) -> EvalResult<()> {
        Ok(())
    }
    fn signal_backend(&self, _: i32, _: bool) -> EvalResult<bool> {
        Ok(false)
    }
    fn blocking_pids(&self, _: i32) -> EvalResult<Vec<i32>> {
        Ok(Vec::new())
    }
    fn reset_statements(&self) -> EvalResult<()> {
        Ok(())
    }
    fn transaction_id(&self) -> EvalResult<i64> {
        Ok(1)
    }
    fn export_snapshot(&self) -> EvalResult<String> {
        Ok("00000000-00000001-1".into())
    }
    fn sleep(&self, _: f64) -> EvalResult<()> {
        Ok(())
    }
    fn clock(&self) -> i64 {
        0
    }
    fn random(&self) -> u64 {
        4
    }
}

pub(crate) struct Names {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) path: Vec<Oid>,
}

impl CatalogNames for Names {
    fn enum_label(&self, type_oid: u32, order: u32) -> Option<&str> {
        self.catalog.enum_type(Oid(type_oid))?.label_of(order)
    }
    fn enum_order(&self, type_oid: u32, label: &str) -> Option<u32> {
        self.catalog.enum_type(Oid(type_oid))?.order_of(label)
    }
    fn enum_labels(&self, type_oid: u32) -> Vec<(u32, String)> {
        let labels = self.catalog.enum_type(Oid(type_oid)).map(|ty| ty.labels.as_slice()).unwrap_or_default();
        labels.iter().map(|label| (label.order, label.label.to_string())).collect()
    }
    fn type_name(&self, type_oid: u32) -> Option<String> {
        self.catalog.enum_type(Oid(type_oid)).map(|ty| ty.name.to_string())
    }
    fn type_by_name(&self, schema: Option<&str>, name: &str) -> Option<PgType> {
        self.catalog.find_enum(schema, name, &self.path).map(|ty| PgType::Enum(ty.oid))
    }
    fn relation_oid(&self, schema: Option<&str>, name: &str) -> Option<u32> {
        self.catalog.find_relation(schema, name, &self.path).map(|relation| relation.oid().0)
    }
    fn relation_name(&self, oid: u32) -> Option<String> {
        self.catalog.relation(Oid(oid)).map(|relation| relation.name().to_owned())
    }
}
