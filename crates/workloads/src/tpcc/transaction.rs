//! The five transactions (clauses 2.4 to 2.8) over one connection.
//!
//! Statements that do not need each other's results are sent together, without waiting for the replies in between, as
//! libpq's pipeline mode and JDBC's batches do: a New-Order takes three round trips and a Payment three. They run in the
//! order in which they are sent; after one that fails the server refuses the rest, a COMMIT among them included.

use futures::future::try_join_all;
use futures::try_join;
use rust_decimal::Decimal;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

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

/// What came back for a statement.
type Sent<T> = std::result::Result<T, tokio_postgres::Error>;

/// A statement's parameters, owned by the future that sends it.
type Values<'v, const N: usize> = [&'v (dyn ToSql + Sync); N];

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

    /// Runs the transaction that was chosen; after an error it is rolled back.
    pub(super) async fn run(&mut self) -> Result<Outcome> {
        let input = self.input.clone();
        let (warehouse, home_district, districts) =
            (self.warehouse, self.district, signed(self.scale.districts));
        let (c, s) = (&self.client, &self.statements);
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
            let _ = rollback(c).await;
        }
        outcome
    }
}

async fn begin(c: &Client) -> Sent<()> {
    c.batch_execute("begin").await
}

async fn commit(c: &Client) -> Sent<()> {
    c.batch_execute("commit").await
}

async fn rollback(c: &Client) -> Sent<()> {
    c.batch_execute("rollback").await
}

async fn execute<const N: usize>(c: &Client, statement: &Statement, values: Values<'_, N>) -> Sent<u64> {
    c.execute(statement, &values).await
}

async fn query<const N: usize>(c: &Client, statement: &Statement, values: Values<'_, N>) -> Sent<Vec<Row>> {
    c.query(statement, &values).await
}

async fn query_one<const N: usize>(c: &Client, statement: &Statement, values: Values<'_, N>) -> Sent<Row> {
    c.query_one(statement, &values).await
}

async fn query_opt<const N: usize>(
    c: &Client,
    statement: &Statement,
    values: Values<'_, N>,
) -> Sent<Option<Row>> {
    c.query_opt(statement, &values).await
}

async fn new_order(
    c: &Client,
    s: &Statements,
    warehouse: i32,
    district: i32,
    customer: i32,
    lines: &[OrderLine],
) -> Result<Outcome> {
    let ((), customer_row, district_row) = try_join!(
        begin(c),
        query_one(c, &s.customer_and_tax, [&warehouse, &district, &customer]),
        query_one(c, &s.take_order_number, [&warehouse, &district]),
    )?;
    let (discount, w_tax): (Decimal, Decimal) = (customer_row.get(0), customer_row.get(3));
    let (order, d_tax): (i32, Decimal) = (district_row.get(0), district_row.get(1));
    let local = i32::from(lines.iter().all(|line| line.supply_warehouse == warehouse));
    let count = i32::try_from(lines.len())?;
    let (_, _, items, stocks) = try_join!(
        execute(c, &s.insert_order, [&order, &district, &warehouse, &customer, &count, &local]),
        execute(c, &s.insert_new_order, [&order, &district, &warehouse]),
        try_join_all(lines.iter().map(|line| query_opt(c, &s.item, [&line.item]))),
        try_join_all(lines.iter().map(|line| query_opt(c, &s.stock, [&line.supply_warehouse, &line.item]))),
    )?;
    let Some(items) = items.into_iter().collect::<Option<Vec<_>>>() else {
        rollback(c).await?;
        return Ok(Outcome::RolledBack);
    };
    let mut total = Decimal::ZERO;
    let mut changes = Vec::with_capacity(lines.len());
    for ((line, item), stock) in lines.iter().zip(&items).zip(&stocks) {
        let stock = stock.as_ref().ok_or("an item has no stock")?;
        let price: Decimal = item.get(0);
        let had: i32 = stock.get(0);
        let dist_info: &str = stock.get(usize::try_from(district)? + 1);
        let left = if had >= line.quantity + 10 { had - line.quantity } else { had - line.quantity + 91 };
        let remote = i32::from(line.supply_warehouse != warehouse);
        let amount = price * Decimal::from(line.quantity);
        total += amount;
        changes.push((line, left, remote, amount, dist_info));
    }
    try_join!(
        try_join_all(changes.iter().map(|(line, left, remote, _, _)| {
            execute(c, &s.update_stock, [&line.supply_warehouse, &line.item, left, &line.quantity, remote])
        })),
        try_join_all(changes.iter().zip(1i32..).map(
            |((line, _, _, amount, dist_info), number)| async move {
                execute(
                    c,
                    &s.insert_order_line,
                    [
                        &order,
                        &district,
                        &warehouse,
                        &number,
                        &line.item,
                        &line.supply_warehouse,
                        &line.quantity,
                        amount,
                        dist_info,
                    ],
                )
                .await
            }
        )),
        commit(c),
    )?;
    // What the terminal would show (clause 2.4.3.4).
    let one = Decimal::ONE;
    std::hint::black_box(total * (one - discount) * (one + w_tax + d_tax));
    Ok(Outcome::Committed)
}

/// The customer in the middle of those with a name (clause 2.5.2.2).
async fn customer_named(
    c: &Client,
    s: &Statements,
    warehouse: i32,
    district: i32,
    who: &Who,
) -> Sent<Option<i32>> {
    match who {
        Who::Id(id) => Ok(Some(*id)),
        Who::Name(name) => {
            let rows = query(c, &s.customers_by_name, [&warehouse, &district, name]).await?;
            Ok(rows.get(rows.len().saturating_sub(1) / 2).map(|row| row.get(0)))
        }
    }
}

async fn payment(
    c: &Client,
    s: &Statements,
    (warehouse, district): (i32, i32),
    (customer_warehouse, customer_district, who): (i32, i32, Who),
    amount: Decimal,
) -> Result<Outcome> {
    let ((), warehouse_row, district_row, found) = try_join!(
        begin(c),
        query_one(c, &s.pay_warehouse, [&warehouse, &amount]),
        query_one(c, &s.pay_district, [&warehouse, &district, &amount]),
        customer_named(c, s, customer_warehouse, customer_district, &who),
    )?;
    let (warehouse_name, district_name): (&str, &str) = (warehouse_row.get(0), district_row.get(0));
    let customer = found.ok_or("a customer that a payment names is not there")?;
    let key = (customer_warehouse, customer_district, customer);
    let row = query_one(c, &s.pay_customer, [&key.0, &key.1, &key.2, &amount]).await?;
    let credit: &str = row.get(10);
    let noted = (credit == "BC").then(|| {
        let data: &str = row.get(14);
        let mut noted = format!(
            "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {amount} | {data}"
        );
        noted.truncate(500);
        noted
    });
    let data = format!("{warehouse_name}    {district_name}");
    try_join!(
        async {
            match &noted {
                Some(noted) => {
                    execute(c, &s.write_customer_data, [&key.0, &key.1, &key.2, noted]).await.map(drop)
                }
                None => Ok(()),
            }
        },
        execute(
            c,
            &s.insert_history,
            [&customer, &customer_district, &customer_warehouse, &district, &warehouse, &amount, &data],
        ),
        commit(c),
    )?;
    Ok(Outcome::Committed)
}

async fn order_status(
    c: &Client,
    s: &Statements,
    warehouse: i32,
    district: i32,
    who: Who,
) -> Result<Outcome> {
    let ((), found) = try_join!(begin(c), customer_named(c, s, warehouse, district, &who))?;
    let customer = found.ok_or("a customer that an order status names is not there")?;
    let (_, last) = try_join!(
        query_one(c, &s.customer_status, [&warehouse, &district, &customer]),
        query_opt(c, &s.last_order, [&warehouse, &district, &customer]),
    )?;
    match last {
        Some(last) => {
            let order: i32 = last.get(0);
            try_join!(query(c, &s.lines_of_order, [&warehouse, &district, &order]), commit(c))?;
        }
        None => commit(c).await?,
    }
    Ok(Outcome::Committed)
}

/// One district's part of a delivery; a transaction of its own, as clause 2.7.2 allows.
async fn deliver_district(
    c: &Client,
    s: &Statements,
    warehouse: i32,
    district: i32,
    carrier: i32,
) -> Result<()> {
    let ((), oldest) = try_join!(begin(c), query_opt(c, &s.oldest_new_order, [&warehouse, &district]))?;
    let Some(oldest) = oldest else { return Ok(commit(c).await?) };
    let order: i32 = oldest.get(0);
    let (deleted, row, _, total) = try_join!(
        execute(c, &s.delete_new_order, [&warehouse, &district, &order]),
        query_one(c, &s.deliver_order, [&warehouse, &district, &order, &carrier]),
        execute(c, &s.deliver_lines, [&warehouse, &district, &order]),
        query_one(c, &s.order_total, [&warehouse, &district, &order]),
    )?;
    // Under READ COMMITTED another delivery may have taken the row while this one waited for its lock.
    if deleted == 0 {
        return Ok(rollback(c).await?);
    }
    let (customer, total): (i32, Decimal) = (row.get(0), total.get(0));
    try_join!(execute(c, &s.credit_customer, [&warehouse, &district, &customer, &total]), commit(c))?;
    Ok(())
}

async fn stock_level(
    c: &Client,
    s: &Statements,
    warehouse: i32,
    district: i32,
    threshold: i32,
) -> Result<Outcome> {
    let ((), next) = try_join!(begin(c), query_one(c, &s.next_order_number, [&warehouse, &district]))?;
    let next: i32 = next.get(0);
    try_join!(query_one(c, &s.low_stock, [&warehouse, &district, &next, &threshold]), commit(c))?;
    Ok(Outcome::Committed)
}
