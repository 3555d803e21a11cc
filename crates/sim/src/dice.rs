//! A world's chance, for what the harness chooses itself.

use base::Nanos;
use env::sim::World;

/// Draws from the world's own sequence, so one seed decides everything.
#[derive(Clone)]
pub struct Dice(World);

impl Dice {
    pub fn of(world: &World) -> Dice {
        Dice(world.clone())
    }

    /// From 0 to `n - 1`.
    pub fn below(&self, n: u64) -> u64 {
        self.0.random() % n
    }

    /// From `least` to `most`.
    pub fn between(&self, least: i64, most: i64) -> i64 {
        least + self.below((most - least + 1).unsigned_abs()).cast_signed()
    }

    /// True `percent` times in a hundred.
    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Lets up to `micros_max` of virtual time pass.
    pub async fn pause(&self, micros_max: u64) {
        env::sleep(Nanos::from_micros(self.below(micros_max + 1))).await;
    }
}
