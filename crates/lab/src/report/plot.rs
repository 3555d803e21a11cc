//! A plot as SVG within the page: axes with ticks, one line a series, dashed lines for what was promised.
//!
//! Colours are classes `c0`, `c1`, … of the page's style, so that the drawing follows light and dark. Text is of the page too.

use std::fmt::Write as _;

use super::html::escape;
use super::numbers::figure;
use super::{Plot, Series};
use crate::stats;

/// Colours that the page's style has; further series begin anew.
pub(super) const COLOURS: usize = 8;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;

/// From values to places of the drawing.
struct Scale {
    x: (f64, f64),
    y_most: f64,
}

impl Scale {
    fn of(plot: &Plot) -> Scale {
        let ends = plot.series.iter().flat_map(|s| {
            let last = s.x_first + s.x_step * s.values.len().saturating_sub(1) as f64;
            [s.x_first - s.x_step, last]
        });
        let ends = ends.chain(plot.promised.iter().flat_map(|level| [level.x_from, level.x_to]));
        let (least, most) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), x| (least.min(x), most.max(x)));
        let (least, most) = if least < most { (least, most) } else { (0.0, 1.0) };
        let drawn = plot.series.iter().flat_map(|series| drawn(series, plot.smoothed_over));
        let heights = drawn.map(|(_, y)| y).chain(plot.promised.iter().map(|level| level.y));
        let y_most = heights.fold(0.0, f64::max);
        Scale { x: (least.max(0.0).min(most), most), y_most: if y_most > 0.0 { y_most * 1.08 } else { 1.0 } }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x.0) / (self.x.1 - self.x.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.y_most * (HEIGHT - TOP - BOTTOM)
    }
}

/// The points of a series as they are drawn: each the mean of `over` intervals, in their middle.
fn drawn(series: &Series, over: usize) -> Vec<(f64, f64)> {
    let over = over.max(1);
    let begin = series.x_first - series.x_step;
    let width = series.x_step * over as f64;
    let means = stats::means_of(&series.values, over);
    let last = means.len().saturating_sub(1);
    let middle = |index: usize| {
        let from = begin + width * index as f64;
        let left = series.values.len() - index * over;
        let to = if index == last { from + series.x_step * left.min(over) as f64 } else { from + width };
        f64::midpoint(from, to)
    };
    means.into_iter().enumerate().map(|(index, mean)| (middle(index), mean)).collect()
}

/// Round numbers from `from` to `to`, some `about` of them.
pub(super) fn ticks(from: f64, to: f64, about: usize) -> Vec<f64> {
    let raw = (to - from) / about.max(1) as f64;
    if raw <= 0.0 || !raw.is_finite() {
        return vec![from];
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|nice| nice * power).find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step - 1e-9).ceil() as i64;
    (first..).map(|n| n as f64 * step).take_while(|tick| *tick <= to + step * 1e-9).collect()
}

/// The drawing and, before it, its legend.
pub(super) fn svg(plot: &Plot) -> String {
    let scale = Scale::of(plot);
    let mut out = String::new();
    legend(plot, &mut out);
    let _ = writeln!(
        out,
        "<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&format!("{}: {} over {}", plot.title, plot.y_label, plot.x_label))
    );
    axes(plot, &scale, &mut out);
    for mark in &plot.marks {
        let x = scale.x(mark.x);
        let _ = writeln!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/>\
             <text class=\"mark-name\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - BOTTOM,
            x + 4.0,
            TOP - 8.0,
            escape(&mark.name)
        );
    }
    for (index, series) in plot.series.iter().enumerate() {
        let points: Vec<String> = drawn(series, plot.smoothed_over)
            .into_iter()
            .map(|(x, y)| format!("{:.1},{:.1}", scale.x(x), scale.y(y)))
            .collect();
        let _ = writeln!(
            out,
            "<polyline class=\"series c{}\" points=\"{}\"><title>{}</title></polyline>",
            index % COLOURS,
            points.join(" "),
            escape(&series.name)
        );
    }
    for level in &plot.promised {
        let y = scale.y(level.y);
        let _ = writeln!(
            out,
            "<line class=\"promised\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"><title>{}</title></line>",
            scale.x(level.x_from),
            scale.x(level.x_to),
            escape(&format!("{}: {}", level.name, figure(level.y)))
        );
    }
    out.push_str("</svg></div>\n");
    out
}

fn axes(plot: &Plot, scale: &Scale, out: &mut String) {
    let (right, base) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for tick in ticks(0.0, scale.y_most, 5) {
        let y = scale.y(tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            y + 4.5,
            label(tick)
        );
    }
    let (from, to) = scale.x;
    for tick in ticks(from, to, 8) {
        let x = scale.x(tick);
        let _ = writeln!(
            out,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{base}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            base + 5.0,
            base + 20.0,
            label(tick)
        );
    }
    let _ = writeln!(
        out,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{base}\" y2=\"{base}\"/>\
         <text class=\"axis-name\" text-anchor=\"end\" x=\"{right}\" y=\"{:.1}\">{}</text>\
         <text class=\"axis-name\" text-anchor=\"middle\" transform=\"translate(15 {:.1}) rotate(-90)\">{}</text>",
        HEIGHT - 8.0,
        escape(&plot.x_label),
        f64::midpoint(TOP, base),
        escape(&plot.y_label)
    );
}

/// A tick's number: ticks are round, so as short as it goes.
fn label(tick: f64) -> String {
    if tick.fract().abs() < 1e-9 {
        return figure(tick).split('.').next().unwrap_or_default().to_owned();
    }
    let text = format!("{tick:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn legend(plot: &Plot, out: &mut String) {
    out.push_str("<ul class=\"legend\">");
    for (index, series) in plot.series.iter().enumerate() {
        let _ = write!(
            out,
            "<li><svg class=\"key\" viewBox=\"0 0 22 8\" aria-hidden=\"true\"><line class=\"series c{}\" x1=\"1\" x2=\"21\" \
             y1=\"4\" y2=\"4\"/></svg>{}</li>",
            index % COLOURS,
            escape(&series.name)
        );
    }
    // Levels of one name are one thing in several places.
    let mut named: Vec<&str> = plot.promised.iter().map(|level| level.name.as_str()).collect();
    named.dedup();
    for name in named {
        let _ = write!(
            out,
            "<li><svg class=\"key\" viewBox=\"0 0 22 8\" aria-hidden=\"true\"><line class=\"promised\" x1=\"1\" x2=\"21\" \
             y1=\"4\" y2=\"4\"/></svg>{}</li>",
            escape(name)
        );
    }
    out.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn series(x_first: f64, x_step: f64, values: &[f64]) -> Series {
        Series { name: "t1".into(), x_first, x_step, values: values.to_vec() }
    }

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.0, 64.8, 5), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(300.0, 620.0, 4), [300.0, 400.0, 500.0, 600.0]);
        assert_eq!(ticks(0.0, 0.0, 5), [0.0], "an axis without length");
    }

    #[test]
    fn a_point_is_the_mean_of_its_intervals_in_their_middle() {
        assert_eq!(drawn(&series(1.0, 1.0, &[4.0, 6.0]), 0), [(0.5, 4.0), (1.5, 6.0)]);
        assert_eq!(drawn(&series(1.0, 1.0, &[4.0, 6.0, 9.0]), 2), [(1.0, 5.0), (2.5, 9.0)]);
        assert!(drawn(&series(1.0, 1.0, &[]), 30).is_empty());
    }

    #[test]
    fn what_is_drawn_stays_within_the_axes() {
        let level = Level { name: "promised".into(), y: 60.0, x_from: 0.0, x_to: 4.0 };
        let plot = Plot {
            series: vec![series(1.0, 1.0, &[55.0, 61.0, 0.0, 90.0])],
            promised: vec![level],
            ..Plot::default()
        };
        let scale = Scale::of(&plot);
        for (x, y) in drawn(&plot.series[0], 0) {
            assert!(
                (LEFT..=WIDTH - RIGHT).contains(&scale.x(x)) && (TOP..=HEIGHT - BOTTOM).contains(&scale.y(y))
            );
        }
        assert_eq!((scale.x(0.0), scale.x(4.0), scale.y(0.0)), (LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM));
        let drawing = svg(&plot);
        assert_eq!(drawing.matches("<polyline").count(), 1);
        assert_eq!(drawing.matches("class=\"promised\"").count(), 2, "the line, and its key in the legend");
    }

    #[test]
    fn a_plot_of_nothing_is_an_empty_plot() {
        let drawing = svg(&Plot { series: vec![series(1.0, 1.0, &[])], ..Plot::default() });
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
    }
}
