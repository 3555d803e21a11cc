//! The five transactions (clauses 2.4 to 2.8) over one connection.
//!
//! Statements that do not need each other's results are sent together, without waiting for the replies in between, as
//! libpq's pipeline mode and JDBC's batches do: a New-Order takes three round trips, a Payment two or three. They run in the
//! order in which they are sent; after one that fails the server skips the rest, a COMMIT among them included.

use rust_decimal::Decimal;

use super::Scale;
use super::random::TpccRandom;
use super::statements::Statements;
use crate::Result;
use crate::connection::{Connection, Reply};
use crate::load::Outcome;
use crate::random::Draw as _;

/// The transactions in the order of the report.
pub(super) const KINDS: [&str; 5] = ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"];
pub(super) const NEW_ORDER: usize = 0;

/// A terminal: a connection with its home warehouse and district.
pub struct Terminal {
    pub(super) connection: Connection,
    pub(super) statements: Statements,
    pub(super) random: TpccRandom,
    pub(super) scale: Scale,
    pub(super) warehouse: i32,
    pub(super) district: i32,
    deck: Vec<usize>,
    /// The input of the transaction under way, so that a retry asks for the same again.
    input: Input,
}

/// A customer as a transaction names one: by number, or 60 times in a hundred by last name.
#[derive(Clone, Debug)]
enum Who {
    Id(i32),
    Name(String),
}

#[derive(Clone, Debug)]
struct OrderLine {
    item: i32,
    supply_warehouse: i32,
    quantity: i32,
}

#[derive(Clone, Debug)]
enum Input {
    None,
    NewOrder { district: i32, customer: i32, lines: Vec<OrderLine> },
    Payment { district: i32, customer_warehouse: i32, customer_district: i32, who: Who, cents: u32 },
    OrderStatus { district: i32, who: Who },
    Delivery { carrier: i32 },
    StockLevel { threshold: i32 },
}

/// `numeric(…,2)` from whole cents.
fn money(cents: u32) -> Decimal {
    Decimal::new(i64::from(cents), 2)
}

fn signed(value: u32) -> i32 {
    i32::try_from(value).expect("TPC-C's numbers fit an int")
}

impl Terminal {
    pub(super) fn new(
        connection: Connection,
        statements: Statements,
        random: TpccRandom,
        scale: Scale,
        number: u32,
    ) -> Terminal {
        let warehouse = signed(number % scale.warehouses + 1);
        let district = signed(number / scale.warehouses % scale.districts + 1);
        Terminal {
            connection,
            statements,
            random,
            scale,
            warehouse,
            district,
            deck: Vec::new(),
            input: Input::None,
        }
    }

    /// Draws the next transaction from a shuffled deck of 23 cards (clause 5.2.4.2: 10, 10, 1, 1, 1) and its input.
    pub(super) fn choose(&mut self) -> usize {
        if self.deck.is_empty() {
            let order = self.random.permutation(23);
            self.deck = order
                .into_iter()
                .map(|card| match card {
                    1..=10 => 0,
                    11..=20 => 1,
                    21 => 2,
                    22 => 3,
                    _ => 4,
                })
                .collect();
        }
        let kind = self.deck.pop().expect("the deck was just filled");
        self.input = match kind {
            0 => self.new_order_input(),
            1 => self.payment_input(),
            2 => {
                let district = signed(self.random.uniform(1, self.scale.districts));
                Input::OrderStatus { district, who: self.who() }
            }
            3 => Input::Delivery { carrier: signed(self.random.uniform(1, 10)) },
            _ => Input::StockLevel { threshold: signed(self.random.uniform(10, 20)) },
        };
        kind
    }

    fn who(&mut self) -> Who {
        if self.random.percent(60) {
            Who::Name(self.random.last_name(self.scale.customers))
        } else {
            Who::Id(signed(self.random.customer_id(self.scale.customers)))
        }
    }

    /// Another warehouse than the home one, or the home one where there is no other.
    fn other_warehouse(&mut self) -> i32 {
        if self.scale.warehouses == 1 {
            return self.warehouse;
        }
        let drawn = signed(self.random.uniform(1, self.scale.warehouses - 1));
        if drawn >= self.warehouse { drawn + 1 } else { drawn }
    }

    fn new_order_input(&mut self) -> Input {
        let district = signed(self.random.uniform(1, self.scale.districts));
        let customer = signed(self.random.customer_id(self.scale.customers));
        let count = self.random.uniform(5, 15);
        let mut lines: Vec<OrderLine> = (0..count)
            .map(|_| OrderLine {
                item: signed(self.random.item_id(self.scale.items)),
                supply_warehouse: if self.random.percent(1) {
                    self.other_warehouse()
                } else {
                    self.warehouse
                },
                quantity: signed(self.random.uniform(1, 10)),
            })
            .collect();
        // One in a hundred ends with an item that is not there and rolls back (clause 2.4.1.4).
        if self.random.percent(1) {
            lines.last_mut().expect("at least five lines").item = signed(self.scale.items) + 1;
        }
        // Stock in one order everywhere, so that two New-Orders do not lock each other out.
        lines.sort_by_key(|line| (line.item > signed(self.scale.items), line.supply_warehouse, line.item));
        Input::NewOrder { district, customer, lines }
    }

    fn payment_input(&mut self) -> Input {
        let district = signed(self.random.uniform(1, self.scale.districts));
        let (customer_warehouse, customer_district) = if self.random.percent(85) {
            (self.warehouse, district)
        } else {
            (self.other_warehouse(), signed(self.random.uniform(1, self.scale.districts)))
        };
        let who = self.who();
        Input::Payment {
            district,
            customer_warehouse,
            customer_district,
            who,
            cents: self.random.uniform(100, 500_000),
        }
    }

    /// Runs the transaction that was chosen; after an error it is rolled back.
    pub(super) async fn run(&mut self) -> Result<Outcome> {
        let input = self.input.clone();
        let (warehouse, home_district, districts) =
            (self.warehouse, self.district, signed(self.scale.districts));
        let (c, s) = (&mut self.connection, &self.statements);
        let outcome = match input {
            Input::None => unreachable!("a transaction was chosen"),
            Input::NewOrder { district, customer, lines } => {
                new_order(c, s, warehouse, district, customer, &lines).await
            }
            Input::Payment { district, customer_warehouse, customer_district, who, cents } => {
                let payer = (customer_warehouse, customer_district, who);
                payment(c, s, (warehouse, district), payer, money(cents)).await
            }
            Input::OrderStatus { district, who } => order_status(c, s, warehouse, district, who).await,
            Input::Delivery { carrier } => {
                let mut outcome = Ok(Outcome::Committed);
                for district in 1..=districts {
                    if let Err(error) = deliver_district(c, s, warehouse, district, carrier).await {
                        outcome = Err(error);
                        break;
                    }
                }
                outcome
            }
            Input::StockLevel { threshold } => stock_level(c, s, warehouse, home_district, threshold).await,
        };
        if outcome.is_err() {
            // If this fails too the connection is gone, and the first error says why.
            let _ = rollback(c, s).await;
        }
        outcome
    }
}

async fn rollback(c: &mut Connection, s: &Statements) -> Result<()> {
    c.clear();
    c.add(&s.rollback, &[])?;
    c.exchange().await?;
    Ok(())
}

async fn new_order(
    c: &mut Connection,
    s: &Statements,
    warehouse: i32,
    district: i32,
    customer: i32,
    lines: &[OrderLine],
) -> Result<Outcome> {
    c.add(&s.begin, &[])?;
    c.add(&s.customer_and_tax, &[&warehouse, &district, &customer])?;
    c.add(&s.take_order_number, &[&warehouse, &district])?;
    let [_, customer_row, district_row] = c.exchange_all().await?;
    let (customer_row, district_row) = (customer_row.row()?, district_row.row()?);
    let (discount, w_tax): (Decimal, Decimal) = (customer_row.get(0)?, customer_row.get(3)?);
    let (order, d_tax): (i32, Decimal) = (district_row.get(0)?, district_row.get(1)?);

    let local = i32::from(lines.iter().all(|line| line.supply_warehouse == warehouse));
    let count = i32::try_from(lines.len())?;
    c.add(&s.insert_order, &[&order, &district, &warehouse, &customer, &count, &local])?;
    c.add(&s.insert_new_order, &[&order, &district, &warehouse])?;
    for line in lines {
        c.add(&s.item, &[&line.item])?;
    }
    for line in lines {
        c.add(&s.stock, &[&line.supply_warehouse, &line.item])?;
    }
    let replies = c.exchange().await?;
    let (items, stocks) = replies[2..].split_at(lines.len());
    if items.iter().any(|item| item.rows.is_empty()) {
        rollback(c, s).await?;
        return Ok(Outcome::RolledBack);
    }

    let mut total = Decimal::ZERO;
    let mut amounts = Vec::with_capacity(lines.len());
    for ((line, item), stock) in lines.iter().zip(items).zip(stocks) {
        let price: Decimal = item.row()?.get(0)?;
        let had: i32 = stock.row()?.get(0)?;
        let left = if had >= line.quantity + 10 { had - line.quantity } else { had - line.quantity + 91 };
        let remote = i32::from(line.supply_warehouse != warehouse);
        let amount = price * Decimal::from(line.quantity);
        total += amount;
        amounts.push(amount);
        c.add(&s.update_stock, &[&line.supply_warehouse, &line.item, &left, &line.quantity, &remote])?;
    }
    for (((line, stock), amount), number) in lines.iter().zip(stocks).zip(&amounts).zip(1i32..) {
        let dist_info: &str = stock.row()?.get(usize::try_from(district)? + 1)?;
        let (item, supply) = (&line.item, &line.supply_warehouse);
        c.add(
            &s.insert_order_line,
            &[&order, &district, &warehouse, &number, item, supply, &line.quantity, amount, &dist_info],
        )?;
    }
    c.add(&s.commit, &[])?;
    c.exchange().await?;
    // What the terminal would show (clause 2.4.3.4).
    let one = Decimal::ONE;
    std::hint::black_box(total * (one - discount) * (one + w_tax + d_tax));
    Ok(Outcome::Committed)
}

/// The customer in the middle of those with a name (clause 2.5.2.2), from the reply to `customers_by_name`.
fn middle_customer(found: &Reply) -> Result<i32> {
    let middle = found.rows.len().saturating_sub(1) / 2;
    found.rows.get(middle).ok_or("a customer that a transaction names is not there")?.get(0)
}

async fn payment(
    c: &mut Connection,
    s: &Statements,
    (warehouse, district): (i32, i32),
    (customer_warehouse, customer_district, who): (i32, i32, Who),
    amount: Decimal,
) -> Result<Outcome> {
    let place = (customer_warehouse, customer_district);
    c.add(&s.begin, &[])?;
    c.add(&s.pay_warehouse, &[&warehouse, &amount])?;
    c.add(&s.pay_district, &[&warehouse, &district, &amount])?;
    match &who {
        Who::Id(customer) => c.add(&s.pay_customer, &[&place.0, &place.1, customer, &amount])?,
        Who::Name(name) => c.add(&s.customers_by_name, &[&place.0, &place.1, name])?,
    }
    let [_, warehouse_row, district_row, last] = c.exchange_all().await?;
    let (customer, paid) = match who {
        Who::Id(customer) => (customer, last),
        Who::Name(_) => {
            let customer = middle_customer(&last)?;
            c.add(&s.pay_customer, &[&place.0, &place.1, &customer, &amount])?;
            let [paid] = c.exchange_all().await?;
            (customer, paid)
        }
    };
    let paid = paid.row()?;
    if paid.get::<&str>(10)? == "BC" {
        let data: &str = paid.get(14)?;
        let (customer_warehouse, customer_district) = place;
        let mut noted = format!(
            "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {amount} | {data}"
        );
        noted.truncate(500);
        c.add(&s.write_customer_data, &[&place.0, &place.1, &customer, &noted])?;
    }
    let (warehouse_row, district_row) = (warehouse_row.row()?, district_row.row()?);
    let data = format!("{}    {}", warehouse_row.get::<&str>(0)?, district_row.get::<&str>(0)?);
    c.add(&s.insert_history, &[&customer, &place.1, &place.0, &district, &warehouse, &amount, &data])?;
    c.add(&s.commit, &[])?;
    c.exchange().await?;
    Ok(Outcome::Committed)
}

async fn order_status(
    c: &mut Connection,
    s: &Statements,
    warehouse: i32,
    district: i32,
    who: Who,
) -> Result<Outcome> {
    c.add(&s.begin, &[])?;
    let customer = match who {
        Who::Id(customer) => customer,
        Who::Name(name) => {
            c.add(&s.customers_by_name, &[&warehouse, &district, &name])?;
            let [_, found] = c.exchange_all().await?;
            middle_customer(&found)?
        }
    };
    c.add(&s.customer_status, &[&warehouse, &district, &customer])?;
    c.add(&s.last_order, &[&warehouse, &district, &customer])?;
    let replies = c.exchange().await?;
    if let Some(last) = replies.last().and_then(|reply| reply.rows.first()) {
        let order: i32 = last.get(0)?;
        c.add(&s.lines_of_order, &[&warehouse, &district, &order])?;
    }
    c.add(&s.commit, &[])?;
    c.exchange().await?;
    Ok(Outcome::Committed)
}

/// One district's part of a delivery; a transaction of its own, as clause 2.7.2 allows.
async fn deliver_district(
    c: &mut Connection,
    s: &Statements,
    warehouse: i32,
    district: i32,
    carrier: i32,
) -> Result<()> {
    c.add(&s.begin, &[])?;
    c.add(&s.oldest_new_order, &[&warehouse, &district])?;
    let [_, found] = c.exchange_all().await?;
    let Some(oldest) = found.rows.first() else {
        c.add(&s.commit, &[])?;
        c.exchange().await?;
        return Ok(());
    };
    let order: i32 = oldest.get(0)?;
    c.add(&s.delete_new_order, &[&warehouse, &district, &order])?;
    c.add(&s.deliver_order, &[&warehouse, &district, &order, &carrier])?;
    c.add(&s.deliver_lines, &[&warehouse, &district, &order])?;
    c.add(&s.order_total, &[&warehouse, &district, &order])?;
    let [deleted, delivered, _, total] = c.exchange_all().await?;
    // Under READ COMMITTED another delivery may have taken the row while this one waited for its lock.
    if deleted.affected == 0 {
        return rollback(c, s).await;
    }
    let (customer, total): (i32, Decimal) = (delivered.row()?.get(0)?, total.row()?.get(0)?);
    c.add(&s.credit_customer, &[&warehouse, &district, &customer, &total])?;
    c.add(&s.commit, &[])?;
    c.exchange().await?;
    Ok(())
}

async fn stock_level(
    c: &mut Connection,
    s: &Statements,
    warehouse: i32,
    district: i32,
    threshold: i32,
) -> Result<Outcome> {
    c.add(&s.begin, &[])?;
    c.add(&s.next_order_number, &[&warehouse, &district])?;
    let [_, next] = c.exchange_all().await?;
    let next: i32 = next.row()?.get(0)?;
    c.add(&s.low_stock, &[&warehouse, &district, &next, &threshold])?;
    c.add(&s.commit, &[])?;
    c.exchange().await?;
    Ok(Outcome::Committed)
}
