//! Bytes of catalog records: little-endian, field after field, lists and texts behind their length.
//!
//! A record starts with [`RECORD_VERSION`]; a newer one is refused, so that an older server never drops what it does not
//! know. What a record was given later stands at its end, and only where it says something: an older server refuses what goes on
//! behind the end that it knows.

use base::{Oid, TreeId};
use compact_str::CompactString;
use types::{Datum, PgType, TypeMod};

use super::*;
use crate::row::RowLayout;

/// Version of the record forms in this file.
pub(crate) const RECORD_VERSION: u8 = 1;

/// The bytes are not a record of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed(pub(crate) &'static str);

pub(crate) trait Encode {
    fn encode(&self, out: &mut Vec<u8>);
}

pub(crate) trait Decode: Sized {
    fn decode(input: &mut &[u8]) -> Result<Self, Malformed>;
}

/// Takes the first `n` bytes.
pub(crate) fn take<'a>(input: &mut &'a [u8], n: usize) -> Result<&'a [u8], Malformed> {
    let (head, rest) = input.split_at_checked(n).ok_or(Malformed("record ends early"))?;
    *input = rest;
    Ok(head)
}

macro_rules! little_endian {
    ($($ty:ty),*) => {$(
        impl Encode for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
        impl Decode for $ty {
            fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
                let bytes = take(input, size_of::<$ty>())?;
                Ok(<$ty>::from_le_bytes(bytes.try_into().expect("taken at this length")))
            }
        }
    )*};
}
little_endian!(u8, u16, u32, u64, i32, i64, f64);

macro_rules! fields {
    (
        $ty:ident { $($field:ident),* $(,)? }
        $(derived { $($derived:ident : $value:expr),* })?
        $(later { $write:path, $read:path })?
    ) => {
        impl Encode for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$field.encode(out);)*
                $($write(self, out);)?
            }
        }
        impl Decode for $ty {
            fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
                let decoded = $ty { $($field: Decode::decode(input)?,)* $($($derived: $value),*)? };
                $(let decoded = $read(decoded, input)?;)?
                Ok(decoded)
            }
        }
    };
}

macro_rules! newtypes {
    ($($ty:ident),*) => {$(
        impl Encode for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }
        }
        impl Decode for $ty {
            fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
                Ok($ty(Decode::decode(input)?))
            }
        }
    )*};
}
newtypes!(Oid, TreeId, TypeMod, Privileges, Acl);

macro_rules! choices {
    ($ty:ident { $($variant:ident = $tag:literal),* $(,)? }) => {
        impl Encode for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(match self { $($ty::$variant => $tag),* });
            }
        }
        impl Decode for $ty {
            fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
                match u8::decode(input)? {
                    $($tag => Ok($ty::$variant),)*
                    _ => Err(Malformed(concat!("unknown ", stringify!($ty)))),
                }
            }
        }
    };
}

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}
impl Decode for bool {
    fn decode(input: &mut &[u8]) -> Result<bool, Malformed> {
        match u8::decode(input)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("not a truth value")),
        }
    }
}

impl Encode for usize {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::try_from(*self).expect("positions and lengths of the catalog fit four bytes").encode(out);
    }
}
impl Decode for usize {
    fn decode(input: &mut &[u8]) -> Result<usize, Malformed> {
        Ok(u32::decode(input)? as usize)
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        out.extend_from_slice(self.as_bytes());
    }
}
fn decode_str<'a>(input: &mut &'a [u8]) -> Result<&'a str, Malformed> {
    let len = usize::decode(input)?;
    std::str::from_utf8(take(input, len)?).map_err(|_| Malformed("text is not UTF-8"))
}
macro_rules! texts {
    ($($ty:ty),*) => {$(
        impl Encode for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                str::encode(self, out);
            }
        }
        impl Decode for $ty {
            fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
                decode_str(input).map(Into::into)
            }
        }
    )*};
}
texts!(CompactString, Box<str>, Arc<str>);

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}
impl<T: Decode> Decode for Option<T> {
    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        if bool::decode(input)? { T::decode(input).map(Some) } else { Ok(None) }
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Vec<u8>) {
        self.len().encode(out);
        self.iter().for_each(|item| item.encode(out));
    }
}
impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}
impl<T: Decode> Decode for Vec<T> {
    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let len = usize::decode(input)?;
        if len > input.len() {
            return Err(Malformed("list is longer than its record"));
        }
        (0..len).map(|_| T::decode(input)).collect()
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}
impl<A: Decode, B: Decode> Decode for (A, B) {
    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((A::decode(input)?, B::decode(input)?))
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode(self, out);
    }
}
impl<T: Decode> Decode for Box<T> {
    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        T::decode(input).map(Box::new)
    }
}

/// Enums have oids of their tenant; built-in types have PostgreSQL's fixed ones, so the oid names the type.
const TAG_BUILT_IN: u8 = 0;
const TAG_ENUM: u8 = 1;
const TAG_ENUM_ARRAY: u8 = 2;

impl Encode for PgType {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            PgType::Enum(oid) => (TAG_ENUM, *oid).encode(out),
            PgType::Array(types::ElementType::Enum(oid)) => (TAG_ENUM_ARRAY, *oid).encode(out),
            other => (TAG_BUILT_IN, Oid(other.oid())).encode(out),
        }
    }
}
impl Decode for PgType {
    fn decode(input: &mut &[u8]) -> Result<PgType, Malformed> {
        let (tag, oid) = <(u8, Oid)>::decode(input)?;
        match tag {
            TAG_BUILT_IN => PgType::from_oid(oid.0).ok_or(Malformed("unknown type")),
            TAG_ENUM => Ok(PgType::Enum(oid)),
            TAG_ENUM_ARRAY => Ok(PgType::Array(types::ElementType::Enum(oid))),
            _ => Err(Malformed("unknown type")),
        }
    }
}

impl Encode for Datum {
    fn encode(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        crate::row::value::encode_tagged(self, &mut bytes);
        bytes.len().encode(out);
        out.extend_from_slice(&bytes);
    }
}
impl Decode for Datum {
    fn decode(input: &mut &[u8]) -> Result<Datum, Malformed> {
        let len = usize::decode(input)?;
        crate::row::value::decode_tagged(take(input, len)?).ok_or(Malformed("unreadable value"))
    }
}

choices!(Identity { Always = 1, ByDefault = 2 });
choices!(ReferentialAction { NoAction = 1, Restrict = 2, Cascade = 3, SetNull = 4, SetDefault = 5 });
choices!(MatchType { Simple = 1, Full = 2 });
choices!(GrantableKind { Table = 1, Sequence = 2, Schema = 3 });
choices!(Comparison { Equal = 1, NotEqual = 2, Less = 3, LessOrEqual = 4, Greater = 5, GreaterOrEqual = 6 });
choices!(Blanks { Count = 1, Ignored = 2 });
choices!(KeyFunction { Lower = 1, Upper = 2 });

fields!(Schema { oid, name, owner, acl });
fields!(AclItem { grantee, grantor, privileges, grant_options });
fields!(Column { name, ty, typmod, not_null, default, identity, sequence, dropped, missing }
    derived { generated: None });
fields!(IndexConstraint { oid, primary });
fields!(IndexColumn { column, descending, nulls_first } derived { function: None });
fields!(Index { oid, name, columns, unique, nulls_not_distinct, constraint, tree }
    derived { predicate: None, included: Vec::new() });
fields!(CheckConstraint { oid, name, expression, columns } derived { validated: true });
fields!(ForeignKey {
    oid,
    name,
    columns,
    referenced_table,
    referenced_columns,
    referenced_index,
    on_delete,
    on_update,
    match_type
} derived { deferral: Deferral::NotDeferrable, validated: true });
fields!(ReferencedBy { table, constraint });
fields!(Table {
    oid, schema, name, owner, columns, tree, primary_key, indexes, checks, foreign_keys, referenced_by, acl
} derived { layout: RowLayout::default() } later { encode_later_fields, decode_later_fields });
fields!(ViewColumn { name, ty, typmod });
fields!(Dependency { object, column });
fields!(ViewDefinition { oid, schema, name, owner, sql, columns, depends_on, search_path, acl });
fields!(Sequence { oid, schema, name, owner, ty, start, increment, min, max, cache, cycle, owned_by, acl });
fields!(EnumLabel { oid, order, label });
fields!(EnumType { oid, array_oid, schema, name, owner, labels, acl });
fields!(RoleAttributes { superuser, inherit, create_role, create_db, login, replication, bypass_rls });
fields!(Membership { role, grantor, admin_option });
fields!(Role { oid, name, scram_verifier, attributes, connection_limit, valid_until, member_of, settings });
fields!(ColumnStatistics { null_fraction, distinct, width, bounds });
fields!(TableStatistics { rows, columns });
fields!(StartSettings { role, in_database, values });
fields!(DefaultAcl { oid, role, schema, kind, acl });
fields!(Unwatched { table, constraint });
fields!(Extension { oid, name, schema });
fields!(Database { acl, start_settings, default_acls, unwatched }
    derived { extensions: Vec::new() } later { encode_extensions, decode_extensions });

/// The last field of a database, absent where it would be empty.
fn encode_extensions(database: &Database, out: &mut Vec<u8>) {
    if !database.extensions.is_empty() {
        database.extensions.encode(out);
    }
}

fn decode_extensions(mut database: Database, input: &mut &[u8]) -> Result<Database, Malformed> {
    if !input.is_empty() {
        database.extensions = Decode::decode(input)?;
    }
    Ok(database)
}

/// What a constraint has that not every one has, a bit each.
const DEFERRABLE: u8 = 1;
const INITIALLY_DEFERRED: u8 = 2;
const NOT_VALID: u8 = 4;

/// The last fields of a table, each absent where it and what is behind it would be empty: its constraints with such traits, the predicates of its
/// partial indexes, the columns that its indexes include, and the functions of columns that they have by the places in their keys, all by their oids;
/// and what its generated columns are of, both by their positions.
fn encode_later_fields(table: &Table, out: &mut Vec<u8>) {
    let not_valid = |validated: bool| if validated { 0 } else { NOT_VALID };
    let keys = table.foreign_keys.iter().map(|key| {
        let deferral = match key.deferral {
            Deferral::NotDeferrable => 0,
            Deferral::InitiallyImmediate => DEFERRABLE,
            Deferral::InitiallyDeferred => DEFERRABLE | INITIALLY_DEFERRED,
        };
        (key.oid, deferral | not_valid(key.validated))
    });
    let checks = table.checks.iter().map(|check| (check.oid, not_valid(check.validated)));
    let traits: Vec<(Oid, u8)> = keys.chain(checks).filter(|(_, bits)| *bits != 0).collect();
    let predicates: Vec<(Oid, &Arc<RowTest>)> =
        table.indexes.iter().filter_map(|index| Some((index.oid, index.predicate.as_ref()?))).collect();
    let including = || table.indexes.iter().filter(|index| !index.included.is_empty());
    let functions_of = |index: &Index| {
        let keys = index.columns.iter().enumerate();
        keys.filter_map(|(place, key)| Some((place, key.function?))).collect::<Vec<_>>()
    };
    let with_functions = table.indexes.iter().filter(|index| !index.is_plain());
    let functions: Vec<(Oid, Vec<(usize, KeyFunction)>)> =
        with_functions.map(|index| (index.oid, functions_of(index))).collect();
    let columns = table.columns.iter().enumerate();
    let generated: Vec<(usize, Vec<usize>)> = columns
        .filter_map(|(position, column)| Some((position, column.generated.as_ref()?.to_vec())))
        .collect();
    let says = [
        !traits.is_empty(),
        !predicates.is_empty(),
        including().next().is_some(),
        !functions.is_empty(),
        !generated.is_empty(),
    ];
    let fields = says.iter().rposition(|says| *says).map_or(0, |last| last + 1);
    if fields > 0 {
        traits.encode(out);
    }
    if fields > 1 {
        predicates.len().encode(out);
    }
    for (oid, predicate) in predicates {
        oid.encode(out);
        predicate.encode(out);
    }
    if fields > 2 {
        including().count().encode(out);
    }
    for index in including() {
        index.oid.encode(out);
        index.included.encode(out);
    }
    if fields > 3 {
        functions.encode(out);
    }
    if fields > 4 {
        generated.encode(out);
    }
}

fn decode_later_fields(mut table: Table, input: &mut &[u8]) -> Result<Table, Malformed> {
    if !input.is_empty() {
        decode_traits(&mut table, input)?;
    }
    if !input.is_empty() {
        decode_predicates(&mut table, input)?;
    }
    if !input.is_empty() {
        for (oid, included) in Vec::<(Oid, Vec<usize>)>::decode(input)? {
            let is_whole = included.iter().all(|column| *column < table.columns.len());
            let index = table.indexes.iter_mut().find(|index| index.oid == oid);
            let index = index.filter(|_| is_whole).ok_or(Malformed("columns of what is not there"))?;
            index.included = included;
        }
    }
    if !input.is_empty() {
        for (oid, functions) in Vec::<(Oid, Vec<(usize, KeyFunction)>)>::decode(input)? {
            let index = table.indexes.iter_mut().find(|index| index.oid == oid);
            let index = index.ok_or(Malformed("functions of an index that is not there"))?;
            for (place, function) in functions {
                let key = index.columns.get_mut(place);
                let key = key.ok_or(Malformed("a function of a key that is not there"))?;
                key.function = Some(function);
            }
        }
    }
    if !input.is_empty() {
        decode_generated(&mut table, input)?;
    }
    Ok(table)
}

fn decode_generated(table: &mut Table, input: &mut &[u8]) -> Result<(), Malformed> {
    let width = table.columns.len();
    for (position, named) in Vec::<(usize, Vec<usize>)>::decode(input)? {
        let column = table.columns.get_mut(position).filter(|column| column.default.is_some());
        let is_whole = named.iter().all(|named| *named < width && *named != position);
        let column =
            column.filter(|_| is_whole).ok_or(Malformed("generated column without what it is of"))?;
        column.generated = Some(named.into());
    }
    Ok(())
}

fn decode_predicates(table: &mut Table, input: &mut &[u8]) -> Result<(), Malformed> {
    for (oid, predicate) in Vec::<(Oid, RowTest)>::decode(input)? {
        let mut is_whole = true;
        predicate.for_each_column(&mut |column| is_whole &= column < table.columns.len());
        let index = table.indexes.iter_mut().find(|index| index.oid == oid);
        let index = index.filter(|_| is_whole).ok_or(Malformed("predicate of what is not there"))?;
        index.predicate = Some(Arc::new(predicate));
    }
    Ok(())
}

fn decode_traits(table: &mut Table, input: &mut &[u8]) -> Result<(), Malformed> {
    for (oid, bits) in Vec::<(Oid, u8)>::decode(input)? {
        let deferral = match bits & !NOT_VALID {
            0 => Deferral::NotDeferrable,
            DEFERRABLE => Deferral::InitiallyImmediate,
            both if both == DEFERRABLE | INITIALLY_DEFERRED => Deferral::InitiallyDeferred,
            _ => return Err(Malformed("unknown trait of a constraint")),
        };
        let validated = bits & NOT_VALID == 0;
        if let Some(key) = table.foreign_keys.iter_mut().find(|key| key.oid == oid) {
            (key.deferral, key.validated) = (deferral, validated);
        } else if let Some(check) = table.checks.iter_mut().find(|check| check.oid == oid) {
            check.validated = validated;
        } else {
            return Err(Malformed("traits of a constraint that is not there"));
        }
    }
    Ok(())
}
