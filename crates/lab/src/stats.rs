//! What a series of numbers comes to.

use serde::{Deserialize, Serialize};

/// A series in a few numbers. Of no values all of them are 0, and `count` says so.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    /// Standard deviation of the values themselves (divided by their number).
    pub deviation: f64,
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

/// The values in a few numbers.
///
/// # Panics
/// When a value is not a number.
pub fn summary(values: &[f64]) -> Summary {
    assert!(!values.iter().any(|value| value.is_nan()), "a value is not a number");
    let count = values.len();
    if count == 0 {
        return Summary::default();
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
    Summary {
        count,
        mean,
        deviation: variance.sqrt(),
        least: values.iter().copied().fold(f64::INFINITY, f64::min),
        median: median(values),
        most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// The value in the middle, of an even number the mean of the two; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The standard error of the values' median, told from their median deviation as of a normal distribution; 0 of fewer than two.
pub fn median_error(values: &[f64]) -> f64 {
    /// Of a normal distribution: its deviation is so many median deviations.
    const OF_MEDIAN_DEVIATION: f64 = 1.4826;
    /// And the error of a median so much more than that of a mean: the root of half of pi.
    const OF_MEAN: f64 = 1.2533;
    if values.len() < 2 {
        return 0.0;
    }
    let middle = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    OF_MEAN * OF_MEDIAN_DEVIATION * median(&deviations) / (values.len() as f64).sqrt()
}

/// Means of each `width` values that follow each other; what is left over at the end is a mean of fewer.
///
/// # Panics
/// When `width` is 0.
pub fn means_of(values: &[f64], width: usize) -> Vec<f64> {
    values.chunks(width).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64).collect()
}

/// How far `value` is from `of`, as a part of it: 0.02 is two percent more. 0 when both are.
pub fn off(value: f64, of: f64) -> f64 {
    if value == of { 0.0 } else { (value - of) / of }
}

/// `part` of `whole`; 0 of nothing.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_that_of_the_values() {
        let found = summary(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((found.count, found.mean, found.deviation, found.median), (8, 5.0, 2.0, 4.5));
        assert_eq!((found.least, found.most), (2.0, 9.0));
        assert_eq!(summary(&[]), Summary::default());
        assert_eq!(summary(&[3.0]).deviation, 0.0);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
    }

    #[test]
    fn the_error_of_a_median_falls_with_the_number_of_values() {
        let four = median_error(&[1.0, 2.0, 3.0, 4.0]);
        assert!((four - 1.2533 * 1.4826 / 2.0).abs() < 1e-9, "the median deviation is 1: {four}");
        let sixteen: Vec<f64> = (0..16).map(|n| f64::from(n % 4)).collect();
        assert!((median_error(&sixteen) - four / 2.0).abs() < 1e-9);
        // One value that is far off says nothing of the others.
        assert_eq!(median_error(&[1.0, 1.0, 1.0, 99.0]), 0.0);
        assert_eq!((median_error(&[]), median_error(&[7.0])), (0.0, 0.0));
    }

    #[test]
    fn buckets_keep_what_is_left_over() {
        assert_eq!(means_of(&[1.0, 3.0, 5.0, 7.0, 10.0], 2), [2.0, 6.0, 10.0]);
        assert!(means_of(&[], 30).is_empty());
    }

    #[test]
    fn parts_of_nothing_are_nothing() {
        assert_eq!((share(1.0, 4.0), share(1.0, 0.0)), (0.25, 0.0));
        assert_eq!((off(103.0, 100.0), off(0.0, 0.0)), (0.03, 0.0));
        assert!(off(1.0, 0.0).is_infinite(), "something of nothing is not close to it");
    }
}
