//! Each anomaly planted by hand is found, and nothing else is; histories without one pass.

use super::*;

/// A history in text: a line a transaction with its operations and at the end what became of it; a transaction begins
/// after all lines before a blank line have ended, and with the others of its paragraph.
fn history<O>(text: &str, operation: impl Fn(&str) -> O) -> Vec<Transaction<O>> {
    let mut transactions = Vec::new();
    for (paragraph, lines) in text.trim().split("\n\n").enumerate() {
        for line in lines.lines() {
            let (operations, outcome) = match line.trim().rsplit_once(' ') {
                Some((operations, "aborted")) => (operations, Outcome::Aborted),
                Some((operations, "unknown")) => (operations, Outcome::Unknown),
                _ => (line, Outcome::Committed),
            };
            let operations = operations.split_whitespace().map(&operation).collect();
            let (began, ended) = (10 * paragraph as u64, 10 * paragraph as u64 + 5);
            transactions.push(Transaction { operations, outcome, began, ended });
        }
    }
    transactions
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number")
}

/// `1+5` appends 5 to list 1, `1=5,6` finds 5 and 6 there, `1=` nothing.
fn list_operation(text: &str) -> lists::Operation {
    if let Some((key, value)) = text.split_once('+') {
        return lists::Operation::Append(number(key), number(value));
    }
    let (key, found) = text.split_once('=').expect("a read");
    lists::Operation::Read(number(key), found.split(',').filter(|v| !v.is_empty()).map(number).collect())
}

/// `1:5` writes 5 to register 1, `1=5` finds it, `1=` finds nothing.
fn register_operation(text: &str) -> registers::Operation {
    if let Some((key, value)) = text.split_once(':') {
        return registers::Operation::Write(number(key), number(value));
    }
    let (key, found) = text.split_once('=').expect("a read");
    registers::Operation::Read(number(key), Some(found).filter(|v| !v.is_empty()).map(number))
}

fn kinds(findings: &[Finding]) -> Vec<Anomaly> {
    let mut kinds: Vec<Anomaly> = findings.iter().map(|finding| finding.anomaly).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[track_caller]
fn check_lists(text: &str, expected: &[Anomaly]) {
    let history = history(text, list_operation);
    let findings = lists::check(&history, Level::Serializable);
    assert_eq!(kinds(&findings), expected, "{findings:#?}");
}

#[track_caller]
fn check_registers(text: &str, expected: &[Anomaly]) {
    let history = history(text, register_operation);
    let findings = registers::check(&history, Level::Serializable);
    assert_eq!(kinds(&findings), expected, "{findings:#?}");
}

#[test]
fn serial_histories_have_no_anomaly() {
    check_lists("1+1 1=1 2=\n\n1+2 1+3\n\n1=1,2,3 2+1\n\n1=1,2,3 2=1", &[]);
    check_registers("1:1 1=1 2=\n\n1=1 1:2 1:3\n\n1=3 2:1\n\n1=3 2=1", &[]);
}

#[test]
fn concurrent_histories_without_cycles_have_no_anomaly() {
    check_lists("1+1\n1=\n1=1\n2+1 1=1\n\n1=1 2=1", &[]);
    check_registers("1:1\n1=\n1=1\n2:1 1=1\n\n1=1 2=1", &[]);
}

#[test]
fn what_an_unknown_end_left_may_be_there_or_not() {
    check_lists("1+1 unknown\n\n1=1\n\n1=1", &[]);
    check_lists("1+1 unknown\n\n1=\n\n1=", &[]);
    check_registers("1:1 unknown\n\n1=1 1:2\n\n1=2", &[]);
    check_registers("1:1 unknown\n\n1= 1:2\n\n1=2", &[]);
}

#[test]
fn reads_that_contradict_the_own_transaction_are_found() {
    check_lists("1+1 1=", &[Anomaly::OwnWrite]);
    check_lists("1+1\n1= 1=1", &[Anomaly::Internal, Anomaly::GSingle]);
    check_registers("1:1 1=", &[Anomaly::OwnWrite]);
    check_registers("1:1\n1= 1=1", &[Anomaly::Internal, Anomaly::GSingle]);
}

#[test]
fn values_from_nowhere_are_found() {
    check_lists("1=7", &[Anomaly::Garbage]);
    check_registers("1=7", &[Anomaly::Garbage]);
}

#[test]
fn aborted_reads_are_found() {
    check_lists("1+1 aborted\n1=1", &[Anomaly::AbortedRead]);
    check_lists("1+1 aborted\n1+2\n1=1,2", &[Anomaly::AbortedRead]);
    check_registers("1:1 aborted\n1=1", &[Anomaly::AbortedRead]);
}

#[test]
fn intermediate_reads_are_found() {
    check_lists("1+1 1+2\n1=1\n\n1=1,2", &[Anomaly::IntermediateRead, Anomaly::GSingle]);
    check_registers("1:1 1:2\n1=1", &[Anomaly::IntermediateRead]);
}

#[test]
fn elements_found_twice_or_in_two_orders_are_found() {
    check_lists("1+1\n1+2\n1=1,2,1", &[Anomaly::Duplicate, Anomaly::G0]);
    check_lists("1+1\n1+2\n1=1,2\n1=2,1", &[Anomaly::IncompatibleOrder]);
}

#[test]
fn versions_in_a_circle_are_found() {
    // Each wrote over the other's write.
    check_registers("1=2 1:1\n1=1 1:2", &[Anomaly::CyclicVersions, Anomaly::G0, Anomaly::G1c]);
}

#[test]
fn lost_acknowledged_writes_are_found() {
    check_lists("1+1\n\n1=", &[Anomaly::StaleRead, Anomaly::GSingle]);
    check_lists("1+1\n\n1+2\n\n1=2", &[Anomaly::StaleRead, Anomaly::G0, Anomaly::GSingle]);
    check_registers("1:1\n\n1=", &[Anomaly::StaleRead, Anomaly::GSingle]);
    check_registers("1:1\n\n1:2\n\n1=1", &[Anomaly::StaleRead, Anomaly::GSingle]);
}

#[test]
fn lost_writes_that_were_read_are_found() {
    check_lists("1+1 unknown\n\n1=1\n\n1=", &[Anomaly::StaleRead, Anomaly::GSingle]);
    check_registers("1:1 unknown\n\n1=1\n\n1=", &[Anomaly::StaleRead, Anomaly::GSingle]);
}

#[test]
fn g0_is_found() {
    // Two lists, each transaction's elements the second in one of them.
    check_lists("1+1 2+1\n1+2 2+2\n\n1=1,2 2=2,1", &[Anomaly::G0]);
    // The first wrote over 1 of register 1, the second's; the second over 4 of register 2, the first's.
    check_registers("1=1 1:2 2:4\n1:1 2=4 2:5", &[Anomaly::G0, Anomaly::G1c]);
}

#[test]
fn g1c_is_found() {
    check_lists("1+1 2=2\n1=1 2+2", &[Anomaly::G1c]);
    check_registers("1:1 2=2\n1=1 2:2", &[Anomaly::G1c]);
}

#[test]
fn read_skew_and_lost_updates_are_found() {
    check_lists("1+1 2+1\n1= 2=1", &[Anomaly::GSingle]);
    check_registers("1:1 2:1\n1= 2=1", &[Anomaly::GSingle]);
    // Both read nothing, and one wrote over the other unseen.
    check_lists("1= 1+1\n1= 1+2\n\n1=1,2", &[Anomaly::GSingle]);
}

#[test]
fn long_forks_are_found() {
    // Two readers see two writes in opposite orders: two reads that a write came after, apart from each other.
    check_lists("1+1\n2+1\n1=1 2=\n1= 2=1", &[Anomaly::GNonadjacent]);
    check_registers("1:1\n2:1\n1=1 2=\n1= 2=1", &[Anomaly::GNonadjacent]);
}

#[test]
fn write_skew_is_found() {
    check_lists("1= 2+1\n2= 1+1\n\n1=1 2=1", &[Anomaly::G2Item]);
    check_registers("1= 2:1\n2= 1:1", &[Anomaly::G2Item]);
}

#[test]
fn real_time_closes_cycles() {
    // The reader began after the second writer's end and saw it, and did not see what that one had seen.
    check_lists("1+1\n1=1 2+1\n\n1= 2=1\n\n1=1", &[Anomaly::StaleRead, Anomaly::GSingle]);
}

#[test]
fn levels_allow_what_postgresql_allows() {
    let beyond = |text: &str| {
        let history = history(text, list_operation);
        [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable]
            .map(|level| kinds(&lists::check(&history, level)))
    };
    let (skew, lost_update, circular) =
        ("1= 2+1\n2= 1+1\n\n1=1 2=1", "1= 1+1\n1= 1+2\n\n1=1,2", "1+1 2=2\n1=1 2+2");
    assert_eq!(beyond(skew), [vec![], vec![], vec![Anomaly::G2Item]]);
    assert_eq!(beyond(lost_update), [vec![], vec![Anomaly::GSingle], vec![Anomaly::GSingle]]);
    assert_eq!(beyond(circular), [[Anomaly::G1c], [Anomaly::G1c], [Anomaly::G1c]].map(Vec::from));
}
