//! Finding objects by name and oid, and the only places that put objects in and take them out.
//!
//! A search path is a list of schema oids; PostgreSQL's rule that `pg_catalog` comes first unless named is applied by
//! [`Catalog::search_path`].

use base::{Oid, SqlError, SqlResult, SqlState};
use compact_str::CompactString;
use rustc_hash::FxHashSet;

use super::*;

impl Relation {
    pub fn oid(&self) -> Oid {
        match self {
            Relation::Table(t) => t.oid,
            Relation::Index(t, i) => t.indexes[*i].oid,
            Relation::View(v) => v.oid,
            Relation::Sequence(s) => s.oid,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Relation::Table(t) => &t.name,
            Relation::Index(t, i) => &t.indexes[*i].name,
            Relation::View(v) => &v.name,
            Relation::Sequence(s) => &s.name,
        }
    }

    pub fn schema(&self) -> Oid {
        match self {
            Relation::Table(t) | Relation::Index(t, _) => t.schema,
            Relation::View(v) => v.schema,
            Relation::Sequence(s) => s.schema,
        }
    }

    pub fn owner(&self) -> Oid {
        match self {
            Relation::Table(t) | Relation::Index(t, _) => t.owner,
            Relation::View(v) => v.owner,
            Relation::Sequence(s) => s.owner,
        }
    }

    /// PostgreSQL's word for the kind: `table`, `index`, `view`, `sequence`.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Table(_) => "table",
            Relation::Index(..) => "index",
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
        }
    }

    /// Whether both are the same version of the same object.
    pub(crate) fn is_same(&self, other: &Relation) -> bool {
        match (self, other) {
            (Relation::Table(a), Relation::Table(b)) => Arc::ptr_eq(a, b),
            (Relation::Index(a, i), Relation::Index(b, j)) => Arc::ptr_eq(a, b) && i == j,
            (Relation::View(a), Relation::View(b)) => Arc::ptr_eq(a, b),
            (Relation::Sequence(a), Relation::Sequence(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Table {
    /// A table without columns.
    pub fn new(
        oid: Oid,
        schema: Oid,
        name: impl Into<CompactString>,
        owner: Oid,
        tree: base::TreeId,
    ) -> Table {
        Table {
            oid,
            schema,
            name: name.into(),
            owner,
            columns: Vec::new(),
            tree,
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            referenced_by: Vec::new(),
            acl: None,
            layout: Default::default(),
        }
    }
}

impl Catalog {
    /// Changes with every change; statements planned against another version must be planned again.
    pub fn version(&self) -> u64 {
        self.version
    }

    // ---- schemas ----

    pub fn schemas(&self) -> impl Iterator<Item = &Arc<Schema>> {
        self.schemas.values()
    }
    pub fn schema(&self, oid: Oid) -> Option<&Arc<Schema>> {
        self.schemas.get(&oid)
    }
    pub fn schema_named(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas.values().find(|s| s.name == name)
    }
    /// The name of a schema that must exist.
    pub fn schema_name(&self, oid: Oid) -> &str {
        self.schemas.get(&oid).map_or("", |s| &s.name)
    }

    /// The schemas to search, in order: those of `names` that exist (`$user` stands for the user's name) and that the user may use, with
    /// `pg_catalog` first unless it is named. A user that is no role here is the administrator, who may use all.
    pub fn search_path<'a>(&self, names: impl IntoIterator<Item = &'a str>, user: &str) -> Vec<Oid> {
        let role = self.role_named(user).map(|role| role.oid);
        let mut path = Vec::new();
        for name in names {
            let name = if name == "$user" { user } else { name };
            if let Some(schema) = self.schema_named(name)
                && !path.contains(&schema.oid)
                && role.is_none_or(|role| self.may_use_schema(role, schema))
            {
                path.push(schema.oid);
            }
        }
        if !path.contains(&PG_CATALOG) {
            path.insert(0, PG_CATALOG);
        }
        path
    }

    /// The schema new objects are made in: the named one, or the first of the path that is not the system's.
    ///
    /// Errors: 3F000 where there is none.
    pub fn creation_schema(&self, schema: Option<&str>, path: &[Oid]) -> SqlResult<Oid> {
        match schema {
            Some(name) => match self.schema_named(name) {
                Some(schema) => Ok(schema.oid),
                None => Err(SqlError::new(
                    SqlState::INVALID_SCHEMA_NAME,
                    format!("schema \"{name}\" does not exist"),
                )),
            },
            None => path
                .iter()
                .copied()
                .find(|oid| *oid != PG_CATALOG && *oid != INFORMATION_SCHEMA)
                .ok_or_else(|| {
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
                }),
        }
    }

    // ---- relations ----

    pub fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.relations.values()
    }
    /// All tables, in no order.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.relations.values().filter_map(|r| if let Relation::Table(t) = r { Some(t) } else { None })
    }
    pub fn views(&self) -> impl Iterator<Item = &Arc<ViewDefinition>> {
        self.relations.values().filter_map(|r| if let Relation::View(v) = r { Some(v) } else { None })
    }
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.relations.values().filter_map(|r| if let Relation::Sequence(s) = r { Some(s) } else { None })
    }
    pub fn relation(&self, oid: Oid) -> Option<&Relation> {
        self.relations.get(&oid)
    }
    pub fn table(&self, oid: Oid) -> Option<&Arc<Table>> {
        if let Some(Relation::Table(t)) = self.relations.get(&oid) { Some(t) } else { None }
    }
    pub fn view(&self, oid: Oid) -> Option<&Arc<ViewDefinition>> {
        if let Some(Relation::View(v)) = self.relations.get(&oid) { Some(v) } else { None }
    }
    pub fn sequence(&self, oid: Oid) -> Option<&Arc<Sequence>> {
        if let Some(Relation::Sequence(s)) = self.relations.get(&oid) { Some(s) } else { None }
    }
    pub fn relation_in(&self, schema: Oid, name: &str) -> Option<&Relation> {
        self.relation_names.get(&(schema, CompactString::new(name))).and_then(|oid| self.relations.get(oid))
    }

    /// The relation of that name in the named schema, or in the first of the path that has one.
    pub fn find_relation(&self, schema: Option<&str>, name: &str, path: &[Oid]) -> Option<&Relation> {
        match schema {
            Some(schema) => self.relation_in(self.schema_named(schema)?.oid, name),
            None => path.iter().find_map(|oid| self.relation_in(*oid, name)),
        }
    }

    /// As [`Catalog::find_relation`]; errors: 42P01.
    pub fn resolve_relation(&self, schema: Option<&str>, name: &str, path: &[Oid]) -> SqlResult<&Relation> {
        self.find_relation(schema, name, path).ok_or_else(|| {
            let full = schema.map_or(name.to_owned(), |s| format!("{s}.{name}"));
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{full}\" does not exist"))
        })
    }

    /// The table of that name. Errors: 42P01 where nothing has the name, 42809 where something else has it.
    pub fn resolve_table(&self, schema: Option<&str>, name: &str, path: &[Oid]) -> SqlResult<&Arc<Table>> {
        match self.resolve_relation(schema, name, path)? {
            Relation::Table(t) => Ok(t),
            _ => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a table"))),
        }
    }

    /// The sequence of that name. Errors: 42P01, 42809.
    pub fn resolve_sequence(
        &self,
        schema: Option<&str>,
        name: &str,
        path: &[Oid],
    ) -> SqlResult<&Arc<Sequence>> {
        match self.resolve_relation(schema, name, path)? {
            Relation::Sequence(s) => Ok(s),
            _ => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence"))),
        }
    }

    // ---- types, roles, comments, statistics ----

    pub fn enums(&self) -> impl Iterator<Item = &Arc<EnumType>> {
        self.enums.values()
    }
    pub fn enum_type(&self, oid: Oid) -> Option<&Arc<EnumType>> {
        self.enums.get(&oid)
    }
    /// The enum whose array type has this oid.
    pub fn enum_of_array(&self, array_oid: Oid) -> Option<&Arc<EnumType>> {
        self.enums.values().find(|e| e.array_oid == array_oid)
    }
    pub fn find_enum(&self, schema: Option<&str>, name: &str, path: &[Oid]) -> Option<&Arc<EnumType>> {
        let in_schema = |oid: Oid| self.enums.values().find(|e| e.schema == oid && e.name == name);
        match schema {
            Some(schema) => in_schema(self.schema_named(schema)?.oid),
            None => path.iter().find_map(|oid| in_schema(*oid)),
        }
    }
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.roles.values()
    }
    pub fn role(&self, oid: Oid) -> Option<&Arc<Role>> {
        self.roles.get(&oid)
    }
    pub fn role_named(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles.values().find(|r| r.name == name)
    }
    /// Errors: 42704.
    pub fn resolve_role(&self, name: &str) -> SqlResult<&Arc<Role>> {
        self.role_named(name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
        })
    }
    /// The role and every role it is a member of, directly or not (following `INHERIT` where `inherited`).
    pub fn roles_of(&self, role: Oid, inherited: bool) -> Vec<Oid> {
        let mut all = vec![role];
        // The same, where they are more than a few.
        let mut known = FxHashSet::default();
        let mut next = 0;
        while next < all.len() {
            if let Some(role) = self.roles.get(&all[next])
                && (!inherited || role.attributes.inherit)
            {
                for membership in &role.member_of {
                    let is_new = if all.len() < 32 {
                        !all.contains(&membership.role)
                    } else {
                        if known.is_empty() {
                            known.extend(all.iter().copied());
                        }
                        known.insert(membership.role)
                    };
                    if is_new {
                        all.push(membership.role);
                    }
                }
            }
            next += 1;
        }
        all
    }
    /// Whether `role` has all of `wanted` on an object with this owner and access list.
    pub fn has_privileges(&self, role: Oid, owner: Oid, acl: Option<&Acl>, wanted: Privileges) -> bool {
        if self.roles.get(&role).is_some_and(|r| r.attributes.superuser) {
            return true;
        }
        let roles = self.roles_of(role, true);
        match acl {
            None => roles.contains(&owner),
            Some(acl) => acl.of(&roles).contains(wanted),
        }
    }
    /// Whether `role` may name what is in a schema: with USAGE, or as one that owns it.
    pub fn may_use_schema(&self, role: Oid, schema: &Schema) -> bool {
        self.has_privileges(role, schema.owner, None, Privileges::USAGE)
            || self.has_privileges(role, schema.owner, schema.acl.as_ref(), Privileges::USAGE)
    }
    pub fn comment(&self, object: Oid, column: Option<usize>) -> Option<&str> {
        self.comments.get(&(object, column)).map(|text| &**text)
    }
    /// What ANALYZE last found out about a table.
    pub fn statistics(&self, table: Oid) -> Option<&Arc<TableStatistics>> {
        self.statistics.get(&table)
    }

    // ---- changes ----

    pub(crate) fn put_schema(&mut self, schema: Schema) {
        self.parts_len += schema.parts_len();
        let before = self.schemas.insert(schema.oid, Arc::new(schema));
        self.parts_len -= before.map_or(0, |schema| schema.parts_len());
        self.changed();
    }
    pub(crate) fn remove_schema(&mut self, oid: Oid) {
        self.parts_len -= self.schemas.remove(&oid).map_or(0, |schema| schema.parts_len());
        self.remove_comments(oid);
        let said = self.database();
        if said.default_acls.iter().any(|default| default.schema == Some(oid))
            || said.extensions.iter().any(|extension| extension.schema == oid)
        {
            let mut database = said.clone();
            database.default_acls.retain(|default| default.schema != Some(oid));
            database.extensions.retain(|extension| extension.schema != oid);
            self.put_database(database);
        }
        self.changed();
    }
    pub(crate) fn put_enum(&mut self, ty: EnumType) {
        self.texts_len += ty.labels_len();
        let before = self.enums.insert(ty.oid, Arc::new(ty));
        self.texts_len -= before.map_or(0, |ty| ty.labels_len());
        self.changed();
    }
    pub(crate) fn remove_enum(&mut self, oid: Oid) {
        let gone = self.enums.remove(&oid);
        self.texts_len -= gone.map_or(0, |ty| ty.labels_len());
        self.changed();
    }
    pub(crate) fn put_role(&mut self, role: Role) {
        self.parts_len += role.parts_len();
        let before = self.roles.insert(role.oid, Arc::new(role));
        self.parts_len -= before.map_or(0, |role| role.parts_len());
        self.changed();
    }
    pub(crate) fn remove_role(&mut self, oid: Oid) {
        self.parts_len -= self.roles.remove(&oid).map_or(0, |role| role.parts_len());
        self.changed();
    }
    pub(crate) fn put_database(&mut self, database: Database) {
        self.database = (database != *Database::NOTHING_SAID).then(|| Arc::new(database));
        self.changed();
    }
    pub(crate) fn put_statistics(&mut self, table: Oid, statistics: TableStatistics) {
        self.parts_len += statistics.parts_len();
        let before = self.statistics.insert(table, Arc::new(statistics));
        self.parts_len -= before.map_or(0, |statistics| statistics.parts_len());
        self.changed();
    }
    pub(super) fn remove_statistics(&mut self, table: Oid) {
        self.parts_len -= self.statistics.remove(&table).map_or(0, |statistics| statistics.parts_len());
    }
    pub(crate) fn set_comment(&mut self, object: Oid, column: Option<usize>, text: Option<&str>) {
        self.put_comment(object, column, text.map(Into::into));
        self.changed();
    }
    pub(crate) fn put_comment(&mut self, object: Oid, column: Option<usize>, text: Option<Arc<str>>) {
        self.texts_len += text.as_ref().map_or(0, |text| text.len());
        let before = match text {
            Some(text) => self.comments.insert((object, column), text),
            None => self.comments.remove(&(object, column)),
        };
        self.texts_len -= before.map_or(0, |text| text.len());
    }

    /// Puts a table in or replaces it, with the names of its indexes. Comments on indexes and constraints that it had and has no more go.
    pub(crate) fn put_table(&mut self, mut table: Table) {
        table.refresh_layout();
        self.remove_part_comments(table.oid, Some(&table));
        self.unlink(table.oid);
        let table = Arc::new(table);
        for (i, index) in table.indexes.iter().enumerate() {
            self.relation_names.insert((table.schema, index.name.clone()), index.oid);
            self.relations.insert(index.oid, Relation::Index(Arc::clone(&table), i));
        }
        self.link(Relation::Table(table));
    }
    pub(crate) fn put_view(&mut self, view: ViewDefinition) {
        self.unlink(view.oid);
        self.link(Relation::View(Arc::new(view)));
    }
    pub(crate) fn put_sequence(&mut self, sequence: Sequence) {
        self.unlink(sequence.oid);
        self.link(Relation::Sequence(Arc::new(sequence)));
    }
    /// Takes a relation out with its indexes, comments and statistics.
    pub(crate) fn remove_relation(&mut self, oid: Oid) {
        self.remove_part_comments(oid, None);
        self.unlink(oid);
        self.remove_statistics(oid);
        self.remove_comments(oid);
    }
    pub(crate) fn remove_comments(&mut self, oid: Oid) {
        let keys: Vec<_> =
            self.comments.range((oid, None)..=(oid, Some(usize::MAX))).map(|(k, _)| *k).collect();
        keys.into_iter().for_each(|(object, column)| self.put_comment(object, column, None));
        self.changed();
    }

    /// Takes away the comments on indexes and constraints of a table that `new` has not.
    fn remove_part_comments(&mut self, oid: Oid, new: Option<&Table>) {
        if self.comments.is_empty() {
            return;
        }
        let Some(old) = self.table(oid) else { return };
        let commented: Vec<Oid> = old.parts().filter(|part| self.comment(*part, None).is_some()).collect();
        if commented.is_empty() {
            return;
        }
        let kept: FxHashSet<Oid> = new.map(|table| table.parts().collect()).unwrap_or_default();
        for part in commented.into_iter().filter(|part| !kept.contains(part)) {
            self.put_comment(part, None, None);
        }
    }

    fn link(&mut self, relation: Relation) {
        self.relation_names.insert((relation.schema(), relation.name().into()), relation.oid());
        self.texts_len += relation.texts_len();
        self.parts_len += relation.parts_len();
        self.relations.insert(relation.oid(), relation);
        self.changed();
    }

    fn unlink(&mut self, oid: Oid) {
        let Some(old) = self.relations.remove(&oid) else { return };
        self.texts_len -= old.texts_len();
        self.parts_len -= old.parts_len();
        self.unlink_name(&old);
        if let Relation::Table(table) = old {
            for index in &table.indexes {
                if let Some(index) = self.relations.remove(&index.oid) {
                    self.unlink_name(&index);
                }
            }
        }
        self.changed();
    }

    /// Takes away the name of a relation that goes, unless it is another one's by now: a replay takes over the records of a commit
    /// by their keys, so that who takes a name may come before who gives it up.
    fn unlink_name(&mut self, gone: &Relation) {
        let name = (gone.schema(), CompactString::new(gone.name()));
        if self.relation_names.get(&name) == Some(&gone.oid()) {
            self.relation_names.remove(&name);
        }
    }
}
