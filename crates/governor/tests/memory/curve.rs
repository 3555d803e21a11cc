//! The ghosts against real dedicated caches.

use governor::CURVE;

use crate::world::{Habit, Plan, World};

#[test]
fn the_curve_is_that_of_dedicated_caches() {
    let habits = [
        Habit::Skewed { pages: 12_000, skew: 0.9 },
        Habit::Skewed { pages: 5000, skew: 0.3 },
        Habit::Mixed { pages: 4000, skew: 0.9, scanned: 9000, every: 4 },
    ];
    for habit in habits {
        let plan = Plan::of(1024, habit, 40, 3);
        let uses = plan.rate * 100 * 20;
        let mut metered = World::new(8192, std::slice::from_ref(&plan));
        metered.run(20);
        let counts = metered.tenants[0].counts();
        for (quarters, found) in CURVE.iter().zip(&counts.curve) {
            let size = Plan { promised_pages: 1024 * quarters / 4, ..plan.clone() };
            let mut dedicated = World::dedicated(&size);
            dedicated.run(20);
            let (found, real) =
                (found.reads as f64 / uses as f64, dedicated.tenants[0].reads as f64 / uses as f64);
            assert!((found - real).abs() < 0.04, "{:?} {quarters}/4: {found:.3} for {real:.3}", plan.habit);
        }
    }
}
