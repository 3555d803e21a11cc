//! System tables about types, functions and what belongs to them.

use base::Oid;
use sql::system;
use tenant::catalog::Relation;
use types::{Datum, PgType};

use super::objects::{BTREE, DEFAULT_COLLATION, row_type};
use super::{Rows, letter, oid, oids, text};

/// Oids of `anyenum` and `anyarray`.
const ANY_ENUM: u32 = 3500;
const ANY_ARRAY: u32 = 2277;

/// Operator classes of no single type.
const OF_ENUMS: u32 = 10_000 + ANY_ENUM;
const OF_ARRAYS: u32 = 10_000 + ANY_ARRAY;

/// The collations that there are, each with its oid and its provider.
pub(super) const COLLATIONS: [(u32, &str, u8); 3] =
    [(DEFAULT_COLLATION, "default", b'd'), (950, "C", b'c'), (951, "POSIX", b'c')];

/// Fills the table of that name; false if it is not one of these.
pub(super) fn fill(out: &mut Rows<'_>, table: &str) -> bool {
    match table {
        "pg_type" => {
            types(out);
            row_types(out);
        }
        "pg_enum" => enums(out),
        "pg_proc" => functions(out),
        "pg_am" => {
            for (number, name, kind) in [(2, "heap", b't'), (403, "btree", b'i')] {
                out.add(vec![("oid", Datum::Oid(number)), ("amname", text(name)), ("amtype", letter(kind))]);
            }
        }
        "pg_collation" => {
            for (number, name, provider) in COLLATIONS {
                out.add(vec![
                    ("oid", Datum::Oid(number)),
                    ("collname", text(name)),
                    ("collnamespace", oid(tenant::catalog::PG_CATALOG)),
                    ("collowner", oid(tenant::catalog::OWNER_ROLE)),
                    ("collprovider", letter(provider)),
                    ("collisdeterministic", Datum::Bool(true)),
                    ("collencoding", Datum::Int4(-1)),
                    ("collcollate", if number == 100 { Datum::Null } else { text(name) }),
                    ("collctype", if number == 100 { Datum::Null } else { text(name) }),
                ]);
            }
        }
        "pg_opclass" => {
            let ordered = PgType::SCALARS.iter().copied().filter(|ty| operator_class(*ty) != 0);
            let scalars = ordered.map(|ty| (operator_class(ty), ty.internal_name(), ty.oid()));
            let of_kinds = [(OF_ENUMS, "enum", ANY_ENUM), (OF_ARRAYS, "array", ANY_ARRAY)];
            for (number, name, ty) in scalars.chain(of_kinds) {
                out.add(vec![
                    ("oid", Datum::Oid(number)),
                    ("opcmethod", Datum::Oid(BTREE)),
                    ("opcname", text(format!("{name}_ops"))),
                    ("opcnamespace", oid(tenant::catalog::PG_CATALOG)),
                    ("opcowner", oid(tenant::catalog::OWNER_ROLE)),
                    ("opcintype", Datum::Oid(ty)),
                    ("opcdefault", Datum::Bool(true)),
                ]);
            }
        }
        "pg_language" => {
            for (number, name) in [(12, "internal"), (14, "sql")] {
                out.add(vec![
                    ("oid", Datum::Oid(number)),
                    ("lanname", text(name)),
                    ("lanowner", oid(tenant::catalog::OWNER_ROLE)),
                ]);
            }
        }
        _ => return false,
    }
    true
}

/// The oid that stands for a type's btree operator class; 0 if it cannot be ordered. Made of the type's own, since nothing
/// here depends on PostgreSQL's numbers; all enums have one, and all arrays.
pub(super) fn operator_class(ty: PgType) -> u32 {
    match ty {
        PgType::Json | PgType::Void | PgType::Unknown => 0,
        PgType::Enum(_) => OF_ENUMS,
        PgType::Array(_) => OF_ARRAYS,
        ty => 10_000 + ty.oid() % 5_000,
    }
}

fn alignment(ty: PgType) -> u8 {
    match ty.type_len() {
        1 | 64 => b'c',
        2 => b's',
        8 | 16 => b'd',
        _ => b'i',
    }
}

struct TypeRow<'x> {
    oid: u32,
    name: &'x str,
    schema: Oid,
    owner: Oid,
    ty: PgType,
    kind: u8,
    element: u32,
    array: u32,
}

fn add_type(out: &mut Rows<'_>, row: &TypeRow<'_>) {
    let ty = row.ty;
    let collation = match ty {
        PgType::Name => 950,
        PgType::Int2Vector | PgType::OidVector => 0,
        ty if ty.is_string() || ty.element().is_some_and(PgType::is_string) => DEFAULT_COLLATION,
        _ => 0,
    };
    let family = match row.kind {
        b'e' => "enum",
        _ if ty.vector_element().is_some() => row.name,
        _ if row.element != 0 => "array",
        _ => row.name,
    };
    let [input, output, receive, send] = system::functions_of_type(family);
    let by_value = matches!(ty.type_len(), 1 | 2 | 4 | 8);
    out.add(vec![
        ("oid", Datum::Oid(row.oid)),
        ("typname", text(row.name)),
        ("typnamespace", oid(row.schema)),
        ("typowner", oid(row.owner)),
        ("typlen", Datum::Int2(ty.type_len())),
        ("typbyval", Datum::Bool(by_value)),
        ("typtype", letter(row.kind)),
        ("typcategory", letter(ty.category() as u8)),
        ("typispreferred", Datum::Bool(ty.is_preferred())),
        ("typisdefined", Datum::Bool(true)),
        ("typdelim", letter(b',')),
        ("typelem", Datum::Oid(row.element)),
        ("typarray", Datum::Oid(row.array)),
        ("typinput", Datum::Oid(input)),
        ("typoutput", Datum::Oid(output)),
        ("typreceive", Datum::Oid(receive)),
        ("typsend", Datum::Oid(send)),
        ("typalign", letter(alignment(ty))),
        ("typstorage", letter(super::definitions::storage(ty))),
        ("typtypmod", Datum::Int4(-1)),
        ("typcollation", Datum::Oid(collation)),
    ]);
}

fn types(out: &mut Rows<'_>) {
    let (schema, owner) = (tenant::catalog::PG_CATALOG, tenant::catalog::OWNER_ROLE);
    for &ty in PgType::SCALARS {
        let array = ty.array_of().map_or(0, PgType::oid);
        add_type(
            out,
            &TypeRow {
                oid: ty.oid(),
                name: ty.internal_name(),
                schema,
                owner,
                ty,
                kind: b'b',
                element: ty.element().map_or(0, PgType::oid),
                array,
            },
        );
        if let Some(array) = ty.array_of() {
            let name = array.internal_name();
            add_type(
                out,
                &TypeRow {
                    oid: array.oid(),
                    name,
                    schema,
                    owner,
                    ty: array,
                    kind: b'b',
                    element: ty.oid(),
                    array: 0,
                },
            );
        }
    }
    for (ty, kind) in [(PgType::Unknown, b'p'), (PgType::Void, b'p')] {
        add_type(
            out,
            &TypeRow {
                oid: ty.oid(),
                name: ty.internal_name(),
                schema,
                owner,
                ty,
                kind,
                element: 0,
                array: 0,
            },
        );
    }
    let catalog = out.shared.catalog.clone();
    for found in catalog.enums() {
        let ty = PgType::Enum(found.oid);
        let (schema, owner) = (found.schema, found.owner);
        let row = TypeRow {
            oid: found.oid.0,
            name: &found.name,
            schema,
            owner,
            ty,
            kind: b'e',
            element: 0,
            array: found.array_oid.0,
        };
        add_type(out, &row);
        if let Some(array) = ty.array_of() {
            let name = format!("_{}", found.name);
            let row = TypeRow {
                oid: found.array_oid.0,
                name: &name,
                schema,
                owner,
                ty: array,
                kind: b'b',
                element: found.oid.0,
                array: 0,
            };
            add_type(out, &row);
        }
    }
}

/// The type of each table's and view's rows; no value has one.
fn row_types(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    let mut all: Vec<_> =
        catalog.relations().filter(|r| matches!(r, Relation::Table(_) | Relation::View(_))).collect();
    all.sort_by_key(|relation| relation.oid());
    for relation in all {
        out.add(vec![
            ("oid", row_type(relation.oid())),
            ("typname", text(relation.name())),
            ("typnamespace", oid(relation.schema())),
            ("typowner", oid(relation.owner())),
            ("typlen", Datum::Int2(-1)),
            ("typtype", letter(b'c')),
            ("typcategory", letter(b'C')),
            ("typisdefined", Datum::Bool(true)),
            ("typdelim", letter(b',')),
            ("typrelid", oid(relation.oid())),
            ("typalign", letter(b'd')),
            ("typstorage", letter(b'x')),
            ("typtypmod", Datum::Int4(-1)),
        ]);
    }
}

fn enums(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for found in catalog.enums() {
        for (position, label) in found.labels.iter().enumerate() {
            out.add(vec![
                ("oid", oid(label.oid)),
                ("enumtypid", oid(found.oid)),
                ("enumsortorder", Datum::Float4(position as f32 + 1.0)),
                ("enumlabel", text(&label.label)),
            ]);
        }
    }
}

fn functions(out: &mut Rows<'_>) {
    for function in system::functions() {
        out.add(vec![
            ("oid", Datum::Oid(function.oid)),
            ("proname", text(function.name)),
            ("pronamespace", oid(tenant::catalog::PG_CATALOG)),
            ("proowner", oid(tenant::catalog::OWNER_ROLE)),
            // The language `internal`.
            ("prolang", Datum::Oid(12)),
            ("procost", Datum::Float4(1.0)),
            ("prorows", Datum::Float4(if function.rows { 1000.0 } else { 0.0 })),
            ("provariadic", Datum::Oid(function.variadic)),
            ("prokind", letter(function.kind)),
            ("proisstrict", Datum::Bool(function.strict)),
            ("proretset", Datum::Bool(function.rows)),
            ("provolatile", letter(function.volatility)),
            ("proparallel", letter(b's')),
            ("pronargs", Datum::Int2(function.args.len() as i16)),
            ("prorettype", Datum::Oid(function.result)),
            ("proargtypes", oids(function.args.iter().copied())),
            ("prosrc", text(function.name)),
        ]);
    }
}
