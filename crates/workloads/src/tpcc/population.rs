//! The initial population (clause 4.3.3), sent by COPY.

use std::fmt::Write as _;

use futures::SinkExt as _;
use tokio_postgres::Client;

use super::random::{NuRand, TpccRandom, last_name_of};
use super::{Scale, schema};
use crate::Result;

/// Text sent to the server at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// The date of everything loaded; the specification wants the load's date, a fixed one keeps two loads equal.
const LOAD_DATE: &str = "2026-01-01 00:00:00";

/// Makes the tables, loads them, makes the indexes. `progress` is called with the rows sent so far and their total.
///
/// # Errors
/// When the server refuses.
pub async fn load(
    client: &mut Client,
    scale: Scale,
    seed: u64,
    foreign_keys: bool,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<()> {
    create(client).await?;
    let mut load = Load { client, scale, random: TpccRandom::new(seed, NuRand::LOAD), sent: 0, progress };
    load.items().await?;
    load.warehouses().await?;
    load.districts().await?;
    load.customers_and_history().await?;
    load.orders().await?;
    load.stock().await?;
    finish(load.client, foreign_keys).await
}

/// Makes the schema without rows: tables, keys, indexes.
///
/// # Errors
/// When the server refuses, or has the tables already.
pub async fn create_schema(client: &mut Client, foreign_keys: bool) -> Result<()> {
    create(client).await?;
    finish(client, foreign_keys).await
}

async fn create(client: &Client) -> Result<()> {
    for statement in schema::CREATE {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// What comes after the rows.
async fn finish(client: &Client, foreign_keys: bool) -> Result<()> {
    let extra = if foreign_keys { schema::FOREIGN_KEYS } else { &[] };
    for statement in schema::AFTER_LOAD.iter().chain(extra) {
        client.batch_execute(statement).await?;
    }
    client.batch_execute("analyze").await?;
    Ok(())
}

struct Load<'a> {
    client: &'a mut Client,
    scale: Scale,
    random: TpccRandom,
    sent: u64,
    progress: &'a mut (dyn FnMut(u64, u64) + Send),
}

/// One COPY under way.
struct Copy {
    sink: std::pin::Pin<Box<tokio_postgres::CopyInSink<bytes::Bytes>>>,
    text: String,
    rows: u64,
}

impl Copy {
    async fn begin(client: &Client, table: &str) -> Result<Copy> {
        let sink = Box::pin(client.copy_in(&format!("copy {table} from stdin")).await?);
        Ok(Copy { sink, text: String::with_capacity(CHUNK_BYTES + 1024), rows: 0 })
    }

    /// Ends the row whose text was appended.
    async fn end_row(&mut self) -> Result<()> {
        self.text.push('\n');
        self.rows += 1;
        if self.text.len() >= CHUNK_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        let text = std::mem::replace(&mut self.text, String::with_capacity(CHUNK_BYTES + 1024));
        self.sink.send(text.into()).await?;
        Ok(())
    }

    async fn finish(mut self) -> Result<u64> {
        self.flush().await?;
        self.sink.as_mut().finish().await?;
        Ok(self.rows)
    }
}

/// Street, street, city, state, ZIP, tab-separated.
fn address(random: &mut TpccRandom) -> String {
    let (street_1, street_2, city) = (random.text(10, 20), random.text(10, 20), random.text(10, 20));
    let state = random.text(2, 2).to_uppercase();
    format!("{street_1}\t{street_2}\t{city}\t{state}\t{}", random.zip())
}

fn tax(random: &mut TpccRandom) -> String {
    format!("0.{:04}", random.uniform(0, 2000))
}

impl Load<'_> {
    /// All rows but order lines, whose number is random; they are about ten an order.
    fn total(&self) -> u64 {
        let s = &self.scale;
        let districts = u64::from(s.warehouses * s.districts);
        u64::from(s.items) * (1 + u64::from(s.warehouses))
            + u64::from(s.warehouses)
            + districts
            + districts * u64::from(s.customers) * 13
    }

    fn report(&mut self, rows: u64) {
        self.sent += rows;
        let total = self.total().max(self.sent);
        (self.progress)(self.sent, total);
    }

    async fn items(&mut self) -> Result<()> {
        let mut copy = Copy::begin(self.client, "item").await?;
        for id in 1..=self.scale.items {
            let r = &mut self.random;
            let (image, name, cents) = (r.uniform(1, 10_000), r.text(14, 24), r.uniform(100, 10_000));
            write!(copy.text, "{id}\t{image}\t{name}\t{}.{:02}\t{}", cents / 100, cents % 100, r.data())?;
            copy.end_row().await?;
        }
        let rows = copy.finish().await?;
        self.report(rows);
        Ok(())
    }

    async fn warehouses(&mut self) -> Result<()> {
        let mut copy = Copy::begin(self.client, "warehouse").await?;
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
        let rows = copy.finish().await?;
        self.report(rows);
        Ok(())
    }

    async fn districts(&mut self) -> Result<()> {
        let mut copy = Copy::begin(self.client, "district").await?;
        for warehouse in 1..=self.scale.warehouses {
            for id in 1..=self.scale.districts {
                let r = &mut self.random;
                let (name, next) = (r.text(6, 10), self.scale.orders() + 1);
                let (address, tax, ytd) = (address(r), tax(r), self.scale.paid_at_load());
                write!(copy.text, "{id}\t{warehouse}\t{name}\t{address}\t{tax}\t{ytd}.00\t{next}")?;
                copy.end_row().await?;
            }
        }
        let rows = copy.finish().await?;
        self.report(rows);
        Ok(())
    }

    async fn customers_and_history(&mut self) -> Result<()> {
        let scale = self.scale;
        let mut copy = Copy::begin(self.client, "customer").await?;
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
        let rows = copy.finish().await?;
        self.report(rows);
        let mut copy = Copy::begin(self.client, "history").await?;
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
        let rows = copy.finish().await?;
        self.report(rows);
        Ok(())
    }

    async fn orders(&mut self) -> Result<()> {
        // Orders first; their lines' number must agree, so it is drawn once and kept.
        let scale = self.scale;
        let mut line_counts = Vec::new();
        let mut copy = Copy::begin(self.client, "orders").await?;
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
        let rows = copy.finish().await?;
        self.report(rows);
        self.order_lines(&line_counts).await?;
        let mut copy = Copy::begin(self.client, "new_order").await?;
        for warehouse in 1..=scale.warehouses {
            for district in 1..=scale.districts {
                for order in scale.first_undelivered()..=scale.orders() {
                    write!(copy.text, "{order}\t{district}\t{warehouse}")?;
                    copy.end_row().await?;
                }
            }
        }
        let rows = copy.finish().await?;
        self.report(rows);
        Ok(())
    }

    async fn order_lines(&mut self, line_counts: &[u32]) -> Result<()> {
        let scale = self.scale;
        let mut counts = line_counts.iter();
        let mut copy = Copy::begin(self.client, "order_line").await?;
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
        let rows = copy.finish().await?;
        self.report(rows);
        Ok(())
    }

    async fn stock(&mut self) -> Result<()> {
        let mut copy = Copy::begin(self.client, "stock").await?;
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
        let rows = copy.finish().await?;
        self.report(rows);
        Ok(())
    }
}
