//! The depth past which latency only grows, from the throughput at rising queue depths.
//!
//! Requests in flight are throughput times latency (Little, Operations Research 9(3), 1961). So where throughput has stopped to
//! grow, each further request in flight makes all of them wait longer, and nothing else.

/// Part of the best throughput that is as good as the best: what is beyond is bought by waiting.
const ENOUGH: f64 = 0.95;

/// What was completed a second at one depth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rate {
    pub(super) depth: u32,
    pub(super) per_second: f64,
}

/// Where a curve stops to rise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Saturation {
    pub(super) depth: u32,
    /// False if it is the last depth of the curve: what is beyond is not known.
    pub(super) reached: bool,
}

/// The smallest depth with 95 % of the best throughput, of the smoothed curve ([`smoothed`]). Example: 10, 20, 38, 40, 40
/// thousand a second at depths of 1, 2, 4, 8, 16 give 4. `None` if nothing was ever completed.
///
/// # Panics
/// If depths do not rise.
pub(super) fn saturation(curve: &[Rate]) -> Option<Saturation> {
    assert!(curve.is_sorted_by(|a, b| a.depth < b.depth), "each depth is measured once, in order");
    let rates = smoothed(curve);
    let best = best_of(&rates);
    if best <= 0.0 {
        return None;
    }
    let at = rates.iter().position(|rate| *rate >= ENOUGH * best).expect("the best is good enough");
    Some(Saturation { depth: curve[at].depth, reached: at + 1 < curve.len() })
}

/// The smoothed throughput at a depth of the curve.
///
/// # Panics
/// If the curve lacks that depth.
pub(super) fn rate_at(curve: &[Rate], depth: u32) -> f64 {
    let at = curve.iter().position(|rate| rate.depth == depth).expect("a depth that was measured");
    smoothed(curve)[at]
}

fn best_of(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

/// Running medians of three, the last one by Tukey's rule for ends (Exploratory Data Analysis, 1977, chapter 7): the median of
/// itself, its neighbour, and where the line through the two values before it would put it. So one rate that was disturbed, up or
/// down, leaves hardly a trace, and a curve that only rises is left as it is, but for an end that leaps. The first
/// one stays: curves are steep there.
fn smoothed(curve: &[Rate]) -> Vec<f64> {
    let raw: Vec<f64> = curve.iter().map(|rate| rate.per_second).collect();
    let n = raw.len();
    if n < 3 {
        return raw;
    }
    let mut smooth = raw.clone();
    for i in 1..n - 1 {
        smooth[i] = median_of_three(raw[i - 1], raw[i], raw[i + 1]);
    }
    let line = 3.0 * smooth[n - 2] - 2.0 * smooth[n - 3];
    smooth[n - 1] = median_of_three(raw[n - 1], smooth[n - 2], line);
    smooth
}

fn median_of_three(a: f64, b: f64, c: f64) -> f64 {
    a.max(b).min(a.min(b).max(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

    fn curve(per_second: impl Fn(u32) -> f64) -> Vec<Rate> {
        DEPTHS.iter().map(|depth| Rate { depth: *depth, per_second: per_second(*depth) }).collect()
    }

    /// A device that works on `parallel` requests at a time.
    fn device(parallel: u32) -> impl Fn(u32) -> f64 {
        move |depth| 1_000.0 * f64::from(depth.min(parallel))
    }

    fn depth(curve: &[Rate]) -> Option<u32> {
        saturation(curve).map(|found| found.depth)
    }

    #[test]
    fn a_device_is_saturated_by_as_many_as_it_works_on() {
        for parallel in DEPTHS {
            let found = saturation(&curve(device(parallel))).unwrap();
            assert_eq!(found, Saturation { depth: parallel, reached: parallel < 256 });
        }
    }

    #[test]
    fn the_last_twentieth_is_not_worth_waiting_for() {
        assert_eq!(depth(&curve(|depth| 1_000.0 * f64::from(depth) / f64::from(depth + 3))), Some(64));
        assert_eq!(depth(&curve(|depth| [10.0, 20.0, 38.0, 40.0][depth.ilog2().min(3) as usize])), Some(4));
        assert_eq!(depth(&curve(|depth| [10.0, 20.0, 37.0, 40.0][depth.ilog2().min(3) as usize])), Some(8));
    }

    #[test]
    fn what_rises_to_the_end_is_not_saturated() {
        let rising = curve(|depth| f64::from(depth).powf(0.7));
        assert_eq!(saturation(&rising), Some(Saturation { depth: 256, reached: false }));
    }

    #[test]
    fn a_device_that_chokes_is_stopped_before() {
        let choking = curve(|depth| device(16)(depth) / f64::from(1 + depth / 64));
        assert_eq!(saturation(&choking), Some(Saturation { depth: 16, reached: true }));
        assert_eq!(rate_at(&choking, 16), 16_000.0);
        assert_eq!(best_of(&smoothed(&choking)), 16_000.0);
    }

    #[test]
    fn nothing_and_almost_nothing() {
        assert_eq!(saturation(&[]), None);
        assert_eq!(saturation(&curve(|_| 0.0)), None);
        let one = [Rate { depth: 4, per_second: 7.0 }];
        assert_eq!(saturation(&one), Some(Saturation { depth: 4, reached: false }));
        let two = [Rate { depth: 1, per_second: 7.0 }, Rate { depth: 2, per_second: 7.0 }];
        assert_eq!(saturation(&two), Some(Saturation { depth: 1, reached: true }));
        assert_eq!(depth(&curve(|_| 7.0)), Some(1), "a device without any parallelism");
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn depths_out_of_order_are_a_mistake() {
        saturation(&[Rate { depth: 2, per_second: 1.0 }, Rate { depth: 1, per_second: 1.0 }]);
    }

    /// Every rate of every device, off by each factor from 0 to 3 in thousandths, but for those near 1.
    #[test]
    fn one_disturbed_measurement_changes_nothing() {
        let factors = (0..800).chain(1_300..3_000).map(|thousandths| f64::from(thousandths) / 1_000.0);
        let last = DEPTHS.len() - 1;
        for (bend, at) in (0..=last).flat_map(|bend| (0..=last).map(move |at| (bend, at))) {
            // Where the curve bends, a disturbance moves the bend by one step; beside it, none does. At the end of a curve that
            // still rises there is nothing beyond to tell a disturbance from the bend: two steps, and from two steps off.
            let reach = if bend == last { 2 } else { 1 };
            let allowed = if at.abs_diff(bend) > reach { 0 } else { reach };
            for factor in factors.clone() {
                let mut disturbed = curve(device(DEPTHS[bend]));
                disturbed[at].per_second *= factor;
                let found = depth(&disturbed).unwrap();
                let moved = DEPTHS.iter().position(|depth| *depth == found).unwrap().abs_diff(bend);
                assert!(moved <= allowed, "{factor} of the rate at depth {}: {disturbed:?}", DEPTHS[at]);
            }
        }
    }

    proptest! {
        #[test]
        fn noise_of_two_in_a_hundred_moves_the_depth_by_a_step_at_most(
            parallel in 0..9usize, noise in prop::collection::vec(0.98..1.02f64, 9),
        ) {
            let mut noisy = curve(device(DEPTHS[parallel]));
            noisy.iter_mut().zip(&noise).for_each(|(rate, noise)| rate.per_second *= noise);
            let found = depth(&noisy).unwrap();
            prop_assert_eq!(found, DEPTHS[parallel], "{:?}", noisy);
        }

        #[test]
        fn the_depth_does_not_depend_on_how_fast_the_device_is(rates in prop::collection::vec(1.0..1e6f64, 9), scale in 0.01..100.0f64) {
            let of = |scale: f64| {
                let rates = DEPTHS.iter().zip(&rates);
                rates.map(|(depth, rate)| Rate { depth: *depth, per_second: rate * scale }).collect::<Vec<_>>()
            };
            let (one, other) = (saturation(&of(1.0)).unwrap(), saturation(&of(scale)).unwrap());
            // A rate that is 95 % of the best to the last bit may be rounded to either side.
            let near = |curve: &[Rate], depth| (rate_at(curve, depth) / best_of(&smoothed(curve)) - ENOUGH).abs() < 1e-9;
            prop_assert!(one == other || near(&of(1.0), one.depth) || near(&of(scale), other.depth));
            prop_assert!(rate_at(&of(1.0), one.depth) >= ENOUGH * best_of(&smoothed(&of(1.0))));
        }
    }
}
