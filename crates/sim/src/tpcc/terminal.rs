//! What a terminal does: the transactions of clause 2, back to back.

use std::cell::RefCell;
use std::rc::Rc;

use base::CommitNo;

use super::model::{Effect, Model, Order, Thing};
use super::population::{CUSTOMERS, DISTRICTS, ITEMS, WAREHOUSES, last_name, money};
use crate::client::{Client, Fate, Values};
use crate::{Dice, Home, Stop};

/// A terminal's life, until the power goes.
pub(super) async fn run(home: Rc<Home>, model: Rc<RefCell<Model>>, number: u32) -> Result<(), Stop> {
    let client = Client::connect(&home, &model, number)?;
    let mut terminal = Terminal { client, model, dice: Dice::of(home.world()) };
    loop {
        terminal.dice.pause(500).await;
        if let Err(fate) = terminal.transaction().await {
            terminal.client.recover(fate).await?;
        }
    }
}

struct Terminal {
    client: Client<Model>,
    model: Rc<RefCell<Model>>,
    dice: Dice,
}

fn ints<const N: usize>(values: [i64; N]) -> Vec<String> {
    values.map(|value| value.to_string()).to_vec()
}

fn number(values: &Values, place: usize) -> i64 {
    let text = values[place].as_deref().expect("a value");
    text.replacen('.', "", 1).parse().expect("a number, or an amount in cents")
}

impl Terminal {
    async fn transaction(&mut self) -> Result<(), Fate> {
        let (w, d) = (self.dice.between(1, WAREHOUSES), self.dice.between(1, DISTRICTS));
        match self.dice.below(100) {
            0..43 => self.new_order(w, d).await,
            43..80 => self.payment(w, d).await,
            80..90 => self.delivery(w, d).await,
            _ => self.order_status(w, d).await,
        }
    }

    /// The client thinks between its statements, sometimes.
    async fn between(&self) {
        if self.dice.percent(30) {
            self.dice.pause(150).await;
        }
    }

    async fn begin(&mut self) -> Result<(), Fate> {
        let sql = match self.dice.below(8) {
            0 => "begin isolation level repeatable read",
            1 => "begin isolation level serializable",
            _ => "begin",
        };
        self.client.run(sql, &[]).await.map(drop)
    }

    async fn one(&mut self, sql: &'static str, parameters: &[String]) -> Result<Values, Fate> {
        let mut rows = self.client.run(sql, parameters).await?;
        match (rows.pop(), rows.is_empty()) {
            (Some(row), true) => Ok(row),
            (row, _) => {
                Err(Stop::violation(format!("{sql} with {parameters:?}: not one row but {row:?}")).into())
            }
        }
    }

    async fn new_order(&mut self, w: i64, d: i64) -> Result<(), Fate> {
        let customer = self.dice.between(1, CUSTOMERS);
        let token = self.model.borrow_mut().token();
        self.begin().await?;
        let sql = "select c_last, w_tax from customer, warehouse
            where w_id = $1 and c_w_id = $1 and c_d_id = $2 and c_id = $3";
        self.one(sql, &ints([w, d, customer])).await?;
        let sql = "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2
            returning d_next_o_id - 1, d_tax";
        let order = number(&self.one(sql, &ints([w, d])).await?, 0);
        self.between().await;
        let lines = self.dice.between(1, 6);
        let sql = "insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
            values ($1, $2, $3, $4, current_timestamp, $5, 1)";
        self.client.run(sql, &ints([order, d, w, customer, lines])).await?;
        let sql = "insert into new_order (no_o_id, no_d_id, no_w_id) values ($1, $2, $3)";
        self.client.run(sql, &ints([order, d, w])).await?;
        let supply = if self.dice.percent(10) { self.dice.between(1, WAREHOUSES) } else { w };
        let mut items: Vec<i64> = (0..lines).map(|_| self.dice.between(1, ITEMS)).collect();
        if self.dice.percent(80) {
            // In one order everywhere, so that most New-Orders do not lock each other out.
            items.sort_unstable();
        }
        for (item, at) in items.into_iter().zip(1..) {
            self.between().await;
            self.order_line([order, d, w, at], item, supply, &token).await?;
        }
        // One in twenty has an item that is not there and rolls back.
        if self.dice.percent(5) {
            let rows =
                self.client.run("select i_price from item where i_id = $1", &ints([ITEMS + 1])).await?;
            assert!(rows.is_empty());
            return Ok(self.client.roll_back().await?);
        }
        let made = Order { customer, token, lines: lines as usize, carrier: None };
        self.client.effects.push(Effect::NewOrder([w, d, order], made));
        self.client.run("commit", &[]).await.map(drop)
    }

    async fn order_line(&mut self, of: [i64; 4], item: i64, supply: i64, token: &str) -> Result<(), Fate> {
        let row = self.one("select i_price, i_name, i_data from item where i_id = $1", &ints([item])).await?;
        let (price, quantity) = (number(&row, 0), self.dice.between(1, 10));
        let sql = "select s_quantity, s_data from stock where s_w_id = $1 and s_i_id = $2 for update";
        let had = number(&self.one(sql, &ints([supply, item])).await?, 0);
        let left = if had >= quantity + 10 { had - quantity } else { had - quantity + 91 };
        let sql = "update stock set s_quantity = $3, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + $5 where s_w_id = $1 and s_i_id = $2";
        let remote = i64::from(supply != of[2]);
        self.client.run(sql, &ints([supply, item, left, quantity, remote])).await?;
        let sql = "insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
            ol_quantity, ol_amount, ol_dist_info) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let mut values = ints([of[0], of[1], of[2], of[3], item, supply, quantity]);
        values.extend([money(price * quantity), token.to_owned()]);
        self.client.run(sql, &values).await.map(drop)
    }

    async fn payment(&mut self, w: i64, d: i64) -> Result<(), Fate> {
        let token = self.model.borrow_mut().token();
        let cents = self.dice.between(100, 500_000);
        let (cw, cd) = match self.dice.percent(85) {
            true => (w, d),
            false => (self.dice.between(1, WAREHOUSES), self.dice.between(1, DISTRICTS)),
        };
        self.begin().await?;
        let sql = "update warehouse set w_ytd = w_ytd + $2 where w_id = $1 returning w_name";
        self.one(sql, &[w.to_string(), money(cents)]).await?;
        self.between().await;
        let sql = "update district set d_ytd = d_ytd + $3 where d_w_id = $1 and d_id = $2 returning d_tax";
        self.one(sql, &[w.to_string(), d.to_string(), money(cents)]).await?;
        let mut customer = self.dice.between(1, CUSTOMERS);
        if self.dice.percent(60) {
            let sql = "select c_id from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3
                order by c_first, c_id";
            let name = last_name(customer);
            let rows = self.client.run(sql, &[cw.to_string(), cd.to_string(), name]).await?;
            customer = number(&rows[rows.len() / 2], 0);
        }
        let sql = "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,
            c_payment_cnt = c_payment_cnt + 1 where c_w_id = $1 and c_d_id = $2 and c_id = $3 returning c_data";
        let mut values = ints([cw, cd, customer]);
        values.push(money(cents));
        let mut data = self.one(sql, &values).await?.remove(0).unwrap_or_default();
        if self.dice.percent(10) {
            data.insert_str(0, &format!("{customer} {cd} {cw} {d} {w} {cents} | "));
            data.truncate(self.dice.between(100, 500) as usize);
            let sql = "update customer set c_data = $4 where c_w_id = $1 and c_d_id = $2 and c_id = $3";
            let mut values = ints([cw, cd, customer]);
            values.push(data);
            self.client.run(sql, &values).await?;
        }
        let sql = "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
            values ($1, $2, $3, $4, $5, current_timestamp, $6, $7)";
        let mut values = ints([customer, cd, cw, d, w]);
        values.extend([money(cents), token.clone()]);
        self.client.run(sql, &values).await?;
        self.client.effects.push(Effect::Payment(token, [cw, cd, customer]));
        self.client.run("commit", &[]).await.map(drop)
    }

    async fn delivery(&mut self, w: i64, d: i64) -> Result<(), Fate> {
        let carrier = self.dice.between(1, 10);
        self.begin().await?;
        let sql = "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2
            order by no_o_id limit 1 for update";
        let Some(row) = self.client.run(sql, &ints([w, d])).await?.pop() else {
            return Ok(self.client.roll_back().await?);
        };
        let order = number(&row, 0);
        let sql =
            "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3 returning no_o_id";
        if self.client.run(sql, &ints([w, d, order])).await?.is_empty() {
            return Ok(self.client.roll_back().await?);
        }
        self.between().await;
        let sql = "update orders set o_carrier_id = $4 where o_w_id = $1 and o_d_id = $2 and o_id = $3
            returning o_c_id";
        let customer = number(&self.one(sql, &ints([w, d, order, carrier])).await?, 0);
        let sql = "update order_line set ol_delivery_d = current_timestamp
            where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
        self.client.run(sql, &ints([w, d, order])).await?;
        let sql =
            "select sum(ol_amount) from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
        let total = number(&self.one(sql, &ints([w, d, order])).await?, 0);
        let sql = "update customer set c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
            where c_w_id = $1 and c_d_id = $2 and c_id = $3";
        let mut values = ints([w, d, customer]);
        values.push(money(total));
        self.client.run(sql, &values).await?;
        self.client.effects.push(Effect::Delivery([w, d, order], carrier));
        self.client.run("commit", &[]).await.map(drop)
    }

    /// Reads outside of a transaction, each held against the model in the turn that reads.
    async fn order_status(&mut self, w: i64, d: i64) -> Result<(), Fate> {
        let customer = self.dice.between(1, CUSTOMERS);
        let key = [w, d, customer];
        let sql = "select c_balance, c_payment_cnt, c_last from customer
            where c_w_id = $1 and c_d_id = $2 and c_id = $3";
        let of_customer = |model: &Model, _: &[Values]| Ok(model.version(Thing::Customer(key)));
        self.client.judged(sql, &ints(key), &of_customer).await?;
        self.between().await;
        let sql = "select o_id, o_carrier_id, o_entry_d from orders
            where o_w_id = $1 and o_d_id = $2 and o_c_id = $3 order by o_id desc limit 1";
        let last_order = |model: &Model, rows: &[Values]| -> Result<CommitNo, String> {
            let found = rows.first().map(|row| (number(row, 0), row[1].as_ref().map(|_| number(row, 1))));
            let expected = model.last_order(key).map(|(order, made)| (order, made.carrier));
            match found {
                found if found != expected => Err(format!("{found:?} instead of {expected:?}")),
                Some((order, _)) => Ok(model.version(Thing::Order([w, d, order]))),
                None => Ok(CommitNo(0)),
            }
        };
        let rows = self.client.judged(sql, &ints(key), &last_order).await?;
        if let Some(row) = rows.first() {
            let order = number(row, 0);
            let sql = "select ol_i_id, ol_quantity, ol_amount, ol_delivery_d from order_line
                where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
            let of_order = |model: &Model, _: &[Values]| Ok(model.version(Thing::Order([w, d, order])));
            self.client.judged(sql, &ints([w, d, order]), &of_order).await?;
        }
        let sql = "select d_next_o_id from district where d_w_id = $1 and d_id = $2";
        let next_order = |model: &Model, rows: &[Values]| -> Result<CommitNo, String> {
            let (found, expected) = (number(&rows[0], 0), model.next_order([w, d]));
            match found == expected {
                true => Ok(model.version(Thing::District([w, d]))),
                false => Err(format!("{found} instead of {expected}")),
            }
        };
        self.client.judged(sql, &ints([w, d]), &next_order).await.map(drop)
    }
}
