//! The five transactions (clauses 2.4 to 2.8) over one connection.
//!
//! Statements that do not need each other's results are sent together, without waiting for the replies in between, as
//! libpq's pipeline mode and JDBC's batches do: a New-Order takes two round trips, and so does a Payment, unless it is of a
//! customer with bad credit that it knows by name. They run in the order in which they are sent; after one that fails the server
//! skips the rest, a COMMIT among them included.

use rust_decimal::Decimal;

use super::input::{Input, Inputs, OrderLine, Who};
use super::statements::Statements;
use crate::Result;
use crate::connection::{Connection, Reply};
use crate::load::Outcome;

/// The transactions in the order of the report.
pub(super) const KINDS: [&str; 5] = ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"];
pub(super) const NEW_ORDER: usize = 0;

/// A terminal: a connection with its home warehouse and district.
pub struct Terminal {
    connection: Connection,
    statements: Statements,
    inputs: Inputs,
    /// That of the transaction under way, so that a retry asks for the same again.
    input: Option<Input>,
    /// Districts that the Delivery under way is through with: a retry goes on behind them.
    delivered: i32,
}

/// `numeric(…,2)` from whole cents.
fn money(cents: u32) -> Decimal {
    Decimal::new(i64::from(cents), 2)
}

impl Terminal {
    pub(super) fn new(connection: Connection, statements: Statements, inputs: Inputs) -> Terminal {
        Terminal { connection, statements, inputs, input: None, delivered: 0 }
    }

    /// Draws the next transaction and its input.
    pub(super) fn choose(&mut self) -> usize {
        let (kind, input) = self.inputs.choose();
        (self.input, self.delivered) = (Some(input), 0);
        kind
    }

    /// Runs the transaction that was chosen; after an error it is rolled back.
    pub(super) async fn run(&mut self) -> Result<Outcome> {
        let input = self.input.clone().expect("a transaction was chosen");
        let (warehouse, home_district, districts) =
            (self.inputs.warehouse, self.inputs.district, self.inputs.districts());
        let (c, s) = (&mut self.connection, &self.statements);
        let outcome = match input {
            Input::NewOrder { district, customer, lines } => {
                new_order(c, s, warehouse, district, customer, &lines).await
            }
            Input::Payment { district, customer_warehouse, customer_district, who, cents } => {
                let payer = (customer_warehouse, customer_district, who);
                payment(c, s, (warehouse, district), payer, money(cents)).await
            }
            Input::OrderStatus { district, who } => order_status(c, s, warehouse, district, who).await,
            Input::Delivery { carrier } => {
                deliver(c, s, warehouse, districts, carrier, &mut self.delivered).await
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
    // What is ordered is known before the order's number is.
    for line in lines {
        c.add(&s.item, &[&line.item])?;
    }
    for line in lines {
        c.add(&s.stock, &[&line.supply_warehouse, &line.item])?;
    }
    let replies = c.exchange().await?;
    let (customer_row, district_row) = (replies[1].row()?, replies[2].row()?);
    let (items, stocks) = replies[3..].split_at(lines.len());
    let (discount, w_tax): (Decimal, Decimal) = (customer_row.get(0)?, customer_row.get(3)?);
    let (order, d_tax): (i32, Decimal) = (district_row.get(0)?, district_row.get(1)?);

    let local = i32::from(lines.iter().all(|line| line.supply_warehouse == warehouse));
    let count = i32::try_from(lines.len())?;
    c.add(&s.insert_order, &[&order, &district, &warehouse, &customer, &count, &local])?;
    c.add(&s.insert_new_order, &[&order, &district, &warehouse])?;
    // All is done for the items that are there, should the last one not be, and taken back at the end (clause 2.4.2.3).
    let there = items.iter().take_while(|item| !item.rows.is_empty()).count();
    let (lines_there, is_whole) = (&lines[..there], there == lines.len());

    let mut total = Decimal::ZERO;
    let mut amounts = Vec::with_capacity(there);
    // What the line before left, and of what: lines are sorted, so one that asks for the same stock again is the next.
    let mut before = None;
    for ((line, item), stock) in lines_there.iter().zip(items).zip(stocks) {
        let price: Decimal = item.row()?.get(0)?;
        let place = (line.supply_warehouse, line.item);
        let had: i32 = match before {
            Some((same, left)) if same == place => left,
            _ => stock.row()?.get(0)?,
        };
        let left = if had >= line.quantity + 10 { had - line.quantity } else { had - line.quantity + 91 };
        before = Some((place, left));
        let remote = i32::from(line.supply_warehouse != warehouse);
        let amount = price * Decimal::from(line.quantity);
        total += amount;
        amounts.push(amount);
        c.add(&s.update_stock, &[&line.supply_warehouse, &line.item, &left, &line.quantity, &remote])?;
    }
    for (((line, stock), amount), number) in lines_there.iter().zip(stocks).zip(&amounts).zip(1i32..) {
        let dist_info: &str = stock.row()?.get(usize::try_from(district)? + 1)?;
        let (item, supply) = (&line.item, &line.supply_warehouse);
        c.add(
            &s.insert_order_line,
            &[&order, &district, &warehouse, &number, item, supply, &line.quantity, amount, &dist_info],
        )?;
    }
    c.add(if is_whole { &s.commit } else { &s.rollback }, &[])?;
    c.exchange().await?;
    // What the terminal would show (clause 2.4.3.4).
    let one = Decimal::ONE;
    std::hint::black_box(total * (one - discount) * (one + w_tax + d_tax));
    Ok(if is_whole { Outcome::Committed } else { Outcome::RolledBack })
}

/// Number and credit of the customer in the middle of those with a name (clause 2.5.2.2), from the reply to `customers_by_name`.
fn middle_customer(found: &Reply) -> Result<(i32, &str)> {
    let middle = found.rows.len().saturating_sub(1) / 2;
    let customer = found.rows.get(middle).ok_or("a customer that a transaction names is not there")?;
    Ok((customer.get(0)?, customer.get(1)?))
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
        Who::Id(customer) => (customer, Some(last)),
        Who::Name(_) => {
            let (customer, credit) = middle_customer(&last)?;
            c.add(&s.pay_customer, &[&place.0, &place.1, &customer, &amount])?;
            // With good credit nothing is written that depends on the rest of the customer. Nobody changes a credit.
            if credit == "BC" {
                let [paid] = c.exchange_all().await?;
                (customer, Some(paid))
            } else {
                (customer, None)
            }
        }
    };
    if let Some(paid) = &paid {
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
    }
    let (warehouse_row, district_row) = (warehouse_row.row()?, district_row.row()?);
    let data = format!("{}    {}", warehouse_row.get::<&str>(0)?, district_row.get::<&str>(0)?);
    c.add(&s.insert_history, &[&customer, &place.1, &place.0, &district, &warehouse, &amount, &data])?;
    c.add(&s.commit, &[])?;
    let replies = c.exchange().await?;
    if paid.is_none() {
        // What the terminal would show (clause 2.5.3.4).
        replies[0].row()?;
    }
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
            middle_customer(&found)?.0
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

/// The districts behind those that are `delivered`, each in a transaction of its own, as clause 2.7.2 allows. It begins in the
/// batch that ends the one before.
async fn deliver(
    c: &mut Connection,
    s: &Statements,
    warehouse: i32,
    districts: i32,
    carrier: i32,
    delivered: &mut i32,
) -> Result<Outcome> {
    let mut ending = 0;
    for district in *delivered + 1..=districts {
        c.add(&s.begin, &[])?;
        c.add(&s.oldest_new_order, &[&warehouse, &district])?;
        let replies = end_district(c, ending, delivered).await?;
        ending = match replies.last().and_then(|found| found.rows.first()) {
            Some(oldest) => deliver_order(c, s, warehouse, district, oldest.get(0)?, carrier).await?,
            None => {
                c.add(&s.commit, &[])?;
                1
            }
        };
    }
    end_district(c, ending, delivered).await?;
    Ok(Outcome::Committed)
}

/// Sends the batch. Its first `ending` statements end a district's transaction: after them the district is delivered, whatever
/// becomes of the others.
async fn end_district(c: &mut Connection, ending: usize, delivered: &mut i32) -> Result<Vec<Reply>> {
    let outcome = c.exchange().await;
    *delivered += i32::from(ending > 0 && c.answered() >= ending);
    outcome
}

/// Delivers a district's oldest order, but for the end of the transaction: that is in the batch then, so many statements.
async fn deliver_order(
    c: &mut Connection,
    s: &Statements,
    warehouse: i32,
    district: i32,
    order: i32,
    carrier: i32,
) -> Result<usize> {
    c.add(&s.delete_new_order, &[&warehouse, &district, &order])?;
    c.add(&s.deliver_order, &[&warehouse, &district, &order, &carrier])?;
    c.add(&s.deliver_lines, &[&warehouse, &district, &order])?;
    c.add(&s.order_total, &[&warehouse, &district, &order])?;
    let [deleted, delivered, _, total] = c.exchange_all().await?;
    // Under READ COMMITTED another delivery may have taken the row while this one waited for its lock.
    if deleted.affected == 0 {
        c.add(&s.rollback, &[])?;
        return Ok(1);
    }
    let (customer, total): (i32, Decimal) = (delivered.row()?.get(0)?, total.row()?.get(0)?);
    c.add(&s.credit_customer, &[&warehouse, &district, &customer, &total])?;
    c.add(&s.commit, &[])?;
    Ok(2)
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
