//! The five transactions (clauses 2.4 to 2.8) over one connection.

use rust_decimal::Decimal;
use tokio_postgres::{Client, Transaction};

use super::Scale;
use super::random::TpccRandom;
use super::statements::Statements;
use crate::Result;
use crate::load::Outcome;

/// The transactions in the order of the report.
pub(super) const KINDS: [&str; 5] = ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"];
pub(super) const NEW_ORDER: usize = 0;

/// A terminal: a connection with its home warehouse and district.
pub(super) struct Terminal {
    pub(super) client: Client,
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
        client: Client,
        statements: Statements,
        random: TpccRandom,
        scale: Scale,
        number: u32,
    ) -> Terminal {
        let warehouse = signed(number % scale.warehouses + 1);
        let district = signed(number / scale.warehouses % scale.districts + 1);
        Terminal {
            client,
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

    /// Runs the transaction that was chosen.
    pub(super) async fn run(&mut self) -> Result<Outcome> {
        let input = self.input.clone();
        let (warehouse, home_district, districts) =
            (self.warehouse, self.district, signed(self.scale.districts));
        let statements = &self.statements;
        match input {
            Input::None => unreachable!("a transaction was chosen"),
            Input::NewOrder { district, customer, lines } => {
                let t = self.client.transaction().await?;
                new_order(t, statements, warehouse, district, customer, &lines).await
            }
            Input::Payment { district, customer_warehouse, customer_district, who, cents } => {
                let t = self.client.transaction().await?;
                let payer = (customer_warehouse, customer_district, who);
                payment(t, statements, (warehouse, district), payer, money(cents)).await
            }
            Input::OrderStatus { district, who } => {
                let t = self.client.transaction().await?;
                order_status(t, statements, warehouse, district, who).await
            }
            Input::Delivery { carrier } => {
                for district in 1..=districts {
                    let t = self.client.transaction().await?;
                    deliver_district(t, statements, warehouse, district, carrier).await?;
                }
                Ok(Outcome::Committed)
            }
            Input::StockLevel { threshold } => {
                let t = self.client.transaction().await?;
                stock_level(t, statements, warehouse, home_district, threshold).await
            }
        }
    }
}

async fn new_order(
    t: Transaction<'_>,
    s: &Statements,
    warehouse: i32,
    district: i32,
    customer: i32,
    lines: &[OrderLine],
) -> Result<Outcome> {
    let row = t.query_one(&s.customer_and_tax, &[&warehouse, &district, &customer]).await?;
    let (discount, w_tax): (Decimal, Decimal) = (row.get(0), row.get(3));
    let row = t.query_one(&s.take_order_number, &[&warehouse, &district]).await?;
    let (order, d_tax): (i32, Decimal) = (row.get(0), row.get(1));
    let local = lines.iter().all(|line| line.supply_warehouse == warehouse);
    let count = i32::try_from(lines.len())?;
    t.execute(&s.insert_order, &[&order, &district, &warehouse, &customer, &count, &i32::from(local)])
        .await?;
    t.execute(&s.insert_new_order, &[&order, &district, &warehouse]).await?;
    let mut total = Decimal::ZERO;
    for (number, line) in (1i32..).zip(lines) {
        let Some(item) = t.query_opt(&s.item, &[&line.item]).await? else {
            t.rollback().await?;
            return Ok(Outcome::RolledBack);
        };
        let price: Decimal = item.get(0);
        let stock = t.query_one(&s.stock, &[&line.supply_warehouse, &line.item]).await?;
        let had: i32 = stock.get(0);
        let dist_info: &str = stock.get(usize::try_from(district)? + 1);
        let left = if had >= line.quantity + 10 { had - line.quantity } else { had - line.quantity + 91 };
        let remote = i32::from(line.supply_warehouse != warehouse);
        t.execute(&s.update_stock, &[&line.supply_warehouse, &line.item, &left, &line.quantity, &remote])
            .await?;
        let amount = price * Decimal::from(line.quantity);
        total += amount;
        t.execute(
            &s.insert_order_line,
            &[
                &order,
                &district,
                &warehouse,
                &number,
                &line.item,
                &line.supply_warehouse,
                &line.quantity,
                &amount,
                &dist_info,
            ],
        )
        .await?;
    }
    // What the terminal would show (clause 2.4.3.4).
    let one = Decimal::ONE;
    std::hint::black_box(total * (one - discount) * (one + w_tax + d_tax));
    t.commit().await?;
    Ok(Outcome::Committed)
}

/// The customer's number; by name it is the one in the middle (clause 2.5.2.2).
async fn find_customer(
    t: &Transaction<'_>,
    s: &Statements,
    warehouse: i32,
    district: i32,
    who: &Who,
) -> Result<Option<i32>> {
    match who {
        Who::Id(id) => Ok(Some(*id)),
        Who::Name(name) => {
            let rows = t.query(&s.customers_by_name, &[&warehouse, &district, name]).await?;
            Ok(rows.get(rows.len().saturating_sub(1) / 2).map(|row| row.get(0)))
        }
    }
}

async fn payment(
    t: Transaction<'_>,
    s: &Statements,
    (warehouse, district): (i32, i32),
    (customer_warehouse, customer_district, who): (i32, i32, Who),
    amount: Decimal,
) -> Result<Outcome> {
    let row = t.query_one(&s.pay_warehouse, &[&warehouse, &amount]).await?;
    let warehouse_name: String = row.get(0);
    let row = t.query_one(&s.pay_district, &[&warehouse, &district, &amount]).await?;
    let district_name: String = row.get(0);
    let found = find_customer(&t, s, customer_warehouse, customer_district, &who).await?;
    let customer = found.ok_or("a customer that a payment names is not there")?;
    let key = (customer_warehouse, customer_district, customer);
    let row = t.query_one(&s.pay_customer, &[&key.0, &key.1, &key.2, &amount]).await?;
    let credit: &str = row.get(10);
    if credit == "BC" {
        let data: &str = row.get(14);
        let mut noted = format!(
            "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {amount} | {data}"
        );
        noted.truncate(500);
        t.execute(&s.write_customer_data, &[&key.0, &key.1, &key.2, &noted]).await?;
    }
    let data = format!("{warehouse_name}    {district_name}");
    t.execute(
        &s.insert_history,
        &[&customer, &customer_district, &customer_warehouse, &district, &warehouse, &amount, &data],
    )
    .await?;
    t.commit().await?;
    Ok(Outcome::Committed)
}

async fn order_status(
    t: Transaction<'_>,
    s: &Statements,
    warehouse: i32,
    district: i32,
    who: Who,
) -> Result<Outcome> {
    let found = find_customer(&t, s, warehouse, district, &who).await?;
    let customer = found.ok_or("a customer that an order status names is not there")?;
    t.query_one(&s.customer_status, &[&warehouse, &district, &customer]).await?;
    if let Some(order) = t.query_opt(&s.last_order, &[&warehouse, &district, &customer]).await? {
        let order: i32 = order.get(0);
        t.query(&s.lines_of_order, &[&warehouse, &district, &order]).await?;
    }
    t.commit().await?;
    Ok(Outcome::Committed)
}

/// One district's part of a delivery; a transaction of its own, as clause 2.7.2 allows.
async fn deliver_district(
    t: Transaction<'_>,
    s: &Statements,
    warehouse: i32,
    district: i32,
    carrier: i32,
) -> Result<()> {
    if let Some(row) = t.query_opt(&s.oldest_new_order, &[&warehouse, &district]).await? {
        let order: i32 = row.get(0);
        let deleted = t.execute(&s.delete_new_order, &[&warehouse, &district, &order]).await?;
        // Under READ COMMITTED another delivery may have taken the row while this one waited for its lock.
        if deleted == 1 {
            let row = t.query_one(&s.deliver_order, &[&warehouse, &district, &order, &carrier]).await?;
            let customer: i32 = row.get(0);
            t.execute(&s.deliver_lines, &[&warehouse, &district, &order]).await?;
            let total: Decimal = t.query_one(&s.order_total, &[&warehouse, &district, &order]).await?.get(0);
            t.execute(&s.credit_customer, &[&warehouse, &district, &customer, &total]).await?;
        }
    }
    t.commit().await?;
    Ok(())
}

async fn stock_level(
    t: Transaction<'_>,
    s: &Statements,
    warehouse: i32,
    district: i32,
    threshold: i32,
) -> Result<Outcome> {
    let next: i32 = t.query_one(&s.next_order_number, &[&warehouse, &district]).await?.get(0);
    t.query_one(&s.low_stock, &[&warehouse, &district, &next, &threshold]).await?;
    t.commit().await?;
    Ok(Outcome::Committed)
}
