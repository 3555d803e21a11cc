//! A client group: how many clients of which workload work on how many tenants, how fast, and how that changes over time.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::load::{Kind, Load, Options};
use crate::shape::Shape;

/// Tenants of a group at most.
pub(crate) const TENANTS_MAX: u32 = 1_000;
/// Clients of a group at most, of all its tenants together, at the greatest factor of its shape.
pub(crate) const CLIENTS_MAX: u32 = 2_000;
/// Transactions a second at most, of a tenant.
const RATE_MAX: f64 = 100_000.0;
/// Letters of a tenant's prefix and of a name at most.
const PREFIX_LEN_MAX: usize = 40;
const NAME_LEN_MAX: usize = 100;

/// A group as it is asked for and kept in files.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSpec {
    /// What it is called; no two have the same name.
    pub(crate) name: String,
    /// Its tenants are this with 1, 2, … behind. No two groups have the same one.
    pub(crate) tenant_prefix: String,
    #[serde(default = "one")]
    pub(crate) tenants: u32,
    /// Clients of each tenant, before the shape.
    #[serde(default = "one")]
    pub(crate) clients: u32,
    pub(crate) workload: Kind,
    /// Of the workload.
    #[serde(default)]
    pub(crate) options: Options,
    /// Transactions a second for each tenant, before the shape; `None` for a closed loop: each client as fast as it goes.
    #[serde(default)]
    pub(crate) rate: Option<f64>,
    /// Multiplies the rate or, of a closed loop, the clients.
    #[serde(default)]
    pub(crate) shape: Shape,
    /// What each of its tenants is promised: options of ALTER TENANT.
    #[serde(default)]
    pub(crate) promises: Options,
}

fn one() -> u32 {
    1
}

impl GroupSpec {
    /// With one client for each tenant in a closed loop, and nothing promised.
    pub(crate) fn new(name: &str, tenant_prefix: &str, tenants: u32, workload: Kind) -> GroupSpec {
        GroupSpec {
            name: name.into(),
            tenant_prefix: tenant_prefix.into(),
            tenants,
            clients: 1,
            workload,
            options: Options::new(),
            rate: None,
            shape: Shape::default(),
            promises: Options::new(),
        }
    }

    /// The workload, when all of it is within its range.
    ///
    /// # Errors
    /// What is out of range, in words.
    pub(crate) fn load(&self) -> Result<Load, String> {
        self.validate().and_then(|()| Load::new(self.workload, &self.options))
    }

    fn validate(&self) -> Result<(), String> {
        let GroupSpec { name, tenant_prefix: prefix, tenants, clients, rate, shape, .. } = self;
        if name.trim().is_empty() || name.chars().count() > NAME_LEN_MAX {
            return Err(format!("a group's name has 1 to {NAME_LEN_MAX} letters"));
        }
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        // Without a digit at its end, "a1" and "a" cannot both have a tenant "a11".
        let is_prefix = prefix.len() <= PREFIX_LEN_MAX
            && prefix.starts_with(|c: char| c.is_ascii_lowercase())
            && prefix.chars().all(is_word)
            && !prefix.ends_with(|c: char| c.is_ascii_digit());
        if !is_prefix {
            return Err(format!(
                "\"{prefix}\" is no prefix of tenants: up to {PREFIX_LEN_MAX} of a to z, digits and _, a letter first and no digit last"
            ));
        }
        if prefix.starts_with("model_") {
            return Err("names that begin with model_ are those of the templates".into());
        }
        if !(1..=TENANTS_MAX).contains(tenants) {
            return Err(format!("a group has 1 to {TENANTS_MAX} tenants, not {tenants}"));
        }
        shape.validate()?;
        let factor = if rate.is_some() { 1.0 } else { shape.factor_max().max(1.0) };
        let most = f64::from(*clients) * f64::from(*tenants) * factor;
        if *clients == 0 || most > f64::from(CLIENTS_MAX) {
            return Err(format!(
                "a group has 1 to {CLIENTS_MAX} clients, of all its tenants together and as many as its shape makes them; these would be {most}"
            ));
        }
        if rate.is_some_and(|rate| !(0.0..=RATE_MAX).contains(&rate)) {
            return Err(format!("a rate is from 0 to {RATE_MAX} transactions a second"));
        }
        promises_sql(&self.promises).map(|_| ())
    }

    /// Its tenants' names.
    pub(crate) fn tenant_names(&self) -> impl Iterator<Item = String> {
        (1..=self.tenants).map(|number| self.tenant(number))
    }

    pub(crate) fn tenant(&self, number: u32) -> String {
        format!("{}{number}", self.tenant_prefix)
    }

    /// Clients of each tenant and the rate of each client, at this factor of the shape.
    pub(crate) fn wanted(&self, factor: f64) -> (u32, Option<f64>) {
        match self.rate {
            Some(rate) => (self.clients, Some(rate * factor / f64::from(self.clients))),
            None => ((f64::from(self.clients) * factor).round() as u32, None),
        }
    }

    /// As this, but for the fields given.
    ///
    /// # Errors
    /// When one of them is not a group's, or out of range.
    pub(crate) fn changed(&self, fields: Map<String, Value>) -> Result<GroupSpec, String> {
        let Value::Object(mut all) = serde_json::to_value(self).map_err(|error| error.to_string())? else {
            unreachable!("a struct is an object");
        };
        all.extend(fields);
        let spec: GroupSpec =
            serde_json::from_value(Value::Object(all)).map_err(|error| error.to_string())?;
        spec.load().map(|_| spec)
    }
}

/// Options as they stand in `WITH (…)` and `SET (…)`, separated by commas; empty for none.
///
/// # Errors
/// When one has a name or a value that is none of an option's.
pub(crate) fn promises_sql(options: &Options) -> Result<String, String> {
    let one = |(name, value): (&String, &Value)| {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            return Err(format!("\"{name}\" is no option of a tenant"));
        }
        match value {
            Value::Number(number) => Ok(format!("{name} = {number}")),
            Value::String(text) => Ok(format!("{name} = '{}'", text.replace('\'', "''"))),
            _ => Err(format!("the promise {name} is neither a number nor a text")),
        }
    };
    Ok(options.iter().map(one).collect::<Result<Vec<_>, _>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> GroupSpec {
        GroupSpec::new("shops", "shop", 3, Kind::Tpcc)
    }

    fn changed(fields: Value) -> Result<GroupSpec, String> {
        let Value::Object(fields) = fields else { panic!("fields") };
        spec().changed(fields)
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let other = changed(json!({ "clients": 4, "rate": 10 })).expect("a group");
        assert_eq!(other, GroupSpec { clients: 4, rate: Some(10.0), ..spec() });
        assert_eq!(changed(json!({})).expect("the same"), spec());
    }

    #[test]
    fn what_is_out_of_range_is_told_by_its_name() {
        for (fields, word) in [
            (json!({ "name": " " }), "name"),
            (json!({ "tenant_prefix": "Shop" }), "prefix"),
            (json!({ "tenant_prefix": "shop1" }), "prefix"),
            (json!({ "tenant_prefix": "a b" }), "prefix"),
            (json!({ "tenant_prefix": "" }), "prefix"),
            (json!({ "tenant_prefix": "model_x" }), "templates"),
            (json!({ "tenants": 0 }), "tenants"),
            (json!({ "tenants": 1001 }), "tenants"),
            (json!({ "clients": 0 }), "clients"),
            (json!({ "tenants": 100, "clients": 21 }), "clients"),
            (
                json!({ "clients": 100, "shape": { "kind": "wave", "period_s": 9, "low": 0, "high": 10 } }),
                "clients",
            ),
            (json!({ "rate": -1 }), "rate"),
            (json!({ "shape": { "kind": "wave", "period_s": 0, "low": 0, "high": 1 } }), "period"),
            (json!({ "shape": { "kind": "sine", "period_s": 9, "low": 0, "high": 1 } }), "sine"),
            (json!({ "workload": "oracle" }), "oracle"),
            (json!({ "options": { "rows": 1 } }), "rows"),
            (json!({ "promises": { "cpu = 1) --": 1 } }), "option of a tenant"),
            (json!({ "promises": { "cpu": [1] } }), "cpu"),
            (json!({ "clints": 1 }), "clints"),
        ] {
            let error = changed(fields.clone()).expect_err(&fields.to_string());
            assert!(error.contains(word), "{fields}: {error}");
        }
    }

    #[test]
    fn the_shape_multiplies_the_rate_or_the_clients() {
        let closed = GroupSpec { clients: 4, ..spec() };
        assert_eq!([closed.wanted(0.0), closed.wanted(0.4), closed.wanted(2.0)].map(|(c, _)| c), [0, 2, 8]);
        let open = GroupSpec { clients: 4, rate: Some(10.0), ..spec() };
        assert_eq!(open.wanted(2.0), (4, Some(5.0)));
    }

    #[test]
    fn promises_are_quoted() {
        let options = serde_json::from_value(json!({ "cpu": 0.5, "memory": "8'MB" })).expect("options");
        assert_eq!(promises_sql(&options).expect("options"), "cpu = 0.5, memory = '8''MB'");
        assert_eq!(promises_sql(&Options::new()).expect("none"), "");
    }
}
