//! The records of the catalog tree: one for each object, found by its kind and oid.
//!
//! | key | value |
//! | --- | --- |
//! | kind (1 byte), oid (4, big-endian), column position + 1 (2, comments only) | version (1), the object's fields |
//!
//! The kinds of this file are the catalog; the others in [`RecordKind`] belong to `tenant` and `sequence`.

use base::Oid;

use super::codec::{RECORD_VERSION, take};
use super::*;

/// What a record of the catalog tree describes. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// The next oid and tree id to give out; a single record.
    Counters = 1,
    Role = 2,
    Schema = 3,
    Enum = 4,
    Sequence = 5,
    Table = 6,
    View = 7,
    Comment = 8,
    Statistics = 9,
    /// A sequence's current value, by the sequence's oid. Changes outside transactions.
    SequenceState = 10,
    /// A tree's root page and number of entries, by tree id. Written by checkpoints, never logged.
    Tree = 11,
    /// What is said of the database as a whole; a single record, and none where nothing is.
    Database = 12,
}

/// Key of a record in the catalog tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordKey {
    pub(crate) kind: RecordKind,
    pub(crate) id: u32,
    /// Column position; comments only.
    pub(crate) column: Option<usize>,
}

impl RecordKind {
    const ALL: [RecordKind; 12] = [
        RecordKind::Counters,
        RecordKind::Role,
        RecordKind::Schema,
        RecordKind::Enum,
        RecordKind::Sequence,
        RecordKind::Table,
        RecordKind::View,
        RecordKind::Comment,
        RecordKind::Statistics,
        RecordKind::SequenceState,
        RecordKind::Tree,
        RecordKind::Database,
    ];

    pub(crate) fn key(self, id: u32) -> RecordKey {
        RecordKey { kind: self, id, column: None }
    }
}

impl RecordKey {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut out = vec![self.kind as u8];
        out.extend_from_slice(&self.id.to_be_bytes());
        if let Some(column) = self.column {
            let number = u16::try_from(column + 1).expect("a table has at most 1600 columns");
            out.extend_from_slice(&number.to_be_bytes());
        }
        out
    }

    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Result<RecordKey, Malformed> {
        let tag = take(&mut bytes, 1)?[0];
        let kind = RecordKind::ALL
            .into_iter()
            .find(|k| *k as u8 == tag)
            .ok_or(Malformed("unknown kind of record"))?;
        let id = u32::from_be_bytes(take(&mut bytes, 4)?.try_into().expect("taken at this length"));
        let column = match bytes {
            [] => None,
            [high, low] => Some(usize::from(u16::from_be_bytes([*high, *low])).saturating_sub(1)),
            _ => return Err(Malformed("key is too long")),
        };
        Ok(RecordKey { kind, id, column })
    }
}

/// A change of the catalog tree: the record's key, and its new value or `None` where it goes away.
pub(crate) type RecordChange = (RecordKey, Option<Vec<u8>>);

/// An object as a record's value.
pub(crate) fn encode_record(object: &impl Encode) -> Vec<u8> {
    let mut out = vec![RECORD_VERSION];
    object.encode(&mut out);
    out
}

/// The object of a record's value.
pub(crate) fn decode_record<T: Decode>(mut value: &[u8]) -> Result<T, Malformed> {
    if u8::decode(&mut value)? != RECORD_VERSION {
        return Err(Malformed("record was written by a newer version"));
    }
    let object = T::decode(&mut value)?;
    if value.is_empty() { Ok(object) } else { Err(Malformed("record goes on after its end")) }
}

impl Catalog {
    /// What turns `self`'s records into `new`'s. Objects that are still shared between the two cost one comparison.
    pub(crate) fn changes_to(&self, new: &Catalog) -> Vec<RecordChange> {
        let mut changes = Vec::new();
        for (oid, schema) in &new.schemas {
            if !self.schemas.get(oid).is_some_and(|old| Arc::ptr_eq(old, schema)) {
                changes.push((RecordKind::Schema.key(oid.0), Some(encode_record(&**schema))));
            }
        }
        for (oid, ty) in &new.enums {
            if !self.enums.get(oid).is_some_and(|old| Arc::ptr_eq(old, ty)) {
                changes.push((RecordKind::Enum.key(oid.0), Some(encode_record(&**ty))));
            }
        }
        for (oid, role) in &new.roles {
            if !self.roles.get(oid).is_some_and(|old| Arc::ptr_eq(old, role)) {
                changes.push((RecordKind::Role.key(oid.0), Some(encode_record(&**role))));
            }
        }
        for (oid, relation) in &new.relations {
            if self.relations.get(oid).is_some_and(|old| old.is_same(relation)) {
                continue;
            }
            match relation {
                Relation::Table(t) => changes.push((RecordKind::Table.key(oid.0), Some(encode_record(&**t)))),
                Relation::View(v) => changes.push((RecordKind::View.key(oid.0), Some(encode_record(&**v)))),
                Relation::Sequence(s) => {
                    changes.push((RecordKind::Sequence.key(oid.0), Some(encode_record(&**s))));
                }
                Relation::Index(..) => {}
            }
        }
        for (&(oid, column), text) in &new.comments {
            if !self.comments.get(&(oid, column)).is_some_and(|old| Arc::ptr_eq(old, text)) {
                let key = RecordKey { kind: RecordKind::Comment, id: oid.0, column };
                changes.push((key, Some(encode_record(text))));
            }
        }
        for (oid, statistics) in &new.statistics {
            if !self.statistics.get(oid).is_some_and(|old| Arc::ptr_eq(old, statistics)) {
                changes.push((RecordKind::Statistics.key(oid.0), Some(encode_record(&**statistics))));
            }
        }
        if let Some(database) = &new.database
            && !self.database.as_ref().is_some_and(|old| Arc::ptr_eq(old, database))
        {
            changes.push((RecordKind::Database.key(0), Some(encode_record(&**database))));
        }
        self.push_removals(new, &mut changes);
        changes.sort_by_cached_key(|(key, _)| key.to_bytes());
        changes
    }

    fn push_removals(&self, new: &Catalog, changes: &mut Vec<RecordChange>) {
        let mut gone = |kind: RecordKind, oid: Oid| changes.push((kind.key(oid.0), None));
        self.schemas
            .keys()
            .filter(|o| !new.schemas.contains_key(o))
            .for_each(|o| gone(RecordKind::Schema, *o));
        self.enums.keys().filter(|o| !new.enums.contains_key(o)).for_each(|o| gone(RecordKind::Enum, *o));
        self.roles.keys().filter(|o| !new.roles.contains_key(o)).for_each(|o| gone(RecordKind::Role, *o));
        self.statistics
            .keys()
            .filter(|o| !new.statistics.contains_key(o))
            .for_each(|o| gone(RecordKind::Statistics, *o));
        if self.database.is_some() && new.database.is_none() {
            gone(RecordKind::Database, Oid(0));
        }
        for (oid, relation) in self.relations.iter().filter(|(o, _)| !new.relations.contains_key(o)) {
            match relation {
                Relation::Table(_) => gone(RecordKind::Table, *oid),
                Relation::View(_) => gone(RecordKind::View, *oid),
                Relation::Sequence(_) => gone(RecordKind::Sequence, *oid),
                Relation::Index(..) => {}
            }
        }
        for &(oid, column) in self.comments.keys().filter(|k| !new.comments.contains_key(k)) {
            changes.push((RecordKey { kind: RecordKind::Comment, id: oid.0, column }, None));
        }
    }

    /// Takes over one record; those of kinds that are not the catalog's are left alone.
    pub(crate) fn apply_record(&mut self, key: RecordKey, value: Option<&[u8]>) -> Result<(), Malformed> {
        let oid = Oid(key.id);
        match (key.kind, value) {
            (RecordKind::Schema, Some(v)) => self.put_schema(decode_record(v)?),
            (RecordKind::Schema, None) => self.remove_schema(oid),
            (RecordKind::Enum, Some(v)) => self.put_enum(decode_record(v)?),
            (RecordKind::Enum, None) => self.remove_enum(oid),
            (RecordKind::Role, Some(v)) => self.put_role(decode_record(v)?),
            (RecordKind::Role, None) => self.remove_role(oid),
            (RecordKind::Table, Some(v)) => self.put_table(decode_record(v)?),
            (RecordKind::View, Some(v)) => self.put_view(decode_record(v)?),
            (RecordKind::Sequence, Some(v)) => self.put_sequence(decode_record(v)?),
            (RecordKind::Table | RecordKind::View | RecordKind::Sequence, None) => self.remove_relation(oid),
            (RecordKind::Comment, Some(v)) => self.put_comment(oid, key.column, Some(decode_record(v)?)),
            (RecordKind::Comment, None) => self.put_comment(oid, key.column, None),
            (RecordKind::Statistics, Some(v)) => self.put_statistics(oid, decode_record(v)?),
            (RecordKind::Statistics, None) => self.remove_statistics(oid),
            // Also one that says nothing, as there were: the next change takes it away.
            (RecordKind::Database, Some(v)) => self.database = Some(Arc::new(decode_record(v)?)),
            (RecordKind::Database, None) => self.database = None,
            (RecordKind::Counters | RecordKind::SequenceState | RecordKind::Tree, _) => return Ok(()),
        }
        self.changed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applying_the_changes_between_two_catalogs_turns_one_into_the_other() {
        let old = Catalog::bootstrap("owner", None);
        let mut new = old.clone();
        let mut table = Table::new(Oid(16384), PUBLIC_SCHEMA, "t", OWNER_ROLE, base::TreeId(7));
        let mut column = Column::new("a", types::PgType::Int4, types::TypeMod::NONE);
        column.missing = Some(Box::new(types::Datum::Int4(5)));
        table.columns.push(column);
        new.put_table(table);
        new.comments.insert((Oid(16384), Some(0)), "a comment".into());
        new.remove_schema(INFORMATION_SCHEMA);
        let mut database = Database::NOTHING_SAID.clone();
        database.acl = Some(Acl::of_database());
        let values = vec![("work_mem".into(), "1MB".into())];
        database.start_settings.push(StartSettings { role: PUBLIC, in_database: true, values });
        let unwatched = Unwatched { table: Oid(16384), constraint: Oid(16385) };
        database.unwatched.push(unwatched);
        let (schema, kind) = (Some(PUBLIC_SCHEMA), GrantableKind::Sequence);
        let default = DefaultAcl { oid: Oid(16386), role: OWNER_ROLE, schema, kind, acl: Acl::default() };
        database.default_acls.push(default);
        let extension = Extension { oid: Oid(16387), name: "uuid-ossp".into(), schema: PUBLIC_SCHEMA };
        database.extensions.push(extension);
        new.put_database(database);

        let mut replayed = old.clone();
        for (key, value) in old.changes_to(&new) {
            let key = RecordKey::from_bytes(&key.to_bytes()).unwrap();
            replayed.apply_record(key, value.as_deref()).unwrap();
        }
        assert_eq!(
            format!("{:?}", replayed.tables().collect::<Vec<_>>()),
            format!("{:?}", new.tables().collect::<Vec<_>>())
        );
        assert_eq!(replayed.comment(Oid(16384), Some(0)), Some("a comment"));
        assert!(replayed.schema(INFORMATION_SCHEMA).is_none());
        assert_eq!(replayed.database(), new.database());
        let rest = new.changes_to(&new.clone());
        assert!(rest.is_empty(), "{rest:?}");
    }

    #[test]
    fn the_database_has_no_record_where_nothing_is_said_of_it_any_more() {
        let nothing = Catalog::bootstrap("owner", None);
        let (mut said, mut unsaid) = (nothing.clone(), nothing.clone());
        let mut database = Database::NOTHING_SAID.clone();
        database.unwatched.push(Unwatched { table: Oid(16384), constraint: Oid(16385) });
        said.put_database(database);
        unsaid.put_database(Database::NOTHING_SAID.clone());
        assert_eq!(nothing.changes_to(&unsaid), []);
        assert_eq!(said.changes_to(&unsaid), [(RecordKind::Database.key(0), None)]);

        // One that was written all the same goes with the next change.
        let mut read = nothing;
        let record = encode_record(Database::NOTHING_SAID);
        read.apply_record(RecordKind::Database.key(0), Some(&record)).unwrap();
        assert_eq!(read.changes_to(&unsaid), [(RecordKind::Database.key(0), None)]);
        read.apply_record(RecordKind::Database.key(0), None).unwrap();
        assert_eq!(read.changes_to(&unsaid), []);
    }

    #[test]
    fn extensions_stand_behind_a_database_that_has_some_and_behind_no_other() {
        let mut database = Database::NOTHING_SAID.clone();
        database.acl = Some(Acl::of_database());
        // As databases were written before there were any extensions: nothing follows.
        let without = encode_record(&database);
        assert_eq!(decode_record::<Database>(&without), Ok(database.clone()));
        database.extensions.push(Extension {
            oid: Oid(16384),
            name: "pgcrypto".into(),
            schema: PUBLIC_SCHEMA,
        });
        let with = encode_record(&database);
        assert_eq!((&with[..without.len()], with.len()), (&without[..], without.len() + 4 + 4 + 12 + 4));
        assert_eq!(decode_record::<Database>(&with), Ok(database));
    }

    #[test]
    fn traits_of_constraints_stand_behind_a_table_that_has_some_and_behind_no_other() {
        let mut table = Table::new(Oid(16384), PUBLIC_SCHEMA, "t", OWNER_ROLE, base::TreeId(7));
        table.checks.push(CheckConstraint {
            oid: Oid(16385),
            name: "c".into(),
            expression: "true".into(),
            columns: Vec::new(),
            validated: true,
        });
        for deferral in [Deferral::NotDeferrable, Deferral::InitiallyImmediate, Deferral::InitiallyDeferred] {
            table.foreign_keys.push(ForeignKey {
                oid: Oid(16386 + table.foreign_keys.len() as u32),
                name: "k".into(),
                columns: vec![0],
                referenced_table: Oid(16384),
                referenced_columns: vec![0],
                referenced_index: Oid(16390),
                on_delete: ReferentialAction::NoAction,
                on_update: ReferentialAction::NoAction,
                match_type: MatchType::Simple,
                deferral,
                validated: deferral.is_deferrable(),
            });
        }
        let read = decode_record::<Table>(&encode_record(&table)).unwrap();
        assert_eq!((&read.foreign_keys, &read.checks), (&table.foreign_keys, &table.checks));
        table.checks[0].validated = false;
        let read = decode_record::<Table>(&encode_record(&table)).unwrap();
        assert_eq!(read.checks, table.checks);

        // As tables were written before there were any traits: nothing follows.
        let with = encode_record(&table).len();
        table.checks[0].validated = true;
        for key in &mut table.foreign_keys {
            (key.deferral, key.validated) = (Deferral::NotDeferrable, true);
        }
        let without = encode_record(&table);
        assert_eq!(with - without.len(), 4 + 4 * 5, "a count, and an oid and a byte for each");
        assert_eq!(decode_record::<Table>(&without).unwrap().foreign_keys, table.foreign_keys);
    }

    #[test]
    fn predicates_stand_behind_the_traits_of_a_table_that_has_partial_indexes() {
        let mut table = Table::new(Oid(16384), PUBLIC_SCHEMA, "t", OWNER_ROLE, base::TreeId(7));
        table.columns.push(Column::new("a", types::PgType::Bool, types::TypeMod::NONE));
        let index = |oid: u32, predicate: Option<RowTest>| Index {
            oid: Oid(oid),
            name: "i".into(),
            columns: vec![IndexColumn::ascending(0)],
            unique: false,
            nulls_not_distinct: false,
            constraint: None,
            tree: base::TreeId(oid),
            predicate: predicate.map(Arc::new),
            included: Vec::new(),
        };
        table.indexes.push(index(16385, None));
        // As tables were written before there were any: nothing follows.
        let without = encode_record(&table);
        assert_eq!(decode_record::<Table>(&without).unwrap().indexes, table.indexes);
        table.indexes.push(index(16386, None));
        let two = encode_record(&table).len();
        table.indexes[1].predicate = Some(Arc::new(RowTest::IsNull { column: 0, negated: false }));
        let with = encode_record(&table);
        assert_eq!(with.len() - two, 4 + (4 + 4 + 6), "no traits, and an oid and a condition");
        assert_eq!(decode_record::<Table>(&with).unwrap().indexes, table.indexes);
        // And the columns that are included behind them.
        for predicate in [table.indexes[1].predicate.clone(), None] {
            table.indexes[1].predicate = predicate;
            table.indexes[0].included = vec![0, 0];
            assert_eq!(decode_record::<Table>(&encode_record(&table)).unwrap().indexes, table.indexes);
        }
        assert_eq!(encode_record(&table).len() - two, 4 + 4 + 4 + (4 + 4 + 8));
        table.indexes[0].columns[0].function = Some(KeyFunction::Upper);
        assert_eq!(decode_record::<Table>(&encode_record(&table)).unwrap().indexes, table.indexes);
        let included = std::mem::take(&mut table.indexes[0].included);
        let functions = encode_record(&table);
        assert_eq!(functions.len() - two, 4 + 4 + 4 + 4 + (4 + 4 + 4 + 1), "nothing else, and a function");
        assert_eq!(decode_record::<Table>(&functions).unwrap().indexes, table.indexes);
        assert_eq!(included, [0, 0]);
        table.indexes[0].columns[0].function = None;
        table.indexes[0].included = vec![1];
        assert!(decode_record::<Table>(&encode_record(&table)).is_err(), "a column that is not there");
        table.indexes[0].included = Vec::new();
        table.indexes[1].predicate = Some(Arc::new(RowTest::True(1)));
        assert!(decode_record::<Table>(&encode_record(&table)).is_err(), "a column that is not there");
    }

    #[test]
    fn what_generated_columns_are_of_stands_at_a_tables_end() {
        let mut table = Table::new(Oid(16384), PUBLIC_SCHEMA, "t", OWNER_ROLE, base::TreeId(7));
        for name in ["a", "b"] {
            table.columns.push(Column::new(name, types::PgType::Int4, types::TypeMod::NONE));
        }
        table.columns[1].default = Some("a * 2".into());
        // As tables were written before there were any: nothing follows.
        let without = encode_record(&table);
        assert_eq!(decode_record::<Table>(&without).unwrap().columns, table.columns);
        table.columns[1].generated = Some([0].into());
        let with = encode_record(&table);
        let len = 4 * 4 + 4 + (4 + 4 + 4);
        assert_eq!(with.len() - without.len(), len, "nothing of others; a column, and one that it is of");
        assert_eq!(decode_record::<Table>(&with).unwrap().columns, table.columns);
        // Of one that is not there, and of itself.
        for of in [2, 1] {
            table.columns[1].generated = Some([of].into());
            assert!(decode_record::<Table>(&encode_record(&table)).is_err());
        }
    }

    #[test]
    fn a_newer_record_is_refused() {
        let mut value = encode_record(&Box::<str>::from("x"));
        assert_eq!(decode_record::<Box<str>>(&value).as_deref(), Ok("x"));
        value[0] += 1;
        assert!(decode_record::<Box<str>>(&value).is_err());
    }
}
