//! Enum types and views.

use base::{Oid, SqlError, SqlResult, SqlState};
use rustc_hash::FxHashSet;
use types::{PgType, format_type};

use super::Ddl;
use crate::catalog::{EnumLabel, EnumType, GrantableKind, ViewColumn, ViewDefinition};

impl Ddl<'_> {
    /// Makes an enum with labels in this order. Errors: 42710 where the name is taken, 23505 for a label given twice, 54000 for too many labels.
    pub fn create_enum(&mut self, schema: Oid, name: &str, owner: Oid, labels: &[String]) -> SqlResult<Oid> {
        if self.catalog().enums().any(|e| e.schema == schema && e.name == name) {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")));
        }
        let mut known = FxHashSet::default();
        for label in labels {
            if !known.insert(label) {
                return Err(SqlError::new(
                    SqlState::UNIQUE_VIOLATION,
                    "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"",
                ));
            }
        }
        // The array type's oid follows the enum's own, which is how types finds one from the other.
        let (oid, array_oid) = (self.new_oid(), self.new_oid());
        // Half of all orders are left to labels that are added at the end.
        let count = u32::try_from(labels.len()).unwrap_or(u32::MAX).saturating_add(1);
        let step = EnumType::ORDER_STEP.min(u32::MAX / 2 / count);
        if step == 0 {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "an enum has too many labels"));
        }
        let labels = (1..).zip(labels).map(|(n, label)| EnumLabel {
            oid: self.view.tenant.next_oid(),
            order: n * step,
            label: label.as_str().into(),
        });
        let labels = labels.collect();
        self.edit().put_enum(EnumType {
            oid,
            array_oid,
            schema,
            name: name.into(),
            owner,
            labels,
            acl: None,
        });
        Ok(oid)
    }

    /// Adds a label at the end, or before or behind another one.
    ///
    /// Errors: 42710 where the enum has it, 22023 for an unknown neighbour, 54000 where no order is left between two.
    pub fn add_enum_label(
        &mut self,
        oid: Oid,
        label: &str,
        neighbour: Option<(&str, LabelSide)>,
    ) -> SqlResult<()> {
        let mut ty = self.enum_type(oid)?;
        if ty.order_of(label).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_OBJECT,
                format!("enum label \"{label}\" already exists"),
            ));
        }
        let at = match neighbour {
            None => ty.labels.len(),
            Some((name, side)) => {
                let at = ty.labels.iter().position(|l| l.label == name).ok_or_else(|| {
                    SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("\"{name}\" is not an existing enum label"),
                    )
                })?;
                at + usize::from(side == LabelSide::After)
            }
        };
        let newest = ty.labels.iter().map(|l| l.oid).max();
        let (below, is_below_newest) = match at.checked_sub(1).map(|before| &ty.labels[before]) {
            Some(label) => (label.order, Some(label.oid) == newest),
            None => (0, false),
        };
        let order = match ty.labels.get(at) {
            Some(above) => {
                // Labels that are added to one place one by one come beside the newest, always on the same side of it: most of the room is left there.
                let room = above.order - below;
                let half = room / 2;
                let little = if room < 16 { half.min(1) } else { room / 8 };
                match (is_below_newest, Some(above.oid) == newest) {
                    (true, _) => below + little,
                    (false, true) if little > 0 => above.order - little,
                    (false, _) => below + half,
                }
            }
            None => below.saturating_add(EnumType::ORDER_STEP),
        };
        if order == below {
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "too many enum labels were added at this place",
            ));
        }
        let label = EnumLabel { oid: self.new_oid(), order, label: label.into() };
        ty.labels.insert(at, label);
        self.edit().put_enum(ty);
        Ok(())
    }

    /// Errors: 22023 for an unknown label, 42710 where the new one exists.
    pub fn rename_enum_label(&mut self, oid: Oid, label: &str, new: &str) -> SqlResult<()> {
        let mut ty = self.enum_type(oid)?;
        if ty.order_of(new).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_OBJECT,
                format!("enum label \"{new}\" already exists"),
            ));
        }
        let found = ty.labels.iter_mut().find(|l| l.label == label).ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("\"{label}\" is not an existing enum label"),
            )
        })?;
        found.label = new.into();
        self.edit().put_enum(ty);
        Ok(())
    }

    /// Errors: 42710.
    pub fn rename_enum(&mut self, oid: Oid, name: &str) -> SqlResult<()> {
        let mut ty = self.enum_type(oid)?;
        if self.catalog().enums().any(|e| e.schema == ty.schema && e.name == name) {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")));
        }
        ty.name = name.into();
        self.edit().put_enum(ty);
        Ok(())
    }

    fn enum_type(&self, oid: Oid) -> SqlResult<EnumType> {
        self.catalog().enum_type(oid).map(|ty| (**ty).clone()).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
        })
    }

    /// Makes a view; its oid is given here, the one in `view` is ignored. Errors: 42P07.
    pub fn create_view(&mut self, view: ViewDefinition) -> SqlResult<Oid> {
        self.require_free_name(view.schema, &view.name)?;
        let oid = self.new_oid();
        let acl = self.catalog().initial_acl(view.owner, Some(view.schema), GrantableKind::Table);
        self.edit().put_view(ViewDefinition { oid, acl, ..view });
        Ok(oid)
    }

    /// `CREATE OR REPLACE VIEW`: new text and columns, which must begin with the old ones.
    ///
    /// Errors: 42P16 where they do not.
    pub fn replace_view(&mut self, view: ViewDefinition) -> SqlResult<()> {
        let old = self.catalog().view(view.oid).cloned().expect("the caller found the view");
        if view.columns.len() < old.columns.len() {
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, "cannot drop columns from view"));
        }
        for (new, old) in view.columns.iter().zip(&old.columns) {
            if new.name != old.name {
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name),
                ));
            }
            if (new.ty, new.typmod) != (old.ty, old.typmod) {
                let shown = |column: &ViewColumn| match column.ty {
                    PgType::Enum(_) => column.ty.name().to_owned(),
                    ty => format_type(ty, column.typmod),
                };
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!(
                        "cannot change data type of view column \"{}\" from {} to {}",
                        old.name,
                        shown(old),
                        shown(new)
                    ),
                ));
            }
        }
        self.edit().put_view(view);
        Ok(())
    }
}

/// On which side of a label a new one is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabelSide {
    Before,
    After,
}
