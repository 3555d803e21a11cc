//! What holds in a store that nobody is changing, each as a query that counts what breaks it.

use tokio_postgres::Client;

use crate::{Result, explain};

/// What holds, and how often it does not.
const CONDITIONS: [(&str, &str); 7] = [
    (
        "what was sold of a title is what its order lines say",
        "select count(*) from inventory
         left join (select prod_id as sold_id, sum(quantity) as sold from orderlines group by prod_id) as x
           on sold_id = prod_id where sales <> coalesce(sold, 0)",
    ),
    (
        "every order has its lines, numbered from 1 on, 9 at most",
        "select count(*) from orders
         left join (select orderid as line_order, count(*) as n, max(orderlineid) as last from orderlines group by orderid)
           as x on line_order = orderid where n is null or n <> last or n > 9",
    ),
    (
        "every order line is in the customer's history",
        "select count(*) from
         (select orderid as a_order, prod_id as a_prod, count(*) as a_n from orderlines group by orderid, prod_id) as a
         full join
         (select orderid as b_order, prod_id as b_prod, count(*) as b_n from cust_hist group by orderid, prod_id) as b
           on a_order = b_order and a_prod = b_prod where a_n is null or b_n is null or a_n <> b_n",
    ),
    (
        "the history names the customer of the order",
        "select count(*) from cust_hist join orders on orders.orderid = cust_hist.orderid
         where orders.customerid is null or orders.customerid <> cust_hist.customerid",
    ),
    (
        "a total is the net amount and its tax",
        "select count(*) from orders
         where totalamount <> netamount + tax or abs(tax - netamount * 0.0825) > 0.005 or netamount <= 0",
    ),
    ("no stock is below nothing", "select count(*) from inventory where quan_in_stock < 0"),
    (
        "what ran low was ordered for a title there is, up to a full stock",
        "select count(*) from reorder left join inventory on inventory.prod_id = reorder.prod_id
         where inventory.prod_id is null or quan_low <= 0 or quan_low > 2500",
    ),
];

/// Checks a store that nobody is changing; gives a line for each condition that does not hold.
///
/// # Errors
/// When a query fails.
pub(super) async fn check(client: &Client) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for (what, query) in CONDITIONS {
        let broken: i64 = client
            .query_one(query, &[])
            .await
            .map_err(|error| format!("\"{what}\" cannot be checked: {}", explain(&error.into())))?
            .get(0);
        if broken != 0 {
            violations.push(format!("\"{what}\" is broken {broken} time(s)"));
        }
    }
    Ok(violations)
}
