//! The page of a report: one file, no other host, light and dark.

use std::fmt::Write as _;

use super::{Outcome, Report, Section, Status, Table, plot};

const STYLE: &str = include_str!("style.css");

/// Text between tags or in quotes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn page(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} · Rowhouse lab</title>\n<style>\n{STYLE}</style></head><body><main>",
        escape(&report.title)
    );
    header(report, &mut out);
    scoreboard(report, &mut out);
    for section in &report.sections {
        write_section(section, &mut out);
    }
    conditions(report, &mut out);
    out.push_str("</main></body></html>\n");
    out
}

fn header(report: &Report, out: &mut String) {
    let _ = writeln!(
        out,
        "<header><p class=\"eyebrow\">Rowhouse lab · {}</p><h1>{}</h1><p class=\"lead\">{}</p>",
        escape(&report.experiment),
        escape(&report.title),
        escape(&report.lead)
    );
    let warn = |out: &mut String, text: &str| {
        let _ = writeln!(out, "<p class=\"banner\" role=\"note\">{}</p>", escape(text));
    };
    match &report.status {
        Status::Complete => {}
        Status::Running { part } => warn(
            out,
            &format!(
                "Not complete: {part} had begun when this was written. Parts that ended before are here."
            ),
        ),
        Status::Partial { why } => warn(
            out,
            &format!("Not complete: it ended early ({why}). Parts that ended before that are here."),
        ),
    }
    let factor = report.duration_factor;
    if report.quick {
        warn(out, "Made with --quick: a check of the experiment that takes minutes, not a measurement.");
    } else if factor != 1.0 {
        warn(out, &format!("Not a measurement: durations are {factor} of the paper's."));
    }
    out.push_str("</header>\n");
}

fn class_of(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "met",
        Outcome::Missed => "missed",
        Outcome::Void => "void",
    }
}

/// All verdicts in one place, with their sum.
fn scoreboard(report: &Report, out: &mut String) {
    let count = |outcome| report.verdicts().filter(|(_, verdict)| verdict.outcome == outcome).count();
    out.push_str("<section class=\"score\"><h2 class=\"hidden\">Verdicts</h2><ul class=\"tiles\">");
    for outcome in [Outcome::Met, Outcome::Missed, Outcome::Void] {
        let (count, class) = (count(outcome), class_of(outcome));
        let none = if count == 0 { " none" } else { "" };
        let _ = write!(out, "<li class=\"tile {class}{none}\"><b>{count}</b><span>{outcome}</span></li>");
    }
    out.push_str("</ul>\n");
    if report.sections.len() > 1 {
        out.push_str("<nav aria-label=\"Parts\"><ol>");
        for section in &report.sections {
            let _ =
                write!(out, "<li><a href=\"#{}\">{}</a></li>", escape(&section.id), escape(&section.title));
        }
        out.push_str("</ol></nav>\n");
    }
    out.push_str("</section>\n");
}

fn write_section(section: &Section, out: &mut String) {
    let _ = writeln!(
        out,
        "<section id=\"{}\"><h2>{}</h2><p>{}</p>",
        escape(&section.id),
        escape(&section.title),
        escape(&section.text)
    );
    if !section.verdicts.is_empty() {
        out.push_str(
            "<div class=\"scroll\"><table class=\"verdicts\"><thead><tr><th>Demand</th><th>Measured</th><th>The paper</th>\
             <th>Verdict</th></tr></thead><tbody>",
        );
        for verdict in &section.verdicts {
            let paper = if verdict.paper.is_empty() { "–" } else { &verdict.paper };
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td><span class=\"badge {}\">{}</span></td></tr>",
                escape(&verdict.demand),
                escape(&verdict.measured),
                escape(paper),
                class_of(verdict.outcome),
                verdict.outcome
            );
        }
        out.push_str("</tbody></table></div>\n");
    }
    for drawn in &section.plots {
        let _ = writeln!(out, "<figure><figcaption>{}</figcaption>", escape(&drawn.title));
        out.push_str(&plot::svg(drawn));
        if drawn.smoothed_over > 1 {
            let _ = writeln!(
                out,
                "<p class=\"small\">A point is the mean of {} intervals; the JSON has each.</p>",
                drawn.smoothed_over
            );
        }
        out.push_str("</figure>\n");
    }
    for table in &section.tables {
        write_table(table, out);
    }
    if !section.notes.is_empty() {
        out.push_str("<ul class=\"notes\">");
        for note in &section.notes {
            let _ = write!(out, "<li>{}</li>", escape(note));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

fn write_table(table: &Table, out: &mut String) {
    let _ =
        write!(out, "<div class=\"scroll\"><table><caption>{}</caption><thead><tr>", escape(&table.title));
    for cell in &table.head {
        let _ = write!(out, "<th>{}</th>", escape(cell));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let tag = if index == 0 { "th scope=\"row\"" } else { "td" };
            let _ = write!(out, "<{tag}>{}</{}>", escape(cell), &tag[..2]);
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Where and how it was measured.
fn conditions(report: &Report, out: &mut String) {
    out.push_str("<section id=\"conditions\"><h2>Where and how</h2><dl>");
    let seconds = report.written_us.saturating_sub(report.began_us) / 1_000_000;
    let own = [
        ("Repetitions", report.repetitions.to_string()),
        ("Durations", format!("{} of the paper's", report.duration_factor)),
        ("Took", format!("{} min {} s", seconds / 60, seconds % 60)),
    ];
    let facts = report.machine.facts();
    let facts = facts.iter().map(|fact| (fact.name.as_str(), fact.value.clone()));
    let settings = report.setting.iter().map(|fact| (fact.name.as_str(), fact.value.clone()));
    for (name, value) in facts.chain(own).chain(settings) {
        let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&value));
    }
    let _ = writeln!(
        out,
        "</dl><p class=\"small\">report.json beside this page has every number of it and the raw series of every interval \
         (form {}).</p></section>",
        escape(&report.schema)
    );
}
