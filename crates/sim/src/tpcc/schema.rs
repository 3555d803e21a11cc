//! The nine tables of clause 1.3 with the columns the transactions and conditions use.

use base::Oid;
use tenant::Step;
use tenant::catalog::{Column, IndexColumn, OWNER_ROLE, PUBLIC_SCHEMA};
use tenant::ddl::{Ddl, NewIndex, NewTable, NewUnique};
use types::{PgType, TypeMod};

/// Name; columns; how many of the named key columns come first in `key`.
struct Shape {
    name: &'static str,
    /// `name type`, where the type is one of [`column`]'s.
    columns: &'static [&'static str],
    key: &'static [&'static str],
    index: &'static [&'static str],
}

const TABLES: [Shape; 9] = [
    Shape {
        name: "warehouse",
        columns: &["w_id int", "w_name text10", "w_tax money", "w_ytd money"],
        key: &["w_id"],
        index: &[],
    },
    Shape {
        name: "district",
        columns: &["d_id int", "d_w_id int", "d_tax money", "d_ytd money", "d_next_o_id int"],
        key: &["d_w_id", "d_id"],
        index: &[],
    },
    Shape {
        name: "customer",
        columns: &[
            "c_id int",
            "c_d_id int",
            "c_w_id int",
            "c_first text16",
            "c_last text16",
            "c_balance money",
            "c_ytd_payment money",
            "c_payment_cnt int",
            "c_delivery_cnt int",
            "c_data text500",
        ],
        key: &["c_w_id", "c_d_id", "c_id"],
        index: &["c_w_id", "c_d_id", "c_last", "c_first"],
    },
    Shape {
        name: "history",
        columns: &[
            "h_c_id int",
            "h_c_d_id int",
            "h_c_w_id int",
            "h_d_id int",
            "h_w_id int",
            "h_date time",
            "h_amount money",
            "h_data text24",
        ],
        key: &[],
        index: &[],
    },
    Shape {
        name: "orders",
        columns: &[
            "o_id int",
            "o_d_id int",
            "o_w_id int",
            "o_c_id int",
            "o_entry_d time",
            "o_carrier_id int",
            "o_ol_cnt int",
            "o_all_local int",
        ],
        key: &["o_w_id", "o_d_id", "o_id"],
        index: &["o_w_id", "o_d_id", "o_c_id", "o_id"],
    },
    Shape {
        name: "new_order",
        columns: &["no_o_id int", "no_d_id int", "no_w_id int"],
        key: &["no_w_id", "no_d_id", "no_o_id"],
        index: &[],
    },
    Shape {
        name: "item",
        columns: &["i_id int", "i_name text24", "i_price money", "i_data text50"],
        key: &["i_id"],
        index: &[],
    },
    Shape {
        name: "stock",
        columns: &[
            "s_i_id int",
            "s_w_id int",
            "s_quantity int",
            "s_ytd int",
            "s_order_cnt int",
            "s_remote_cnt int",
            "s_data text50",
        ],
        key: &["s_w_id", "s_i_id"],
        index: &[],
    },
    Shape {
        name: "order_line",
        columns: &[
            "ol_o_id int",
            "ol_d_id int",
            "ol_w_id int",
            "ol_number int",
            "ol_i_id int",
            "ol_supply_w_id int",
            "ol_delivery_d time",
            "ol_quantity int",
            "ol_amount money",
            "ol_dist_info text24",
        ],
        key: &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
        index: &[],
    },
];

/// The tables' names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}

fn column(text: &str) -> Column {
    let (name, ty) = text.split_once(' ').expect("a name and a type");
    let (ty, modifier) = match ty {
        "int" => (PgType::Int4, TypeMod::NONE),
        "money" => (PgType::Numeric, TypeMod::numeric(12, 2)),
        "time" => (PgType::Timestamp, TypeMod::NONE),
        text => {
            let length = text.strip_prefix("text").and_then(|n| n.parse().ok());
            (PgType::Varchar, TypeMod::length(length.expect("a known type")))
        }
    };
    Column::new(name, ty, modifier)
}

/// Makes the tables, empty.
pub(super) fn create(ddl: &mut Ddl<'_>) -> Step<()> {
    TABLES.iter().try_for_each(|shape| create_table(ddl, shape))
}

fn create_table(ddl: &mut Ddl<'_>, shape: &Shape) -> Step<()> {
    let columns: Vec<Column> = shape.columns.iter().map(|text| column(text)).collect();
    let place = |name: &&str| columns.iter().position(|column| column.name == *name).expect("a column");
    let key: Vec<usize> = shape.key.iter().map(place).collect();
    let index: Vec<IndexColumn> = shape.index.iter().map(place).map(IndexColumn::ascending).collect();
    let name = shape.name.to_owned();
    let table: Oid =
        ddl.create_table(NewTable { schema: PUBLIC_SCHEMA, name, owner: OWNER_ROLE, columns })?;
    if !key.is_empty() {
        ddl.add_primary_key(table, NewUnique { name: None, columns: key, nulls_not_distinct: false })?;
    }
    if !index.is_empty() {
        ddl.create_index(
            table,
            NewIndex {
                name: None,
                columns: index,
                unique: false,
                nulls_not_distinct: false,
                ..NewIndex::default()
            },
        )?;
    }
    Ok(())
}
