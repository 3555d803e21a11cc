//! The purchase: the suite's procedure PURCHASE, and its trigger that keeps the stock from running out.

use rust_decimal::Decimal;

use super::population::TAX_PER_10000;
use super::size::is_popular;
use super::statements::Statements;
use crate::Result;
use crate::connection::Connection;
use crate::load::Outcome;

/// Stock below which a title is ordered again.
const LOW: i32 = 3;
/// Stock of a title after it came in, and of a popular one.
const RESTOCK_TO: [i32; 2] = [250, 2_500];

/// A title in the cart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) product: u32,
    pub(super) quantity: i32,
}

impl Item {
    fn product(self) -> i32 {
        i32::try_from(self.product).expect("products are a million at most")
    }
}

/// Buys what is in the cart, which is sorted by title. Rolls back, and so ends the visit without an order, if there is too little of a title.
pub(super) async fn purchase(
    c: &mut Connection,
    s: &Statements,
    customer: i32,
    cart: &[Item],
) -> Result<Outcome> {
    for item in cart {
        c.add(&s.price, &[&item.product()])?;
    }
    let mut net = Decimal::ZERO;
    for (reply, item) in c.exchange().await?.iter().zip(cart) {
        net += reply.row()?.get::<Decimal>(0)? * Decimal::from(item.quantity);
    }
    let tax = (net * Decimal::new(i64::from(TAX_PER_10000), 4)).round_dp(2);

    c.add(&s.begin, &[])?;
    c.add(&s.insert_order, &[&customer, &net, &tax, &(net + tax)])?;
    for item in cart {
        c.add(&s.take_from_stock, &[&item.product(), &item.quantity])?;
    }
    let replies = c.exchange().await?;
    let (order, taken) = (replies[1].row()?.get::<i32>(0)?, &replies[2..]);
    if taken.iter().any(|reply| reply.rows.is_empty()) {
        c.add(&s.rollback, &[])?;
        c.exchange().await?;
        return Ok(Outcome::RolledBack);
    }
    for ((number, item), reply) in (1i16..).zip(cart).zip(taken) {
        let (product, quantity) = (item.product(), i16::try_from(item.quantity)?);
        c.add(&s.insert_line, &[&number, &order, &product, &quantity])?;
        c.add(&s.insert_history, &[&customer, &order, &product])?;
        let left: i32 = reply.row()?.get(0)?;
        // The cart is sorted: of a title that is in it twice, the last line tells what is left.
        let is_last = cart.get(usize::try_from(number)?).is_none_or(|next| next.product != item.product);
        if is_last && left < LOW {
            let missing = RESTOCK_TO[usize::from(is_popular(item.product))] - left;
            c.add(&s.reorder, &[&product, &missing])?;
            c.add(&s.restock, &[&product, &missing])?;
        }
    }
    c.add(&s.commit, &[])?;
    c.exchange().await?;
    Ok(Outcome::Committed)
}
