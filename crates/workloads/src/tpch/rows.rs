//! Values that several tables have (clause 4.2.2), and the load of all tables in their order.

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio_postgres::Client;

use super::dates::Calendar;
use super::scale::Scale;
use super::text::Pool;
use super::words::{CONTAINERS, TYPES};
use super::{orders, parts};
use crate::Result;
use crate::copy::{Loader, Progress};
use crate::random::Draw as _;

/// What rows are made with.
pub(super) struct Source {
    pub(super) scale: Scale,
    pub(super) seed: u64,
    pub(super) pool: Pool,
    pub(super) calendar: Calendar,
}

/// Fills the tables.
pub(super) async fn fill(client: &Client, scale: Scale, seed: u64, progress: Progress<'_>) -> Result<()> {
    let pool = Pool::new(&mut SmallRng::seed_from_u64(seed));
    let source = Source { scale, seed, pool, calendar: Calendar::new() };
    let total = scale.parts() * 5 + scale.suppliers() + scale.customers() + scale.orders() * 5;
    let mut loader = Loader::new(client, total, progress);
    parts::regions(&mut loader, &source).await?;
    parts::nations(&mut loader, &source).await?;
    parts::parts(&mut loader, &source).await?;
    parts::suppliers(&mut loader, &source).await?;
    parts::part_suppliers(&mut loader, &source).await?;
    parts::customers(&mut loader, &source).await?;
    orders::orders(&mut loader, &source).await?;
    orders::lines(&mut loader, &source).await
}

impl Source {
    /// A generator for a table's rows, or for one row of it.
    pub(super) fn rng(&self, table: u64, row: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed ^ (table << 56 | row).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Hundredths as text.
pub(super) fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

/// The price of a part in cents (clause 4.2.3).
pub(super) fn retail_price_cents(part: u64) -> u64 {
    90_000 + part / 10 % 20_001 + 100 * (part % 1_000)
}

/// A phone number of a nation.
pub(super) fn phone(rng: &mut SmallRng, nation: usize) -> String {
    format!(
        "{}-{}-{}-{}",
        nation + 10,
        rng.uniform(100, 999),
        rng.uniform(100, 999),
        rng.uniform(1_000, 9_999)
    )
}

/// An address: 10 to 40 of 64 characters.
pub(super) fn address(rng: &mut SmallRng) -> String {
    const CHARACTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyz ,ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let length = rng.uniform(10, 40);
    (0..length).map(|_| char::from(CHARACTERS[rng.uniform(0, 63)])).collect()
}

pub(super) fn part_type(rng: &mut SmallRng) -> String {
    format!("{} {} {}", rng.one_of(TYPES.0), rng.one_of(TYPES.1), rng.one_of(TYPES.2))
}

pub(super) fn container(rng: &mut SmallRng) -> String {
    format!("{} {}", rng.one_of(CONTAINERS.0), rng.one_of(CONTAINERS.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_two_decimals_and_a_sign() {
        assert_eq!(
            [money(-99_999), money(-5), money(0), money(123_456)],
            ["-999.99", "-0.05", "0.00", "1234.56"]
        );
    }

    #[test]
    fn a_parts_price_is_the_specifications() {
        assert_eq!(money(i64::try_from(retail_price_cents(1)).expect("small")), "901.00");
        assert_eq!(money(i64::try_from(retail_price_cents(200_000)).expect("small")), "1100.00");
    }
}
