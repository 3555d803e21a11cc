//! What monitoring and administration tools read of the system's tables.

#[allow(dead_code, reason = "what only other tests use")]
mod support;

use support::Sample;

#[test]
fn settings_have_types_units_and_bounds() {
    let columns = "name, setting, unit, context, vartype, source, min_val, max_val, enumvals, boot_val";
    let sql = format!("select {columns} from pg_settings where name !~ 'server|tablespace' order by name");
    let expected = "default_table_access_method|heap|∅|user|enum|default|∅|∅|{heap}|heap
jit|off|∅|user|bool|default|∅|∅|∅|off
lock_timeout|90000|ms|user|integer|session|0|2147483647|∅|0
my.own|1|∅|user|string|session|∅|∅|∅|∅
work_mem|4096|kB|user|integer|default|64|2147483647|∅|4096
";
    assert_eq!(Sample::new().text(&sql).unwrap(), expected);
}
