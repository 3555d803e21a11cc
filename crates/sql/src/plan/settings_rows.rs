//! The rows of `pg_settings` on the point path, for a query that changes settings for what it finds among them.

use crate::session::described_settings;

/// A query for them, but for custom settings. The session is asked for the values when it runs.
pub(super) fn settings_query() -> String {
    let quoted = |text: &str| text.replace('\'', "''");
    let row = |(name, description): (&str, &str)| format!("('{}', '{}')", quoted(name), quoted(description));
    let rows: Vec<String> = described_settings().map(row).collect();
    format!(
        "select name, current_setting(name) as setting, null::text as unit, null::text as category, short_desc, \
         null::text as extra_desc, 'user'::text as context, 'string'::text as vartype, \
         'session'::text as source, null::text as min_val, null::text as max_val, null::text[] as enumvals, \
         null::text as boot_val, null::text as reset_val, null::text as sourcefile, null::int4 as sourceline, \
         false as pending_restart from (values {}) as s (name, short_desc) order by name",
        rows.join(", ")
    )
}
