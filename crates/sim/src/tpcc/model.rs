//! What each tenant must hold: its orders and payments, by commit.

use std::collections::{BTreeMap, BTreeSet};

use base::CommitNo;

use super::rows::Tables;
use crate::client::Book;
use crate::{Journal, Stop, require};

/// Warehouse, district, order.
pub(super) type OrderId = [i64; 3];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Order {
    pub(super) customer: i64,
    /// What its transaction wrote into its lines.
    pub(super) token: String,
    pub(super) lines: usize,
    pub(super) carrier: Option<i64>,
}

/// What a transaction does when it commits.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    NewOrder(OrderId, Order),
    /// By the token in its history row: customer's warehouse, district and number.
    Payment(String, [i64; 3]),
    Delivery(OrderId, i64),
}

/// What a commit changed, to tell what a read depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Thing {
    Order(OrderId),
    Customer([i64; 3]),
    District([i64; 2]),
}

#[derive(Clone, Default)]
struct State {
    orders: BTreeMap<OrderId, Order>,
    payments: BTreeSet<String>,
}

impl State {
    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::NewOrder(id, order) => drop(self.orders.insert(id, order)),
            Effect::Payment(token, _) => drop(self.payments.insert(token)),
            Effect::Delivery(id, carrier) => {
                self.orders.get_mut(&id).expect("a delivered order was made").carrier = Some(carrier);
            }
        }
    }
}

/// A tenant's model.
#[derive(Default)]
pub(super) struct Model {
    base: State,
    head: State,
    versions: BTreeMap<Thing, CommitNo>,
    pub(super) journal: Journal<Vec<Effect>>,
    pub(super) acknowledged: u64,
    tokens: u64,
}

impl Book for Model {
    type Effect = Effect;

    fn commit(&mut self, commit: CommitNo, effects: Vec<Effect>) {
        for effect in &effects {
            let things = match effect {
                Effect::NewOrder(id, _) => vec![Thing::Order(*id), Thing::District([id[0], id[1]])],
                Effect::Payment(_, customer) => vec![Thing::Customer(*customer)],
                Effect::Delivery(id, _) => {
                    let customer = self.head.orders[id].customer;
                    vec![Thing::Order(*id), Thing::Customer([id[0], id[1], customer])]
                }
            };
            self.versions.extend(things.into_iter().map(|thing| (thing, commit)));
            self.head.apply(effect.clone());
        }
        self.journal.commit(commit, effects);
    }

    fn told(&mut self, commit: CommitNo, by: &'static str) {
        self.journal.told(commit, by);
    }

    fn acknowledged(&mut self) {
        self.acknowledged += 1;
    }
}

impl Model {
    /// A text never used before.
    pub(super) fn token(&mut self) -> String {
        self.tokens += 1;
        format!("token {}", self.tokens)
    }

    /// The commit that last changed it since the last recovery.
    pub(super) fn version(&self, thing: Thing) -> CommitNo {
        self.versions.get(&thing).copied().unwrap_or_default()
    }

    /// The newest order of a customer.
    pub(super) fn last_order(&self, [w, d, customer]: [i64; 3]) -> Option<(i64, &Order)> {
        let of_district = self.head.orders.range([w, d, 0]..[w, d, i64::MAX]).rev();
        let mut of_customer = of_district.filter(|(_, order)| order.customer == customer);
        of_customer.next().map(|(id, order)| (id[2], order))
    }

    /// The number that the district's next order must get.
    pub(super) fn next_order(&self, [w, d]: [i64; 2]) -> i64 {
        self.head.orders.range([w, d, 0]..[w, d, i64::MAX]).next_back().map_or(1, |(id, _)| id[2] + 1)
    }

    pub(super) fn recovered(&mut self, recovered: CommitNo, tables: &Tables) -> Result<(), Stop> {
        let effects = self.journal.recover(recovered)?;
        effects.flatten().for_each(|effect| self.base.apply(effect));
        let found = stored(tables);
        for (id, order) in &self.base.orders {
            let there = found.orders.get(id);
            require!(
                there == Some(order),
                "at commit {recovered}: order {id:?} should be {order:?}, is {there:?}"
            );
        }
        let surplus = found.orders.keys().find(|id| !self.base.orders.contains_key(*id));
        require!(surplus.is_none(), "at commit {recovered}: order {surplus:?} should not be there");
        let difference: Vec<_> = self.base.payments.symmetric_difference(&found.payments).collect();
        require!(
            difference.is_empty(),
            "at commit {recovered}: payments there or not, wrongly: {difference:?}"
        );
        let payments = tables["history"].iter().count();
        require!(payments == found.payments.len(), "a payment is in the history twice");
        self.head = self.base.clone();
        self.versions.clear();
        Ok(())
    }
}

/// The orders and payments that the tables hold.
fn stored(tables: &Tables) -> State {
    let mut state = State::default();
    for row in tables["orders"].iter() {
        let carrier = (!row.is_null("o_carrier_id")).then(|| row.number("o_carrier_id"));
        let customer = row.number("o_c_id");
        let order = Order { customer, token: String::new(), lines: 0, carrier };
        state.orders.insert(row.numbers(["o_w_id", "o_d_id", "o_id"]), order);
    }
    for row in tables["order_line"].iter() {
        let id = row.numbers(["ol_w_id", "ol_d_id", "ol_o_id"]);
        if let Some(order) = state.orders.get_mut(&id) {
            order.lines += 1;
            let token = row.text("ol_dist_info");
            // A line of another transaction shows as a token that no order has.
            if order.token.is_empty() {
                order.token = token.to_owned();
            } else if order.token != token {
                order.token = format!("{} and {token}", order.token);
            }
        }
    }
    state.payments = tables["history"].iter().map(|row| row.text("h_data").to_owned()).collect();
    state
}
