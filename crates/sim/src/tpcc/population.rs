//! A very small population of the specification's shape, so that sessions meet and checks are quick.

use std::cell::RefCell;
use std::rc::Rc;

use base::SessionId;
use tenant::Isolation;

use super::model::{Effect, Model, Order};
use super::schema;
use crate::client::{Client, Fate};
use crate::{Dice, Home, Stop};

pub(super) const WAREHOUSES: i64 = 2;
pub(super) const DISTRICTS: i64 = 2;
pub(super) const CUSTOMERS: i64 = 6;
pub(super) const ITEMS: i64 = 25;
/// Orders of a district at load.
const ORDERS: i64 = 6;
/// The first of them, that count as delivered in condition 11.
pub(super) const DELIVERED_AT_LOAD: i64 = 4;

/// An amount as SQL takes it.
pub(super) fn money(cents: i64) -> String {
    format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100)
}

/// Last names; two customers of a district share one.
pub(super) fn last_name(number: i64) -> String {
    format!("NAME{}", number % 4)
}

/// Makes the tables and fills them.
pub(super) async fn load(home: &Rc<Home>, model: &Rc<RefCell<Model>>) -> Result<(), Stop> {
    let made = home.turn(|turn| {
        let mut txn = turn.tenant.begin(SessionId(1), Isolation::ReadCommitted, false, false);
        let mut view = turn.tenant.view(&mut txn, turn.redo);
        let created = view.ddl().and_then(|mut ddl| schema::create(&mut ddl));
        drop(view);
        if let Err(interrupt) = created {
            return Err(format!("{interrupt:?}"));
        }
        turn.tenant.commit(txn, turn.redo).map_err(|error| error.to_string())
    });
    made.map_err(|what| Stop::failed(home.world(), "making the tables", what))?;
    let mut load = Load { client: Client::connect(home, model, 1)?, dice: Dice::of(home.world()), model };
    load.run().await.map_err(|fate| match fate {
        Fate::Refused(error) => Stop::violation(format!("loading: {error}")),
        Fate::Stop(stop) => stop,
    })
}

struct Load<'a> {
    client: Client<Model>,
    dice: Dice,
    model: &'a Rc<RefCell<Model>>,
}

fn ints<const N: usize>(values: [i64; N]) -> Vec<String> {
    values.map(|value| value.to_string()).to_vec()
}

impl Load<'_> {
    async fn run(&mut self) -> Result<(), Fate> {
        self.client.run("begin", &[]).await?;
        for item in 1..=ITEMS {
            let price = money(self.dice.between(100, 9999));
            let values = [item.to_string(), price, "i".repeat(40)];
            self.client.run("insert into item values ($1, 'item', $2, $3)", &values).await?;
        }
        for warehouse in 1..=WAREHOUSES {
            self.warehouse(warehouse).await?;
        }
        self.client.run("commit", &[]).await?;
        Ok(())
    }

    async fn warehouse(&mut self, w: i64) -> Result<(), Fate> {
        let paid = |customers: i64| money(customers * 1000);
        let values = [w.to_string(), paid(DISTRICTS * CUSTOMERS)];
        self.client.run("insert into warehouse values ($1, 'house', 0.10, $2)", &values).await?;
        for item in 1..=ITEMS {
            let quantity = self.dice.between(10, 100);
            let sql = "insert into stock values ($1, $2, $3, 0, 0, 0, 'some data of the stock')";
            self.client.run(sql, &ints([item, w, quantity])).await?;
        }
        for d in 1..=DISTRICTS {
            let values = [d.to_string(), w.to_string(), paid(CUSTOMERS), (ORDERS + 1).to_string()];
            self.client.run("insert into district values ($1, $2, 0.05, $3, $4)", &values).await?;
            for customer in 1..=CUSTOMERS {
                self.customer(w, d, customer).await?;
            }
            for order in 1..=ORDERS {
                self.order(w, d, order).await?;
            }
        }
        Ok(())
    }

    async fn customer(&mut self, w: i64, d: i64, c: i64) -> Result<(), Fate> {
        let mut values = ints([c, d, w]);
        values.extend([last_name(c), "d".repeat(self.dice.between(100, 400) as usize)]);
        let sql = "insert into customer values ($1, $2, $3, 'first', $4, -10.00, 10.00, 1, 0, $5)";
        self.client.run(sql, &values).await?;
        let token = self.model.borrow_mut().token();
        let mut values = ints([c, d, w]);
        values.push(token.clone());
        let sql = "insert into history values ($1, $2, $3, $2, $3, current_timestamp, 10.00, $4)";
        self.client.run(sql, &values).await?;
        self.client.effects.push(Effect::Payment(token, [w, d, c]));
        Ok(())
    }

    /// The specification's loaded orders leave the stock alone and cost nothing once delivered; these have their
    /// stock counted, so that it adds up from the start.
    async fn order(&mut self, w: i64, d: i64, o: i64) -> Result<(), Fate> {
        let delivered = o <= DELIVERED_AT_LOAD;
        let token = self.model.borrow_mut().token();
        let carrier = if delivered { "5" } else { "" }.to_owned();
        let mut values = ints([o, d, w]);
        values.push(carrier);
        let sql = "insert into orders values ($1, $2, $3, $1, current_timestamp, nullif($4, '')::int, 2, 1)";
        self.client.run(sql, &values).await?;
        for number in 1..=2 {
            let item = self.dice.between(1, ITEMS);
            let mut values = ints([o, d, w, number, item]);
            let amount = if delivered { 0 } else { self.dice.between(1, 99_999) };
            values.extend([money(amount), token.clone()]);
            let sql = if delivered {
                "insert into order_line values ($1, $2, $3, $4, $5, $3, current_timestamp, 5, $6, $7)"
            } else {
                "insert into order_line values ($1, $2, $3, $4, $5, $3, null, 5, $6, $7)"
            };
            self.client.run(sql, &values).await?;
            let sql = "update stock set s_ytd = s_ytd + 5, s_order_cnt = s_order_cnt + 1
                where s_i_id = $1 and s_w_id = $2";
            self.client.run(sql, &ints([item, w])).await?;
        }
        if !delivered {
            self.client.run("insert into new_order values ($1, $2, $3)", &ints([o, d, w])).await?;
        }
        let carrier = delivered.then_some(5);
        self.client
            .effects
            .push(Effect::NewOrder([w, d, o], Order { customer: o, token, lines: 2, carrier }));
        Ok(())
    }
}
