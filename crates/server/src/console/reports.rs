//! The statement of a tenant and a month: how its promises were kept, what was missed, why, and what is owed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use governor::RollUpRow;
use serde_json::{Value, json};
use sql::session::HistoryEntry;

use super::Console;
use super::answer::{Answer, Refusal};
use super::ledger::{check_tenant, minutes_of, most};
use super::name::Name;
use super::query::Query;
use crate::session::POSTGRES_EPOCH_MICROS;

/// The worst stretches of a resource that are named.
const WORST_MAX: usize = 10;
const MS_PER_DAY: i64 = 86_400_000;

/// A month by its name, `2026-11`: year, month from 1.
fn month_of(text: &str) -> Option<(i64, i64)> {
    let (year, month) = text.split_once('-')?;
    let digits = |text: &str, len: usize| {
        (text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    let (year, month) = (digits(year, 4)?, digits(month, 2)?);
    (year >= 1970 && (1..=12).contains(&month)).then_some((year, month))
}

/// Days from 1970-01-01 to the first of a month (proleptic Gregorian; years from 1970). Months past the 12th are of the next year.
fn days_to(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 12 { (year + 1, month - 12) } else { (year, month) };
    // Counted from a March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let since_0 = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5;
    // Up to 1970-01-01.
    since_0 - 719_468
}

/// The month in milliseconds since 1970, by UTC.
fn range_of((year, month): (i64, i64)) -> Range<i64> {
    days_to(year, month) * MS_PER_DAY..days_to(year, month + 1) * MS_PER_DAY
}

/// A stretch in which something was missed.
#[derive(Clone, Debug)]
struct Stretch {
    began_ms: i64,
    minutes: u32,
    missed: f64,
    cause: Option<&'static str>,
}

/// Of one resource.
#[derive(Default, Debug)]
struct Sums {
    intervals: u64,
    promised: f64,
    demanded: f64,
    given: f64,
    missed: f64,
    owed: f64,
    /// Intervals and what was missed, by cause.
    causes: [(u64, f64); RollUpRow::CAUSES.len()],
    worst: Vec<Stretch>,
}

impl Sums {
    fn add(&mut self, of: &HistoryEntry) {
        // Where nothing was promised nothing was kept either.
        if of.promised > 0.0 {
            self.intervals += of.intervals;
        }
        self.promised += of.promised;
        self.demanded += of.demanded;
        self.given += of.given;
        self.missed += of.missed;
        self.owed += of.owed;
        let broken = [of.overbooked, of.system, of.neighbour, of.device];
        let all: u64 = broken.iter().sum();
        if all == 0 {
            return;
        }
        for ((count, missed), broken) in self.causes.iter_mut().zip(broken) {
            *count += broken;
            // The ledger by the minute knows what was missed, not of it by which cause: in proportion to the intervals.
            *missed += of.missed * broken as f64 / all as f64;
        }
        let began_ms = (of.began + POSTGRES_EPOCH_MICROS) / 1000;
        let stretch = Stretch { began_ms, minutes: of.minutes, missed: of.missed, cause: most(&broken) };
        let at = self.worst.partition_point(|one| one.missed >= stretch.missed);
        self.worst.insert(at, stretch);
        self.worst.truncate(WORST_MAX);
    }

    fn json(&self, resource: &str, volume: Option<&str>) -> Value {
        let cause = |(cause, (broken, missed)): (governor::Cause, (u64, f64))| json!({ "cause": cause.as_str(), "broken": broken, "missed": missed });
        let causes: Vec<Value> = RollUpRow::CAUSES
            .into_iter()
            .zip(self.causes)
            .filter(|(_, (broken, _))| *broken > 0)
            .map(cause)
            .collect();
        let worst = |one: &Stretch| json!({ "began_ms": one.began_ms, "minutes": one.minutes, "missed": one.missed, "cause": one.cause });
        json!({
            "resource": resource,
            "volume": volume,
            "intervals": self.intervals,
            "broken": self.causes.iter().map(|(broken, _)| broken).sum::<u64>(),
            "promised": self.promised,
            "demanded": self.demanded,
            "given": self.given,
            "missed": self.missed,
            "owed": self.owed,
            "causes": causes,
            "worst": self.worst.iter().map(worst).collect::<Vec<_>>(),
        })
    }
}

/// All resources, by name and volume.
#[derive(Default)]
struct Report {
    sums: BTreeMap<(&'static str, Option<String>), Sums>,
    recorded_from_ms: Option<i64>,
}

impl Report {
    fn add(&mut self, of: &HistoryEntry) {
        let began_ms = (of.began + POSTGRES_EPOCH_MICROS) / 1000;
        self.recorded_from_ms = Some(self.recorded_from_ms.map_or(began_ms, |first| first.min(began_ms)));
        self.sums.entry((of.resource, of.volume.clone())).or_default().add(of);
    }
}

pub(super) async fn report(
    State(console): State<Arc<Console>>,
    Path(Name(name)): Path<Name>,
    query: Query,
) -> Answer<Json<Value>> {
    let month = query.text("month").unwrap_or_default().to_owned();
    let range = month_of(&month).map(range_of);
    let range = range.ok_or_else(|| Refusal::bad_input("\"month\" is a month, as 2026-11"))?;
    check_tenant(&*console.shared()?, &name)?;
    let (tenant, of) = (name.clone(), range.clone());
    let report = console
        .aside(move |shared, is_awaited| {
            let mut report = Report::default();
            minutes_of(shared, &tenant, of, is_awaited, &mut |row| report.add(row))?;
            Ok(report)
        })
        .await?;
    let owed: f64 = report.sums.values().map(|sums| sums.owed).sum();
    let resources: Vec<Value> =
        report.sums.iter().map(|((resource, volume), sums)| sums.json(resource, volume.as_deref())).collect();
    Ok(Json(json!({
        "tenant": name,
        "month": month,
        "from_ms": range.start,
        "to_ms": range.end,
        "recorded_from_ms": report.recorded_from_ms,
        "resources": resources,
        "owed": owed,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_is_as_long_as_the_calendar_says() {
        let days = |text: &str| {
            let range = month_of(text).map(range_of)?;
            Some((range.start / MS_PER_DAY, (range.end - range.start) / MS_PER_DAY))
        };
        assert_eq!(days("1970-01"), Some((0, 31)));
        assert_eq!(days("2026-11"), Some((20_758, 30)));
        assert_eq!(days("2026-12"), Some((20_788, 31)));
        assert_eq!(days("2027-02").map(|(_, days)| days), Some(28));
        assert_eq!(days("2028-02").map(|(_, days)| days), Some(29));
        assert_eq!(days("2100-02").map(|(_, days)| days), Some(28));
        for bad in ["", "2026", "2026-13", "2026-00", "2026-1", "1969-12", "+026-11", "2026-11-01"] {
            assert_eq!(days(bad), None, "{bad}");
        }
    }

    fn entry(began_min: i64, missed: f64, broken: [u64; 4]) -> HistoryEntry {
        let [overbooked, system, neighbour, device] = broken;
        HistoryEntry {
            tenant: "acme".to_owned(),
            resource: "cpu",
            volume: None,
            began: began_min * 60_000_000 - POSTGRES_EPOCH_MICROS,
            minutes: 1,
            intervals: 60,
            overbooked,
            system,
            neighbour,
            device,
            active: 60.0,
            promised: 30.0,
            demanded: 20.0,
            given: 25.0,
            missed,
            over: 0.0,
            held: None,
            debt: None,
            forgiven: None,
            awaited: None,
            delay_p99: None,
            owed: 2.0 * missed,
        }
    }

    #[test]
    fn a_report_adds_up_and_names_the_worst() {
        let mut report = Report::default();
        for minute in 0..30 {
            report.add(&entry(minute, 0.0, [0; 4]));
        }
        for minute in 30..50 {
            report.add(&entry(minute, minute as f64, [3, 0, 1, 0]));
        }
        assert_eq!(report.recorded_from_ms, Some(0));
        let sums = &report.sums[&("cpu", None)];
        let missed: f64 = (30..50).sum::<i64>() as f64;
        assert_eq!((sums.intervals, sums.missed, sums.owed), (3000, missed, 2.0 * missed));
        let unpromised = HistoryEntry { promised: 0.0, demanded: 0.0, ..entry(50, 0.0, [0; 4]) };
        report.add(&unpromised);
        let sums = &report.sums[&("cpu", None)];
        assert_eq!((sums.intervals, sums.given), (3000, 51.0 * 25.0), "it got something, of no promise");
        let json = sums.json("cpu", None);
        assert_eq!(json["broken"], 80);
        assert_eq!(json["causes"].as_array().unwrap().len(), 2);
        assert_eq!(
            (&json["causes"][0]["cause"], &json["causes"][0]["broken"]),
            (&json!("overbooked"), &json!(60))
        );
        assert!((json["causes"][0]["missed"].as_f64().unwrap() - 0.75 * missed).abs() < 1e-6);
        let worst: Vec<f64> = sums.worst.iter().map(|one| one.missed).collect();
        assert_eq!(worst, (40..50).rev().map(f64::from).collect::<Vec<_>>());
    }
}
