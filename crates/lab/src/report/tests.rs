//! The page and the JSON of a report say what is in it.

use super::*;

fn sample() -> Report {
    let mut table = Table::new("Means", &["tenant", "I/Os a second"]);
    table.row(vec!["t1".into(), "60 ± 0.5".into()]);
    let plot = Plot {
        title: "I/Os a second".into(),
        x_label: "seconds".into(),
        y_label: "I/Os a second".into(),
        series: vec![
            Series { name: "t<1>".into(), x_first: 1.0, x_step: 1.0, values: vec![60.0, 61.0] },
            Series { name: "t2".into(), x_first: 1.0, x_step: 1.0, values: vec![20.0, 20.5] },
        ],
        promised: vec![Level { name: "promised".into(), y: 60.0, x_from: 0.0, x_to: 2.0 }],
        marks: vec![Mark { x: 1.0, name: "exchanged".into() }],
        smoothed_over: 1,
    };
    let section = Section {
        id: "figure-4".into(),
        title: "Figure 4".into(),
        text: "Two tenants & their promises.".into(),
        verdicts: vec![
            Verdict::of("within 3 %", "0.1 %", true).beside("63 ± 6.9"),
            Verdict::of("within 3 %", "9 %", false),
        ],
        plots: vec![plot],
        tables: vec![table],
        notes: vec!["A note.".into()],
    };
    Report {
        schema: SCHEMA.into(),
        experiment: "sqlvm reservations".into(),
        title: "Reservations".into(),
        lead: "What is promised is given.".into(),
        status: Status::Complete,
        quick: false,
        duration_factor: 1.0,
        repetitions: 1,
        began_us: 1,
        written_us: 61_000_001,
        machine: Machine::default(),
        setting: vec![Fact::new("Durability", "each commit")],
        sections: vec![section],
    }
}

/// Each element that is opened is closed, in order.
fn check_nesting(html: &str) {
    let alone = ["meta", "!doctype"];
    let mut open = Vec::new();
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            let last = open.pop().unwrap_or_default();
            assert_eq!(last, closed, "closed out of order");
        } else if !tag.ends_with('/') && !alone.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn the_json_is_the_report() {
    let report = sample();
    let json = report.to_json().expect("all numbers are numbers");
    let read: Report = serde_json::from_str(&json).expect("it reads its own form");
    assert_eq!(read, report);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["schema"], SCHEMA);
    assert_eq!(value["status"]["state"], "complete");
    assert_eq!(value["sections"][0]["plots"][0]["series"][0]["values"][1], 61.0);
    assert_eq!(value["sections"][0]["verdicts"][1]["outcome"], "missed");
}

/// `docs/lab.md` describes the form: each name that is in the JSON is in its text.
#[test]
fn every_field_of_the_json_is_documented() {
    fn names(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                found.push(name.clone());
                names(value, found);
            }),
            serde_json::Value::Array(values) => values.iter().for_each(|value| names(value, found)),
            _ => {}
        }
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab.md");
    let text = std::fs::read_to_string(page).expect("docs/lab.md is there");
    let mut report = sample();
    let mut found = Vec::new();
    for status in [Status::Running { part: "x".into() }, Status::Partial { why: "x".into() }] {
        report.status = status;
        names(&serde_json::to_value(&report).expect("JSON"), &mut found);
    }
    found.sort();
    found.dedup();
    let missing: Vec<_> = found.iter().filter(|name| !text.contains(&format!("`{name}`"))).collect();
    assert!(found.len() > 40 && missing.is_empty(), "not in docs/lab.md: {missing:?}");
}

#[test]
fn the_page_is_whole_and_alone() {
    let report = sample();
    let page = report.to_html();
    check_nesting(&page);
    for text in
        ["Two tenants &amp; their promises.", "t&lt;1&gt;", "63 ± 6.9", "60 ± 0.5", "A note.", "exchanged"]
    {
        assert!(page.contains(text), "no {text}");
    }
    assert_eq!(page.matches("<polyline").count(), 2, "a line for each series");
    assert_eq!(page.matches("class=\"badge met\"").count(), 1);
    assert_eq!(page.matches("class=\"badge missed\"").count(), 1);
    for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}: the page has to be alone");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(!page.contains("class=\"banner\""), "a whole measurement has nothing to warn of");
}

#[test]
fn what_is_no_measurement_is_marked() {
    let with = |change: fn(&mut Report)| {
        let mut report = sample();
        change(&mut report);
        report.to_html()
    };
    assert!(with(|report| report.quick = true).contains("not a measurement"));
    assert!(with(|report| report.duration_factor = 0.5).contains("durations are 0.5 of the paper"));
    let interrupted = with(|report| report.status = Status::Partial { why: "Ctrl-C".into() });
    assert!(interrupted.contains("ended early (Ctrl-C)"));
    assert!(
        with(|report| report.status = Status::Running { part: "figure 4".into() })
            .contains("figure 4 had begun")
    );
}

#[test]
fn files_are_replaced_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("made/if/missing");
    let mut report = sample();
    report.write(&out).expect("written");
    report.title = "Another".into();
    report.write(&out).expect("written again");
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, ["report.html", "report.json"]);
    assert!(std::fs::read_to_string(Report::page_in(&out)).expect("the page").contains("Another"));
}
