//! The rows at load, with the distributions of the suite's generators.

use std::fmt::Write as _;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio_postgres::Client;

use super::names;
use super::schema::CATEGORIES;
use super::size::{Size, is_popular};
use crate::Result;
use crate::copy::{Copy, Loader, Progress};
use crate::random::Draw as _;

const STATES: [&str; 51] = [
    "AK", "AL", "AR", "AZ", "CA", "CO", "CT", "DC", "DE", "FL", "GA", "HI", "IA", "ID", "IL", "IN", "KS",
    "KY", "LA", "MA", "MD", "ME", "MI", "MN", "MO", "MS", "MT", "NC", "ND", "NE", "NH", "NJ", "NM", "NV",
    "NY", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VA", "VT", "WA", "WI", "WV", "WY",
];
const COUNTRIES: [&str; 10] =
    ["Australia", "Canada", "Chile", "China", "France", "Germany", "Japan", "Russia", "South Africa", "UK"];
/// Days of the months of the year that orders at load are of.
const DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// Tax on a net amount, in hundredths of a percent.
pub(super) const TAX_PER_10000: u32 = 825;

/// A customer without number and user name.
pub(super) struct Customer {
    pub(super) first: String,
    pub(super) last: String,
    pub(super) city: String,
    pub(super) state: &'static str,
    pub(super) zip: i32,
    pub(super) country: &'static str,
    pub(super) region: i16,
    pub(super) phone: String,
    pub(super) card_type: i32,
    pub(super) card: String,
    pub(super) card_expiration: String,
    pub(super) age: i16,
    pub(super) income: i32,
    pub(super) gender: &'static str,
}

impl Customer {
    /// A customer of the United States, region 1, or of the rest of the world, region 2.
    pub(super) fn draw(r: &mut SmallRng, is_american: bool) -> Customer {
        let (state, zip, country, region) = if is_american {
            (r.one_of(&STATES), r.uniform(10_000, 99_999), "US", 1)
        } else {
            ("", 0, r.one_of(&COUNTRIES), 2)
        };
        Customer {
            first: r.capitals(6),
            last: r.capitals(10),
            city: r.capitals(7),
            state,
            zip,
            country,
            region,
            phone: r.uniform(1_000_000_000u64, 9_999_999_999).to_string(),
            card_type: r.uniform(1, 5),
            card: r.uniform(1_000_000_000_000_000u64, 9_999_999_999_999_999).to_string(),
            card_expiration: format!("{}/{:02}", r.uniform(2008, 2012), r.uniform(1, 12)),
            age: r.uniform(18, 90),
            income: 20_000 * r.uniform(1, 5),
            gender: r.one_of(&["M", "F"]),
        }
    }

    pub(super) fn address(&self) -> String {
        format!("{} Dell Way", self.phone)
    }

    pub(super) fn email(&self) -> String {
        format!("{}@dell.com", self.last)
    }
}

/// An order at load. It is a function of the seed and its number, so that its three tables agree without it being kept.
struct Order {
    customer: u32,
    date: String,
    net_cents: u32,
    lines: Vec<(u32, u32)>,
}

fn order(seed: u64, number: u32, size: &Size) -> Order {
    let mut r = SmallRng::seed_from_u64(seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let month = (number - 1) / size.orders_per_month;
    let day = r.uniform(1, DAYS[month as usize]);
    let customer = r.uniform(1, size.customers);
    let net_cents = r.uniform(1, 40_000);
    let count = r.uniform(1, 9);
    let lines = (0..count).map(|_| (r.uniform(1, size.products), r.uniform(1, 3))).collect();
    Order { customer, date: format!("2009-{:02}-{day:02}", month + 1), net_cents, lines }
}

/// The tax on an amount in cents, rounded half up.
pub(super) fn tax_cents(net_cents: u32) -> u32 {
    (net_cents * TAX_PER_10000 + 5_000) / 10_000
}

/// Fills the tables.
pub(super) async fn fill(client: &Client, size: &Size, seed: u64, progress: Progress<'_>) -> Result<()> {
    let total = u64::from(size.customers) + u64::from(size.orders()) * 11 + u64::from(size.products) * 2;
    let mut loader = Loader::new(client, total, progress);
    let mut r = SmallRng::seed_from_u64(seed);
    categories(loader.copy("categories", "").await?).await?;
    customers(loader.copy("customers", "").await?, size, &mut r).await?;
    products(loader.copy("products", "").await?, size, &mut r).await?;
    orders(loader.copy("orders", "").await?, size, seed).await?;
    let sales = order_lines(loader.copy("orderlines", "").await?, size, seed).await?;
    customer_history(loader.copy("cust_hist", "").await?, size, seed).await?;
    inventory(loader.copy("inventory", "").await?, &sales, &mut r).await
}

async fn categories(mut copy: Copy<'_, '_>) -> Result<()> {
    for (number, name) in (1..).zip(CATEGORIES) {
        write!(copy.text, "{number}\t{name}")?;
        copy.end_row().await?;
    }
    copy.finish().await
}

async fn customers(mut copy: Copy<'_, '_>, size: &Size, r: &mut SmallRng) -> Result<()> {
    for id in 1..=size.customers {
        // The first half is of the United States.
        let c = Customer::draw(r, id <= size.customers / 2);
        write!(
            copy.text,
            "{id}\t{}\t{}\t{}\t\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\tuser{id}\tpassword\t{}\t{}\t{}",
            c.first,
            c.last,
            c.address(),
            c.city,
            c.state,
            c.zip,
            c.country,
            c.region,
            c.email(),
            c.phone,
            c.card_type,
            c.card,
            c.card_expiration,
            c.age,
            c.income,
            c.gender
        )?;
        copy.end_row().await?;
    }
    copy.finish().await
}

async fn products(mut copy: Copy<'_, '_>, size: &Size, r: &mut SmallRng) -> Result<()> {
    for id in 1..=size.products {
        let (category, title, actor) = (r.uniform(1, 16), names::title(id), names::any_actor(r));
        let (price, other) = (r.uniform(9, 29), r.uniform(1, size.products));
        let special = i32::from(r.uniform(1, size.special_one_in()) == 1);
        write!(copy.text, "{id}\t{category}\t{title}\t{actor}\t{price}.99\t{special}\t{other}")?;
        copy.end_row().await?;
    }
    copy.finish().await
}

async fn orders(mut copy: Copy<'_, '_>, size: &Size, seed: u64) -> Result<()> {
    for id in 1..=size.orders() {
        let Order { customer, date, net_cents: net, .. } = order(seed, id, size);
        let tax = tax_cents(net);
        let cents = |cents: u32| format!("{}.{:02}", cents / 100, cents % 100);
        write!(copy.text, "{id}\t{date}\t{customer}\t{}\t{}\t{}", cents(net), cents(tax), cents(net + tax))?;
        copy.end_row().await?;
    }
    copy.finish().await
}

/// Fills the order lines; how many of each product were sold.
async fn order_lines(mut copy: Copy<'_, '_>, size: &Size, seed: u64) -> Result<Vec<u32>> {
    let mut sales = vec![0; size.products as usize];
    for id in 1..=size.orders() {
        let order = order(seed, id, size);
        for (number, (product, quantity)) in (1..).zip(order.lines) {
            sales[product as usize - 1] += quantity;
            write!(copy.text, "{number}\t{id}\t{product}\t{quantity}\t{}", order.date)?;
            copy.end_row().await?;
        }
    }
    copy.finish().await?;
    Ok(sales)
}

async fn customer_history(mut copy: Copy<'_, '_>, size: &Size, seed: u64) -> Result<()> {
    for id in 1..=size.orders() {
        let order = order(seed, id, size);
        for (product, _) in order.lines {
            write!(copy.text, "{}\t{id}\t{product}", order.customer)?;
            copy.end_row().await?;
        }
    }
    copy.finish().await
}

async fn inventory(mut copy: Copy<'_, '_>, sales: &[u32], r: &mut SmallRng) -> Result<()> {
    for (product, sold) in (1..).zip(sales) {
        let times = if is_popular(product) { 10 } else { 1 };
        write!(copy.text, "{product}\t{}\t{sold}", r.uniform(0, 500) * times)?;
        copy.end_row().await?;
    }
    copy.finish().await
}

#[cfg(test)]
mod tests {
    use super::super::size::Standard;
    use super::*;

    #[test]
    fn orders_are_of_their_month_and_within_the_store() {
        let size = Size::new(Standard::Small, 0.1).expect("in range");
        for number in 1..=size.orders() {
            let order = order(3, number, &size);
            let month = (number - 1) / size.orders_per_month + 1;
            assert!(order.date.starts_with(&format!("2009-{month:02}-")), "{number}: {}", order.date);
            assert!((1..=size.customers).contains(&order.customer));
            assert!((1..=9).contains(&order.lines.len()));
            assert!(order.lines.iter().all(|(p, q)| (1..=size.products).contains(p) && (1..=3).contains(q)));
        }
    }

    #[test]
    fn tax_is_eight_and_a_quarter_percent_to_the_cent() {
        assert_eq!(tax_cents(10_000), 825);
        assert_eq!(tax_cents(100), 8);
        assert_eq!(tax_cents(60), 5);
        assert_eq!(tax_cents(40_000), 3_300);
    }
}
