//! Client groups as a file: JSON with a version.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::group::GroupSpec;

/// The only version that there is.
const VERSION: u64 = 1;

/// What a file has.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rowhouse_scenario: u64,
    groups: Vec<GroupSpec>,
}

/// The groups as a file.
pub(crate) fn write(groups: impl Iterator<Item = GroupSpec>) -> String {
    let file = File { rowhouse_scenario: VERSION, groups: groups.collect() };
    serde_json::to_string_pretty(&file).expect("groups are JSON") + "\n"
}

/// The groups of a file.
///
/// # Errors
/// When it is none of ours, of another version, or a group in it is none. What a group asks for is checked by whoever makes it.
pub(crate) fn read(file: Value) -> Result<Vec<GroupSpec>, String> {
    let version = file.get("rowhouse_scenario");
    match version.and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!("the file is of version {other}; version {VERSION} can be read here"));
        }
        None => return Err("this is no file of client groups: it has no rowhouse_scenario".into()),
    }
    let groups = file.get("groups").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (number, group) in groups.iter().enumerate() {
        // Read by itself, so that the error says which one it is of.
        if let Err(error) = GroupSpec::deserialize(group) {
            return Err(format!("group {} of the file: {error}", number + 1));
        }
    }
    let file: File = serde_json::from_value(file).map_err(|error| format!("the file: {error}"))?;
    Ok(file.groups)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::load::Kind;
    use crate::shape::{self, Shape};

    #[test]
    fn what_is_written_is_read() {
        let shape = Shape { kind: shape::Kind::Wave, period_s: 30.0, low: 0.5, high: 2.0 };
        let promises = serde_json::from_value(json!({ "cpu": 0.25, "memory": "64MB" })).expect("options");
        let groups = vec![
            GroupSpec::new("first", "a", 3, Kind::DvdStore),
            GroupSpec {
                rate: Some(12.5),
                clients: 4,
                shape,
                promises,
                ..GroupSpec::new("2nd", "b", 1, Kind::Tpcc)
            },
        ];
        let text = write(groups.clone().into_iter());
        assert_eq!(read(serde_json::from_str(&text).expect("JSON")), Ok(groups));
    }

    #[test]
    fn what_is_no_file_of_ours_is_told_why() {
        let group = json!({ "name": "a", "tenant_prefix": "a", "workload": "tpcc" });
        for (file, word) in [
            (json!([]), "no file"),
            (json!({ "groups": [] }), "no file"),
            (json!({ "rowhouse_scenario": 2, "groups": [] }), "version 2"),
            (json!({ "rowhouse_scenario": 1 }), "groups"),
            (json!({ "rowhouse_scenario": 1, "groups": 1 }), "sequence"),
            (json!({ "rowhouse_scenario": 1, "groups": [], "more": 1 }), "more"),
            (json!({ "rowhouse_scenario": 1, "groups": [group, { "name": "b" }] }), "group 2"),
        ] {
            let error = read(file.clone()).expect_err(&file.to_string());
            assert!(error.contains(word), "{file}: {error}");
        }
    }
}
