//! The initial population (clause 4.3.3).

use std::fmt::Write as _;

use tokio_postgres::Client;

use super::Scale;
use super::random::{NuRand, TpccRandom, last_name_of};
use crate::Result;
use crate::copy::{Loader, Progress};
use crate::random::Draw as _;

/// The date of everything loaded; the specification wants the load's date, a fixed one keeps two loads equal.
const LOAD_DATE: &str = "2026-01-01 00:00:00";

/// Fills the tables.
pub(super) async fn fill(client: &Client, scale: Scale, seed: u64, progress: Progress<'_>) -> Result<()> {
    let loader = Loader::new(client, total(&scale), progress);
    let mut load = Load { loader, scale, random: TpccRandom::new(seed, NuRand::LOAD) };
    load.items().await?;
    load.warehouses().await?;
    load.districts().await?;
    load.customers_and_history().await?;
    load.orders().await?;
    load.stock().await
}

struct Load<'a> {
    loader: Loader<'a>,
    scale: Scale,
    random: TpccRandom,
}

/// All rows but order lines, whose number is random; they are about ten an order.
fn total(scale: &Scale) -> u64 {
    let districts = u64::from(scale.warehouses * scale.districts);
    u64::from(scale.items) * (1 + u64::from(scale.warehouses))
        + u64::from(scale.warehouses)
        + districts
        + districts * u64::from(scale.customers) * 13
}

/// Street, street, city, state, ZIP, tab-separated.
fn address(random: &mut TpccRandom) -> String {
    let (street_1, street_2, city) = (random.text(10, 20), random.text(10, 20), random.text(10, 20));
    let state = random.capitals(2);
    format!("{street_1}\t{street_2}\t{city}\t{state}\t{}", random.zip())
}

fn tax(random: &mut TpccRandom) -> String {
    format!("0.{:04}", random.uniform(0, 2000))
}

impl Load<'_> {
    async fn items(&mut self) -> Result<()> {
        let mut copy = self.loader.copy("item", "").await?;
        for id in 1..=self.scale.items {
            let r = &mut self.random;
            let (image, name, cents) = (r.uniform(1, 10_000), r.text(14, 24), r.uniform(100, 10_000));
            write!(copy.text, "{id}\t{image}\t{name}\t{}.{:02}\t{}", cents / 100, cents % 100, r.data())?;
            copy.end_row().await?;
        }
        copy.finish().await
    }

    async fn warehouses(&mut self) -> Result<()> {
        let mut copy = self.loader.copy("warehouse", "").await?;
        for id in 1..=self.scale.warehouses {
            let r = &mut self.random;
            let name = r.text(6, 10);
            // The sum of the districts', so that condition 1 holds at the start.
            write!(
                copy.text,
                "{id}\t{name}\t{}\t{}\t{}.00",
                address(r),
                tax(r),
                self.scale.paid_at_load() * self.scale.districts
            )?;
            copy.end_row().await?;
        }
        copy.finish().await
    }

    async fn districts(&mut self) -> Result<()> {
        let mut copy = self.loader.copy("district", "").await?;
        for warehouse in 1..=self.scale.warehouses {
            for id in 1..=self.scale.districts {
                let r = &mut self.random;
                let (name, next) = (r.text(6, 10), self.scale.orders() + 1);
                let (address, tax, ytd) = (address(r), tax(r), self.scale.paid_at_load());
                write!(copy.text, "{id}\t{warehouse}\t{name}\t{address}\t{tax}\t{ytd}.00\t{next}")?;
                copy.end_row().await?;
            }
        }
        copy.finish().await
    }

    async fn customers_and_history(&mut self) -> Result<()> {
        let scale = self.scale;
        let mut copy = self.loader.copy("customer", "").await?;
        for warehouse in 1..=scale.warehouses {
            for district in 1..=scale.districts {
                for id in 1..=scale.customers {
                    let r = &mut self.random;
                    // The first thousand have every last name once, the others follow NURand.
                    let last = if id <= 1000 { last_name_of(id - 1) } else { r.last_name(scale.customers) };
                    let (first, address, phone) = (r.text(8, 16), address(r), r.digits(16));
                    let credit = if r.percent(10) { "BC" } else { "GC" };
                    let discount = r.uniform(0, 5000);
                    write!(
                        copy.text,
                        "{id}\t{district}\t{warehouse}\t{first}\tOE\t{last}\t{address}\t{phone}\t{LOAD_DATE}\t{credit}\t\
                         50000.00\t0.{discount:04}\t-10.00\t10.00\t1\t0\t{}",
                        r.text(300, 500)
                    )?;
                    copy.end_row().await?;
                }
            }
        }
        copy.finish().await?;
        let mut copy = self.loader.copy("history", "").await?;
        for warehouse in 1..=scale.warehouses {
            for district in 1..=scale.districts {
                for customer in 1..=scale.customers {
                    let data = self.random.text(12, 24);
                    write!(
                        copy.text,
                        "{customer}\t{district}\t{warehouse}\t{district}\t{warehouse}\t{LOAD_DATE}\t10.00\t{data}"
                    )?;
                    copy.end_row().await?;
                }
            }
        }
        copy.finish().await
    }

    async fn orders(&mut self) -> Result<()> {
        // Orders first; their lines' number must agree, so it is drawn once and kept.
        let scale = self.scale;
        let mut line_counts = Vec::new();
        let mut copy = self.loader.copy("orders", "").await?;
        for warehouse in 1..=scale.warehouses {
            for district in 1..=scale.districts {
                let customers = self.random.permutation(scale.customers);
                for (order, customer) in (1..).zip(customers) {
                    let lines = self.random.uniform(5, 15);
                    let carrier = if order < scale.first_undelivered() {
                        self.random.uniform(1, 10).to_string()
                    } else {
                        "\\N".to_owned()
                    };
                    line_counts.push(lines);
                    write!(
                        copy.text,
                        "{order}\t{district}\t{warehouse}\t{customer}\t{LOAD_DATE}\t{carrier}\t{lines}\t1"
                    )?;
                    copy.end_row().await?;
                }
            }
        }
        copy.finish().await?;
        self.order_lines(&line_counts).await?;
        let mut copy = self.loader.copy("new_order", "").await?;
        for warehouse in 1..=scale.warehouses {
            for district in 1..=scale.districts {
                for order in scale.first_undelivered()..=scale.orders() {
                    write!(copy.text, "{order}\t{district}\t{warehouse}")?;
                    copy.end_row().await?;
                }
            }
        }
        copy.finish().await
    }

    async fn order_lines(&mut self, line_counts: &[u32]) -> Result<()> {
        let scale = self.scale;
        let mut counts = line_counts.iter();
        let mut copy = self.loader.copy("order_line", "").await?;
        for warehouse in 1..=scale.warehouses {
            for district in 1..=scale.districts {
                for order in 1..=scale.orders() {
                    let delivered = order < scale.first_undelivered();
                    for number in 1..=*counts.next().expect("a count for each order") {
                        let r = &mut self.random;
                        let item = r.uniform(1, scale.items);
                        let cents = if delivered { 0 } else { r.uniform(1, 999_999) };
                        let date = if delivered { LOAD_DATE } else { "\\N" };
                        write!(
                            copy.text,
                            "{order}\t{district}\t{warehouse}\t{number}\t{item}\t{warehouse}\t{date}\t5\t{}.{:02}\t{}",
                            cents / 100,
                            cents % 100,
                            r.text(24, 24)
                        )?;
                        copy.end_row().await?;
                    }
                }
            }
        }
        copy.finish().await
    }

    async fn stock(&mut self) -> Result<()> {
        let mut copy = self.loader.copy("stock", "").await?;
        for warehouse in 1..=self.scale.warehouses {
            for item in 1..=self.scale.items {
                let r = &mut self.random;
                write!(copy.text, "{item}\t{warehouse}\t{}", r.uniform(10, 100))?;
                for _ in 0..10 {
                    write!(copy.text, "\t{}", r.text(24, 24))?;
                }
                write!(copy.text, "\t0\t0\t0\t{}", r.data())?;
                copy.end_row().await?;
            }
        }
        copy.finish().await
    }
}
