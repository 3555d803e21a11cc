//! The consistency conditions of clause 3.3.2, and two of our own, from all rows.

use std::collections::BTreeMap;

use super::population::DELIVERED_AT_LOAD;
use super::rows::{Named, Tables};
use crate::{Stop, require};

type Sums<const N: usize> = BTreeMap<[i64; N], i64>;

fn sums<'a, const N: usize>(
    rows: impl Iterator<Item = Named<'a>>,
    key: [&str; N],
    value: impl Fn(&Named<'a>) -> i64,
) -> Sums<N> {
    let mut sums = Sums::new();
    for row in rows {
        *sums.entry(row.numbers(key)).or_default() += value(&row);
    }
    sums
}

fn of<const N: usize>(sums: &Sums<N>, key: &[i64; N]) -> i64 {
    sums.get(key).copied().unwrap_or(0)
}

/// # Errors
/// A violation that names the condition.
pub(super) fn check(tables: &Tables) -> Result<(), Stop> {
    warehouses_and_districts(tables)?;
    orders(tables)?;
    customers(tables)?;
    stock(tables)
}

/// Conditions 1, 8 and 9: what was paid adds up.
fn warehouses_and_districts(tables: &Tables) -> Result<(), Stop> {
    let by_warehouse = sums(tables["district"].iter(), ["d_w_id"], |row| row.number("d_ytd"));
    let paid = sums(tables["history"].iter(), ["h_w_id"], |row| row.number("h_amount"));
    for row in tables["warehouse"].iter() {
        let (id, ytd) = ([row.number("w_id")], row.number("w_ytd"));
        require!(
            of(&by_warehouse, &id) == ytd,
            "condition 1: w_ytd {ytd}, districts {}",
            of(&by_warehouse, &id)
        );
        require!(of(&paid, &id) == ytd, "condition 8: w_ytd {ytd}, history {}", of(&paid, &id));
    }
    let paid = sums(tables["history"].iter(), ["h_w_id", "h_d_id"], |row| row.number("h_amount"));
    for row in tables["district"].iter() {
        let (id, ytd) = (row.numbers(["d_w_id", "d_id"]), row.number("d_ytd"));
        require!(
            of(&paid, &id) == ytd,
            "condition 9: district {id:?}: d_ytd {ytd}, history {}",
            of(&paid, &id)
        );
    }
    Ok(())
}

/// Conditions 2 to 7 and 11: orders, New-Orders and lines go together.
fn orders(tables: &Tables) -> Result<(), Stop> {
    let order_key = ["o_w_id", "o_d_id", "o_id"];
    let lines = sums(tables["order_line"].iter(), ["ol_w_id", "ol_d_id", "ol_o_id"], |_| 1);
    let undelivered = sums(tables["new_order"].iter(), ["no_w_id", "no_d_id", "no_o_id"], |_| 1);
    let mut delivered = BTreeMap::new();
    for row in tables["orders"].iter() {
        let (id, count) = (row.numbers(order_key), row.number("o_ol_cnt"));
        let is_delivered = !row.is_null("o_carrier_id");
        let waits = of(&undelivered, &id) == 1;
        require!(
            is_delivered != waits,
            "condition 5: order {id:?}: carrier {is_delivered}, New-Order {waits}"
        );
        require!(
            of(&lines, &id) == count,
            "condition 6: order {id:?}: o_ol_cnt {count}, lines {}",
            of(&lines, &id)
        );
        delivered.insert(id, is_delivered);
    }
    for row in tables["order_line"].iter() {
        let id = row.numbers(["ol_w_id", "ol_d_id", "ol_o_id"]);
        let expected = delivered.get(&id).copied();
        require!(
            Some(!row.is_null("ol_delivery_d")) == expected,
            "condition 7: order {id:?} and a line of it"
        );
    }
    let of_district = |key: &[i64; 3]| [key[0], key[1]];
    for row in tables["district"].iter() {
        let (id, next) = (row.numbers(["d_w_id", "d_id"]), row.number("d_next_o_id"));
        let newest =
            delivered.keys().filter(|key| of_district(key) == id).map(|key| key[2]).max().unwrap_or(0);
        let waiting: Vec<i64> =
            undelivered.keys().filter(|key| of_district(key) == id).map(|key| key[2]).collect();
        let newest_waiting = waiting.last().copied().unwrap_or(newest);
        require!(
            next - 1 == newest && newest == newest_waiting,
            "condition 2: district {id:?}: next {next}, order {newest}, New-Order {newest_waiting}"
        );
        if let (Some(first), Some(last)) = (waiting.first(), waiting.last()) {
            require!(
                last - first + 1 == waiting.len() as i64,
                "condition 3: district {id:?}: New-Orders {first} to {last}, {} of them",
                waiting.len()
            );
        }
    }
    let counted = sums(tables["orders"].iter(), ["o_w_id", "o_d_id"], |row| row.number("o_ol_cnt"));
    let lines = sums(tables["order_line"].iter(), ["ol_w_id", "ol_d_id"], |_| 1);
    require!(counted == lines, "condition 4: o_ol_cnt {counted:?}, lines {lines:?}");
    let orders = sums(tables["orders"].iter(), ["o_w_id", "o_d_id"], |_| 1);
    let waiting = sums(tables["new_order"].iter(), ["no_w_id", "no_d_id"], |_| 1);
    let deliveries =
        sums(tables["customer"].iter(), ["c_w_id", "c_d_id"], |row| row.number("c_delivery_cnt"));
    for (id, orders) in &orders {
        let delivered = orders - of(&waiting, id);
        require!(
            delivered == of(&deliveries, id) + DELIVERED_AT_LOAD,
            "condition 11: district {id:?}: {delivered} delivered, customers say {}",
            of(&deliveries, id)
        );
    }
    Ok(())
}

/// Conditions 10 and 12, and that each payment is counted: a customer's balance.
fn customers(tables: &Tables) -> Result<(), Stop> {
    let customer_of: BTreeMap<[i64; 3], i64> = tables["orders"]
        .iter()
        .map(|row| (row.numbers(["o_w_id", "o_d_id", "o_id"]), row.number("o_c_id")))
        .collect();
    let mut bought: Sums<3> = Sums::new();
    for row in tables["order_line"].iter().filter(|row| !row.is_null("ol_delivery_d")) {
        let order = row.numbers(["ol_w_id", "ol_d_id", "ol_o_id"]);
        let customer = customer_of.get(&order).copied().unwrap_or(0);
        *bought.entry([order[0], order[1], customer]).or_default() += row.number("ol_amount");
    }
    let payer = ["h_c_w_id", "h_c_d_id", "h_c_id"];
    let paid = sums(tables["history"].iter(), payer, |row| row.number("h_amount"));
    let payments = sums(tables["history"].iter(), payer, |_| 1);
    for row in tables["customer"].iter() {
        let id = row.numbers(["c_w_id", "c_d_id", "c_id"]);
        let [balance, ytd] = row.numbers(["c_balance", "c_ytd_payment"]);
        let (bought, paid) = (of(&bought, &id), of(&paid, &id));
        require!(
            balance == bought - paid,
            "condition 10: customer {id:?}: {balance} is not {bought} - {paid}"
        );
        require!(balance + ytd == bought, "condition 12: customer {id:?}: {balance} + {ytd} is not {bought}");
        let count = row.number("c_payment_cnt");
        require!(
            count == of(&payments, &id),
            "customer {id:?}: {count} payments counted, {}",
            of(&payments, &id)
        );
    }
    Ok(())
}

/// What was ordered has left the stock.
fn stock(tables: &Tables) -> Result<(), Stop> {
    let supplied = ["ol_supply_w_id", "ol_i_id"];
    let ordered = sums(tables["order_line"].iter(), supplied, |row| row.number("ol_quantity"));
    let times = sums(tables["order_line"].iter(), supplied, |_| 1);
    for row in tables["stock"].iter() {
        let id = row.numbers(["s_w_id", "s_i_id"]);
        let [ytd, count] = row.numbers(["s_ytd", "s_order_cnt"]);
        require!(ytd == of(&ordered, &id), "stock {id:?}: s_ytd {ytd}, ordered {}", of(&ordered, &id));
        require!(count == of(&times, &id), "stock {id:?}: s_order_cnt {count}, lines {}", of(&times, &id));
    }
    Ok(())
}
