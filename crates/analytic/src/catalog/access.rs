//! Access lists: those that objects have, and those they begin with.

use base::{Oid, SqlError, SqlResult, SqlState};
use tenant::catalog::{
    Acl, Catalog, GrantableKind, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, PUBLIC_SCHEMA, Privileges,
};
use types::{Datum, ElementType, quote_ident, split_qualified_name};

use super::{Rows, letter, oid, text};
use crate::shared::Shared;

/// Who reads a view that shows everybody what is theirs.
pub(super) struct Reader {
    /// The roles whose privileges the session has; `None` where it has all.
    roles: Option<Vec<Oid>>,
}

impl Reader {
    pub(super) fn of(shared: &Shared) -> Reader {
        let catalog = &shared.catalog;
        let is_superuser = |role: &Oid| catalog.role(*role).is_some_and(|role| role.attributes.superuser);
        let role = shared.context.role.filter(|role| !is_superuser(role));
        Reader { roles: role.map(|role| catalog.roles_of(role, true)) }
    }

    /// Whether what belongs to that role belongs to the session.
    pub(super) fn owns(&self, owner: Oid) -> bool {
        self.roles.as_ref().is_none_or(|roles| roles.contains(&owner))
    }

    /// Whether the session owns the object or has some of `privileges` on it.
    pub(super) fn has_any(&self, owner: Oid, acl: Option<&Acl>, privileges: Privileges) -> bool {
        let Some(roles) = &self.roles else { return true };
        let has = |acl: &Acl| {
            let all = acl.of(roles);
            all.without(privileges) != all
        };
        self.owns(owner) || acl.is_some_and(has)
    }
}

/// An access list as PostgreSQL writes it: `{owner=arwdDxt/owner,=r/owner}`.
pub(super) fn acl(catalog: &Catalog, acl: Option<&Acl>) -> Datum {
    let Some(acl) = acl else { return Datum::Null };
    let role = |oid: Oid| match oid {
        PUBLIC => String::new(),
        oid => catalog.role(oid).map_or_else(|| oid.to_string(), |r| quote_ident(&r.name)),
    };
    let items = acl.0.iter().map(|item| {
        let mut letters = String::new();
        for (privilege, letter, _) in Privileges::NAMED {
            if item.privileges.contains(*privilege) {
                letters.push(*letter);
                if item.grant_options.contains(*privilege) {
                    letters.push('*');
                }
            }
        }
        text(format!("{}={letters}/{}", role(item.grantee), role(item.grantor)))
    });
    Datum::array(ElementType::Text, items.collect())
}

/// A right that an access list gives.
pub(crate) struct Right {
    pub(crate) grantor: Oid,
    /// [`PUBLIC`] for everybody.
    pub(crate) grantee: Oid,
    pub(crate) privilege: &'static str,
    pub(crate) is_grantable: bool,
}

/// The letters of rights in access lists.
const LETTERS: [(char, &str); 14] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
    ('s', "SET"),
    ('A', "ALTER SYSTEM"),
];

/// `aclexplode`: the rights of an access list as [`acl`] writes it. What is no item of one, or is of a role that is gone, gives none.
pub(crate) fn rights(catalog: &Catalog, items: &[Datum]) -> Vec<Right> {
    items.iter().filter_map(Datum::as_str).filter_map(|item| rights_of(catalog, item)).flatten().collect()
}

fn rights_of(catalog: &Catalog, item: &str) -> Option<Vec<Right>> {
    let mut is_quoted = false;
    let name_len = item.find(|c: char| {
        is_quoted ^= c == '"';
        c == '=' && !is_quoted
    })?;
    let (letters, grantor) = item[name_len + 1..].split_once('/')?;
    let (grantee, grantor) = (role_written(catalog, &item[..name_len])?, role_written(catalog, grantor)?);
    let mut letters = letters.chars().peekable();
    let mut rights = Vec::new();
    while let Some(letter) = letters.next() {
        let &(_, privilege) = LETTERS.iter().find(|(known, _)| *known == letter)?;
        let is_grantable = letters.next_if_eq(&'*').is_some();
        rights.push(Right { grantor, grantee, privilege, is_grantable });
    }
    Some(rights)
}

/// The role that is written so; nothing stands for everybody, a number for a role without a name.
fn role_written(catalog: &Catalog, written: &str) -> Option<Oid> {
    if written.is_empty() {
        return Some(PUBLIC);
    }
    let parts = split_qualified_name(written)?;
    let [name] = &parts[..] else { return None };
    catalog.role_named(name).map(|role| role.oid).or_else(|| name.parse().ok().map(Oid))
}

/// `acldefault`: what an object of that kind, owned by that role, begins with.
///
/// # Errors
/// XX000 for a letter that stands for no kind.
pub(super) fn default(catalog: &Catalog, kind: u8, owner: Oid) -> SqlResult<Datum> {
    let (everybody, own) = match kind {
        b'c' => ("", ""),
        b'r' => ("", "arwdDxt"),
        b's' => ("", "rwU"),
        b'd' => ("Tc", "CTc"),
        b'f' => ("X", "X"),
        b'l' | b'T' => ("U", "U"),
        b'L' => ("", "rw"),
        b'n' => ("", "UC"),
        b'p' => ("", "sA"),
        b't' => ("", "C"),
        b'F' | b'S' => ("", "U"),
        other => {
            let message = format!("unrecognized object type abbreviation: {}", char::from(other));
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, message));
        }
    };
    let owner = catalog.role(owner).map_or_else(|| owner.to_string(), |role| quote_ident(&role.name));
    let item = |grantee: &str, letters: &str| {
        (!letters.is_empty()).then(|| text(format!("{grantee}={letters}/{owner}")))
    };
    let items = [item("", everybody), item(&owner, own)];
    Ok(Datum::array(ElementType::Text, items.into_iter().flatten().collect()))
}

/// `pg_default_acl`: what new objects begin with.
pub(super) fn defaults(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    for default in &catalog.database().default_acls {
        let kind = match default.kind {
            GrantableKind::Table => b'r',
            GrantableKind::Sequence => b'S',
            GrantableKind::Schema => b'n',
        };
        out.add(vec![
            ("oid", oid(default.oid)),
            ("defaclrole", oid(default.role)),
            ("defaclnamespace", oid(default.schema.unwrap_or(Oid(0)))),
            ("defaclobjtype", letter(kind)),
            ("defaclacl", acl(&catalog, Some(&default.acl))),
        ]);
    }
}

/// `pg_init_privs`: the system's schemas have more than [`default`] from the start.
pub(super) fn initial_privileges(out: &mut Rows<'_>) {
    /// Oid of `pg_namespace`.
    const PG_NAMESPACE: u32 = 2615;
    let catalog = out.shared.catalog.clone();
    for schema in [PG_CATALOG, PUBLIC_SCHEMA, INFORMATION_SCHEMA].iter().filter_map(|s| catalog.schema(*s)) {
        let mut initial = Acl::owner_default(schema.owner, Privileges::SCHEMA);
        initial.grant(PUBLIC, schema.owner, Privileges::USAGE, false);
        out.add(vec![
            ("objoid", oid(schema.oid)),
            ("classoid", Datum::Oid(PG_NAMESPACE)),
            ("privtype", letter(b'i')),
            ("initprivs", acl(&catalog, Some(&initial))),
        ]);
    }
}
