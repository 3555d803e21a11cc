//! Schemas, comments, privileges and owners.

use base::{Oid, SqlError, SqlResult, SqlState};
use types::{Datum, row_memory};

use super::Ddl;
use super::constraints::given_name;
use crate::catalog::{Acl, DATABASE, GrantableKind, Relation, Schema, TableStatistics};
use crate::interrupt::Step;

/// Bytes of memory of the smallest and the largest value of a column that are kept.
const BOUNDS_LEN_MAX: usize = 1 << 10;

impl Ddl<'_> {
    /// Errors: 42P06 where the name is taken, 42939 for a name that begins with `pg_`.
    pub fn create_schema(&mut self, name: &str, owner: Oid) -> SqlResult<Oid> {
        self.require_free_schema(name)?;
        let oid = self.new_oid();
        let acl = self.catalog().initial_acl(owner, None, GrantableKind::Schema);
        self.edit().put_schema(Schema { oid, name: name.into(), owner, acl });
        Ok(oid)
    }

    /// Errors: 42P06, 42939.
    pub fn rename_schema(&mut self, oid: Oid, name: &str) -> SqlResult<()> {
        self.require_free_schema(name)?;
        let mut schema = self.schema(oid)?;
        schema.name = name.into();
        self.edit().put_schema(schema);
        Ok(())
    }

    fn require_free_schema(&self, name: &str) -> SqlResult<()> {
        if name.starts_with("pg_") {
            return Err(SqlError::new(
                SqlState::RESERVED_NAME,
                format!("unacceptable schema name \"{name}\""),
            )
            .with_detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        if self.catalog().schema_named(name).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_SCHEMA,
                format!("schema \"{name}\" already exists"),
            ));
        }
        Ok(())
    }

    fn schema(&self, oid: Oid) -> SqlResult<Schema> {
        self.catalog().schema(oid).map(|s| (**s).clone()).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema with OID {oid} does not exist"))
        })
    }

    /// `COMMENT ON`: of a column where one is given; `None` takes it away.
    pub fn set_comment(&mut self, object: Oid, column: Option<usize>, text: Option<&str>) {
        self.edit().set_comment(object, column, text);
    }

    /// What ANALYZE found out. Bounds that are long are left out: the catalog is in memory as a whole.
    pub fn set_statistics(&mut self, table: Oid, mut statistics: TableStatistics) {
        for column in statistics.columns.iter_mut().flatten() {
            let len = |value: &Datum| row_memory(std::slice::from_ref(value));
            column.bounds.take_if(|bounds| len(&bounds.0) + len(&bounds.1) > BOUNDS_LEN_MAX);
        }
        self.edit().put_statistics(table, statistics);
    }

    /// The access list of a relation, schema or type, or of the database.
    pub fn set_acl(&mut self, object: Oid, acl: Acl) -> SqlResult<()> {
        if object == DATABASE {
            return self.change_database(|database| {
                database.acl = Some(acl);
                Ok(())
            });
        }
        self.change_object(object, |part| match part {
            Part::Acl(slot) => *slot = Some(acl.clone()),
            Part::Owner(_) => {}
        })
    }

    /// The owner of a relation, schema or type. Sequences owned by a table's columns follow their table.
    pub fn set_owner(&mut self, object: Oid, owner: Oid) -> SqlResult<()> {
        let followers = self.catalog().sequences().filter(|s| s.owned_by.is_some_and(|(t, _)| t == object));
        let followers: Vec<Oid> = followers.map(|s| s.oid).collect();
        for object in followers.into_iter().chain([object]) {
            let mut before = owner;
            self.change_object(object, |part| match part {
                Part::Owner(slot) => before = std::mem::replace(slot, owner),
                Part::Acl(slot) => slot.iter_mut().for_each(|acl| acl.change_owner(before, owner)),
            })?;
        }
        Ok(())
    }

    fn change_object(&mut self, object: Oid, mut change: impl FnMut(Part<'_>)) -> SqlResult<()> {
        match self.catalog().relation(object).cloned() {
            Some(Relation::Table(table)) => {
                let mut table = (*table).clone();
                change(Part::Owner(&mut table.owner));
                change(Part::Acl(&mut table.acl));
                self.edit().put_table(table);
            }
            Some(Relation::View(view)) => {
                let mut view = (*view).clone();
                change(Part::Owner(&mut view.owner));
                change(Part::Acl(&mut view.acl));
                self.edit().put_view(view);
            }
            Some(Relation::Sequence(sequence)) => {
                let mut sequence = (*sequence).clone();
                change(Part::Owner(&mut sequence.owner));
                change(Part::Acl(&mut sequence.acl));
                self.edit().put_sequence(sequence);
            }
            Some(Relation::Index(..)) => {
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, "an index has no owner of its own"));
            }
            None if let Some(ty) = self.catalog().enum_type(object).cloned() => {
                let mut ty = (*ty).clone();
                change(Part::Owner(&mut ty.owner));
                change(Part::Acl(&mut ty.acl));
                self.edit().put_enum(ty);
            }
            None => {
                let mut schema = self.schema(object)?;
                change(Part::Owner(&mut schema.owner));
                change(Part::Acl(&mut schema.acl));
                self.edit().put_schema(schema);
            }
        }
        Ok(())
    }

    /// Renames a table, index, view or sequence, with an index the constraint that it stands for. Errors: 42P07 and 42710 where the name is taken, 42P01.
    pub fn rename_relation(&mut self, oid: Oid, name: &str) -> Step<()> {
        let Some(relation) = self.catalog().relation(oid).cloned() else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation with OID {oid} does not exist"),
            )
            .into());
        };
        self.require_free_name(relation.schema(), name)?;
        match relation {
            Relation::Table(_) => {
                let mut table = self.open_table(oid)?;
                table.name = name.into();
                self.edit().put_table(table);
            }
            Relation::Index(table, at) => {
                let mut table = self.open_table(table.oid)?;
                if table.indexes[at].constraint.is_some() {
                    given_name(&table, name.to_owned())?;
                }
                table.indexes[at].name = name.into();
                self.edit().put_table(table);
            }
            Relation::View(view) => {
                let mut view = (*view).clone();
                view.name = name.into();
                self.edit().put_view(view);
            }
            Relation::Sequence(sequence) => {
                let mut sequence = (*sequence).clone();
                sequence.name = name.into();
                self.edit().put_sequence(sequence);
            }
        }
        Ok(())
    }

    /// `ALTER … SET SCHEMA` of a table (with its sequences), view or sequence. Errors: 42P07, 42P01.
    pub fn set_relation_schema(&mut self, oid: Oid, schema: Oid) -> Step<()> {
        let Some(relation) = self.catalog().relation(oid).cloned() else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("relation with OID {oid} does not exist"),
            )
            .into());
        };
        if relation.schema() == schema {
            return Ok(());
        }
        self.require_free_name(schema, relation.name())?;
        match relation {
            Relation::Table(_) => {
                let mut table = self.open_table(oid)?;
                for index in &table.indexes {
                    self.require_free_name(schema, &index.name)?;
                }
                table.schema = schema;
                self.edit().put_table(table);
                let owned = self.catalog().sequences().filter(|s| s.owned_by.is_some_and(|(t, _)| t == oid));
                for sequence in owned.map(|s| s.oid).collect::<Vec<_>>() {
                    self.set_relation_schema(sequence, schema)?;
                }
            }
            Relation::View(view) => {
                let mut view = (*view).clone();
                view.schema = schema;
                self.edit().put_view(view);
            }
            Relation::Sequence(sequence) => {
                let mut sequence = (*sequence).clone();
                sequence.schema = schema;
                self.edit().put_sequence(sequence);
            }
            Relation::Index(..) => {
                return Err(
                    SqlError::new(SqlState::WRONG_OBJECT_TYPE, "an index is in its table's schema").into()
                );
            }
        }
        Ok(())
    }
}

/// The parts that relations, schemas and types have alike.
enum Part<'a> {
    Acl(&'a mut Option<Acl>),
    Owner(&'a mut Oid),
}
