//! `information_schema` on roles and what is granted to them.

use base::Oid;
use tenant::catalog::{Acl, PUBLIC, Privileges, Relation};
use types::Datum;

use super::information::OF_COLUMNS;
use super::{Rows, text, yes};

/// Fills the view of that name; false if it is not one of these.
pub(super) fn fill(out: &mut Rows<'_>, view: &str) -> bool {
    match view {
        "enabled_roles" => {
            for role in enabled(out) {
                let name = role_name(out, role);
                out.add(vec![("role_name", name)]);
            }
        }
        "applicable_roles" => applicable_roles(out),
        "table_privileges" => table_privileges(out, true),
        "role_table_grants" => table_privileges(out, false),
        "column_privileges" => column_privileges(out, true),
        "role_column_grants" => column_privileges(out, false),
        _ => return false,
    }
    true
}

fn role_name(out: &Rows<'_>, role: Oid) -> Datum {
    if role == PUBLIC {
        return text("PUBLIC");
    }
    super::objects::role_name(&out.shared.catalog, role)
}

/// The roles whose privileges the session has: all, for the owner and the administrator.
fn enabled(out: &Rows<'_>) -> Vec<Oid> {
    let catalog = &out.shared.catalog;
    match out.shared.context.role {
        Some(role) if !catalog.role(role).is_some_and(|role| role.attributes.superuser) => {
            catalog.roles_of(role, false)
        }
        _ => catalog.roles().map(|role| role.oid).collect(),
    }
}

fn applicable_roles(out: &mut Rows<'_>) {
    let catalog = out.shared.catalog.clone();
    let enabled = enabled(out);
    for role in catalog.roles().filter(|role| enabled.contains(&role.oid)) {
        for membership in &role.member_of {
            let of = role_name(out, membership.role);
            out.add(vec![
                ("grantee", text(&role.name)),
                ("role_name", of),
                ("is_grantable", yes(membership.admin_option)),
            ]);
        }
    }
}

fn table_privileges(out: &mut Rows<'_>, public: bool) {
    for_each_grant(out, public, &mut |out, _, privilege, mut row| {
        row.push(("with_hierarchy", yes(privilege == Privileges::SELECT)));
        out.add(row);
    });
}

/// What is granted on a table holds for each of its columns; nothing is granted on columns alone.
fn column_privileges(out: &mut Rows<'_>, public: bool) {
    for_each_grant(out, public, &mut |out, relation, privilege, row| {
        if !OF_COLUMNS.contains(privilege) {
            return;
        }
        let names: Vec<&str> = match relation {
            Relation::Table(table) => table.live_columns().map(|(_, column)| &*column.name).collect(),
            Relation::View(view) => view.columns.iter().map(|column| &*column.name).collect(),
            Relation::Index(..) | Relation::Sequence(_) => Vec::new(),
        };
        for name in names {
            let mut row = row.clone();
            row.push(("column_name", text(name)));
            out.add(row);
        }
    });
}

/// What a privilege on a table or view is told to: the view's rows, the relation, the privilege, and the columns that all views of grants have.
type Told<'t> = dyn FnMut(&mut Rows<'_>, &Relation, Privileges, Vec<(&'static str, Datum)>) + 't;

/// Tells each privilege on a table or view that the session is shown. `public`: what everybody may do is shown too.
fn for_each_grant(out: &mut Rows<'_>, public: bool, told: &mut Told<'_>) {
    let catalog = out.shared.catalog.clone();
    let enabled = enabled(out);
    let mut relations: Vec<&Relation> =
        catalog.relations().filter(|r| matches!(r, Relation::Table(_) | Relation::View(_))).collect();
    relations.sort_by_key(|relation| relation.oid());
    for relation in relations {
        let acl = match relation {
            Relation::Table(table) => table.acl.as_ref(),
            Relation::View(view) => view.acl.as_ref(),
            Relation::Index(..) | Relation::Sequence(_) => None,
        };
        let initial = Acl::owner_default(relation.owner(), Privileges::TABLE);
        for item in &acl.unwrap_or(&initial).0 {
            let shown = match item.grantee {
                PUBLIC => public,
                grantee => enabled.contains(&grantee) || enabled.contains(&item.grantor),
            };
            let named = Privileges::NAMED.iter().filter(|(one, ..)| shown && item.privileges.contains(*one));
            for (privilege, _, word) in named {
                let grantable = item.grantee == relation.owner() || item.grant_options.contains(*privilege);
                let row: Vec<(&'static str, Datum)> = vec![
                    ("grantor", role_name(out, item.grantor)),
                    ("grantee", role_name(out, item.grantee)),
                    ("table_catalog", text(&out.shared.context.database)),
                    ("table_schema", text(catalog.schema_name(relation.schema()))),
                    ("table_name", text(relation.name())),
                    ("privilege_type", text(word)),
                    ("is_grantable", yes(grantable)),
                ];
                told(out, relation, *privilege, row);
            }
        }
    }
}
