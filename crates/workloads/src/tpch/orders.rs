//! Orders and their lines (clause 4.2.3). An order is a function of the seed and its number, so that its two tables agree
//! without it being kept.

use std::fmt::Write as _;

use rand::rngs::SmallRng;

use super::dates::{CURRENT, LAST_ORDER};
use super::rows::{Source, money, retail_price_cents};
use super::scale::Scale;
use super::words::{INSTRUCTIONS, MODES, PRIORITIES};
use crate::Result;
use crate::copy::Loader;
use crate::random::Draw as _;

/// The longest an order's line may take to be shipped, in days.
const SHIPPED_WITHIN: usize = 121;

struct Order {
    customer: u64,
    date: usize,
    lines: Vec<Line>,
}

struct Line {
    part: u64,
    supplier: u64,
    quantity: u64,
    discount_percent: u64,
    tax_percent: u64,
    ship: usize,
    commit: usize,
    receipt: usize,
    flag: &'static str,
}

impl Line {
    fn price_cents(&self) -> u64 {
        self.quantity * retail_price_cents(self.part)
    }

    fn is_open(&self) -> bool {
        self.ship > CURRENT
    }

    /// `F` for finished, `O` for open.
    fn status(&self) -> &'static str {
        if self.is_open() { "O" } else { "F" }
    }

    /// What is paid: rounded down to the cent after the discount and after the tax.
    fn paid_cents(&self) -> u64 {
        self.price_cents() * (100 - self.discount_percent) / 100 * (100 + self.tax_percent) / 100
    }
}

impl Order {
    fn make(source: &Source, number: u64) -> (Order, SmallRng) {
        let mut rng = source.rng(7, number);
        let (r, scale) = (&mut rng, source.scale);
        // A third of the customers never ordered anything.
        let customer = loop {
            let customer = r.uniform(1, scale.customers());
            if !customer.is_multiple_of(3) {
                break customer;
            }
        };
        let date = r.uniform(0, LAST_ORDER);
        let count = r.uniform(1, 7);
        let lines = (0..count)
            .map(|_| {
                let part = r.uniform(1, scale.parts());
                let ship = date + r.uniform(1, SHIPPED_WITHIN);
                let receipt = ship + r.uniform(1, 30);
                let returned = r.one_of(&["R", "A"]);
                Line {
                    part,
                    supplier: scale.supplier_of(part, r.uniform(0, 3)),
                    quantity: r.uniform(1, 50),
                    discount_percent: r.uniform(0, 10),
                    tax_percent: r.uniform(0, 8),
                    ship,
                    commit: date + r.uniform(30, 90),
                    receipt,
                    flag: if receipt <= CURRENT { returned } else { "N" },
                }
            })
            .collect();
        (Order { customer, date, lines }, rng)
    }

    /// `F` or `O` if all lines are so, else `P`.
    fn status(&self) -> &'static str {
        let open = self.lines.iter().filter(|line| line.is_open()).count();
        match open {
            0 => "F",
            open if open == self.lines.len() => "O",
            _ => "P",
        }
    }

    fn total_cents(&self) -> u64 {
        self.lines.iter().map(Line::paid_cents).sum()
    }
}

pub(super) async fn orders(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let mut copy = loader.copy("orders", "").await?;
    for number in 1..=source.scale.orders() {
        let (order, mut rng) = Order::make(source, number);
        let (key, r) = (Scale::order_key(number), &mut rng);
        let (priority, clerk) = (r.one_of(&PRIORITIES), r.uniform(1, source.scale.clerks()));
        let Order { customer, date, .. } = order;
        write!(
            copy.text,
            "{key}\t{customer}\t{}\t{}\t{}\t{priority}\tClerk#{clerk:09}\t0\t{}",
            order.status(),
            money(i64::try_from(order.total_cents())?),
            source.calendar.day(date),
            source.pool.piece(r, 19, 78)
        )?;
        copy.end_row().await?;
    }
    copy.finish().await
}

pub(super) async fn lines(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let mut rng = source.rng(8, 0);
    let day = |number| source.calendar.day(number);
    let mut copy = loader.copy("lineitem", "").await?;
    for order_number in 1..=source.scale.orders() {
        let (order, _) = Order::make(source, order_number);
        let key = Scale::order_key(order_number);
        for (number, line) in (1..).zip(&order.lines) {
            let Line { part, supplier, quantity, discount_percent, tax_percent, flag, .. } = line;
            let r = &mut rng;
            write!(
                copy.text,
                "{key}\t{part}\t{supplier}\t{number}\t{quantity}\t{}\t0.{discount_percent:02}\t0.{tax_percent:02}\t{flag}\t\
                 {}\t{}\t{}\t{}\t{}\t{}\t{}",
                money(i64::try_from(line.price_cents())?),
                line.status(),
                day(line.ship),
                day(line.commit),
                day(line.receipt),
                r.one_of(&INSTRUCTIONS),
                r.one_of(&MODES),
                source.pool.piece(r, 10, 43)
            )?;
            copy.end_row().await?;
        }
    }
    copy.finish().await
}
