//! The scenario's tables.

use std::cell::RefCell;
use std::rc::Rc;

use base::Oid;
use tenant::catalog::{
    Column, IndexColumn, MatchType, OWNER_ROLE, PUBLIC_SCHEMA, ReferentialAction, Sequence,
};
use tenant::ddl::{Ddl, NewForeignKey, NewIndex, NewTable, NewUnique, RowsNow};
use tenant::{Isolation, Step};
use types::{Datum, PgType, TypeMod};

use super::model::{Kind, Model};
use super::transaction::{Fate, Transaction};
use crate::{Home, Stop};

/// Accounts of a tenant; their balances add up to this many times [`BALANCE`].
pub(super) const ACCOUNTS: i64 = 40;
pub(super) const BALANCE: i64 = 1000;
pub(super) const SEQUENCE: &str = "offer_id";

fn table(ddl: &mut Ddl<'_>, kind: Kind, columns: &[(&str, PgType)], has_key: bool) -> Step<Oid> {
    let columns = columns.iter().map(|(name, ty)| Column::new(*name, *ty, TypeMod::NONE)).collect();
    let oid =
        ddl.create_table(NewTable { schema: PUBLIC_SCHEMA, name: kind.name(), owner: OWNER_ROLE, columns })?;
    if has_key {
        ddl.add_primary_key(oid, NewUnique { name: None, columns: vec![0], nulls_not_distinct: false })?;
    }
    Ok(oid)
}

fn index(ddl: &mut Ddl<'_>, table: Oid, columns: &[usize], unique: bool) -> Step<()> {
    let columns = columns.iter().map(|column| IndexColumn::ascending(*column)).collect();
    ddl.create_index(
        table,
        NewIndex { name: None, columns, unique, nulls_not_distinct: false, ..NewIndex::default() },
    )?;
    Ok(())
}

fn create(ddl: &mut Ddl<'_>) -> Step<()> {
    let int8 = PgType::Int8;
    let account =
        table(ddl, Kind::Account, &[("id", int8), ("balance", int8), ("note", PgType::Text)], true)?;
    index(ddl, account, &[1], false)?;
    let of_offer = [("id", int8), ("account", int8), ("price", int8), ("amount", int8)];
    let offer = table(ddl, Kind::Offer, &of_offer, true)?;
    index(ddl, offer, &[2, 0], true)?;
    ddl.add_foreign_key(
        offer,
        NewForeignKey {
            name: None,
            columns: vec![1],
            referenced_table: account,
            referenced_columns: None,
            on_delete: ReferentialAction::Cascade,
            on_update: ReferentialAction::NoAction,
            match_type: MatchType::Simple,
            deferral: Default::default(),
            rows: RowsNow::Checked,
        },
    )?;
    let receipt = table(ddl, Kind::Receipt, &[("token", int8), ("account", int8), ("change", int8)], false)?;
    index(ddl, receipt, &[1], false)?;
    table(ddl, Kind::Blob, &[("id", int8), ("bytes", PgType::Text)], true)?;
    let max = i64::MAX;
    ddl.create_sequence(Sequence {
        oid: Oid(0),
        schema: PUBLIC_SCHEMA,
        name: SEQUENCE.into(),
        owner: OWNER_ROLE,
        ty: int8,
        start: 1,
        increment: 1,
        min: 1,
        max,
        cache: 1,
        cycle: false,
        owned_by: None,
        acl: None,
    })?;
    Ok(())
}

/// A scratch table with an index.
pub(super) fn create_scratch(ddl: &mut Ddl<'_>, n: u8) -> Step<Oid> {
    let scratch = table(ddl, Kind::ScratchRow(n), &[("id", PgType::Int8), ("number", PgType::Int8)], true)?;
    index(ddl, scratch, &[1], false)?;
    Ok(scratch)
}

/// Makes the tables of a new tenant and fills the accounts.
pub(super) async fn populate(home: &Rc<Home>, model: &Rc<RefCell<Model>>) -> Result<(), Stop> {
    let refused = |fate| match fate {
        Fate::Refused(error) => Stop::violation(format!("populating: {error}")),
        Fate::Stop(stop) => stop,
    };
    let mut making = Transaction::begin(home, model, 1, Isolation::ReadCommitted);
    making.statement(|turn| create(&mut turn.view.ddl()?)).await.map_err(refused)?;
    making.commit().await.map_err(refused)?;
    let mut filling = Transaction::begin(home, model, 1, Isolation::ReadCommitted);
    for id in 1..=ACCOUNTS {
        let row = vec![Datum::Int8(id), Datum::Int8(BALANCE), Datum::Text(String::new().into())];
        filling.statement(|turn| turn.insert(Kind::Account, row.clone())).await.map_err(refused)?;
    }
    filling.commit().await.map_err(refused)
}
