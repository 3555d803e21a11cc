//! The twelve consistency conditions of clause 3.3.2, each as a query that counts what breaks it. A sum over rows that are all
//! gone is 0, so what lost them is counted, too.

use tokio_postgres::Client;

use crate::{Result, explain};

/// Number and query of each condition; the query's one value must be 0.
const CONDITIONS: [(u32, &str); 12] = [
    (
        1,
        "select count(*) from (select w_id, w_ytd, sum(d_ytd) as total from warehouse
           left join district on d_w_id = w_id group by w_id, w_ytd) as x where w_ytd <> coalesce(total, 0)",
    ),
    (
        2,
        "select count(*) from district
         left join (select o_w_id, o_d_id, max(o_id) as o from orders group by o_w_id, o_d_id) as x
           on o_w_id = d_w_id and o_d_id = d_id
         left join (select no_w_id, no_d_id, max(no_o_id) as n from new_order group by no_w_id, no_d_id) as y
           on no_w_id = d_w_id and no_d_id = d_id
         where d_next_o_id - 1 <> coalesce(o, 0) or d_next_o_id - 1 <> coalesce(n, o, 0)",
    ),
    (
        3,
        "select count(*) from (select no_w_id, no_d_id, max(no_o_id) - min(no_o_id) + 1 as span, count(*) as n
         from new_order group by no_w_id, no_d_id) as x where span <> n",
    ),
    (
        4,
        "select count(*) from district
         left join (select o_w_id, o_d_id, sum(o_ol_cnt) as lines from orders group by o_w_id, o_d_id) as x
           on o_w_id = d_w_id and o_d_id = d_id
         left join (select ol_w_id, ol_d_id, count(*) as n from order_line group by ol_w_id, ol_d_id) as y
           on ol_w_id = d_w_id and ol_d_id = d_id
         where coalesce(lines, 0) <> coalesce(n, 0)",
    ),
    (
        5,
        "select count(*) from orders left join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
         where (o_carrier_id is null and no_o_id is null) or (o_carrier_id is not null and no_o_id is not null)",
    ),
    (
        6,
        "select count(*) from orders left join (select ol_w_id, ol_d_id, ol_o_id, count(*) as n from order_line
         group by ol_w_id, ol_d_id, ol_o_id) as x on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
         where o_ol_cnt <> coalesce(n, 0)",
    ),
    (
        7,
        "select count(*) from order_line join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
         where (ol_delivery_d is null and o_carrier_id is not null)
            or (ol_delivery_d is not null and o_carrier_id is null)",
    ),
    (
        8,
        "select count(*) from (select w_id, w_ytd, sum(h_amount) as total from warehouse
           left join history on h_w_id = w_id group by w_id, w_ytd) as x where w_ytd <> coalesce(total, 0)",
    ),
    (
        9,
        "select count(*) from (select d_w_id, d_id, d_ytd, sum(h_amount) as total from district
           left join history on h_w_id = d_w_id and h_d_id = d_id group by d_w_id, d_id, d_ytd) as x
         where d_ytd <> coalesce(total, 0)",
    ),
    (
        10,
        "select count(*) from customer
         left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as bought from orders
           join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
           where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) as x
           on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
         left join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from history
           group by h_c_w_id, h_c_d_id, h_c_id) as y
           on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id
         where c_balance <> coalesce(bought, 0) - coalesce(paid, 0)",
    ),
    (
        11,
        "select count(*) from district
         left join (select o_w_id, o_d_id, count(*) as ordered from orders group by o_w_id, o_d_id) as x
           on o_w_id = d_w_id and o_d_id = d_id
         left join (select no_w_id, no_d_id, count(*) as undelivered from new_order group by no_w_id, no_d_id) as y
           on no_w_id = d_w_id and no_d_id = d_id
         left join (select c_w_id, c_d_id, sum(c_delivery_cnt) as delivered from customer group by c_w_id, c_d_id) as z
           on c_w_id = d_w_id and c_d_id = d_id
         where coalesce(ordered, 0) - coalesce(undelivered, 0) <> coalesce(delivered, 0) + (select FIRST_DELIVERED)",
    ),
    (
        12,
        "select count(*) from customer
         left join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as bought from orders
           join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
           where ol_delivery_d is not null group by o_w_id, o_d_id, o_c_id) as x
           on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
         where c_balance + c_ytd_payment <> coalesce(bought, 0)",
    ),
];

/// Checks a TPC-C database that nobody is changing; gives a line for each condition that does not hold.
///
/// Condition 11 of the specification counts orders and New-Orders against the 2,100 delivered at load; with a reduced
/// population that number is `delivered_at_load`.
///
/// # Errors
/// When a query fails.
pub(super) async fn check(client: &Client, delivered_at_load: u32) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for (number, query) in CONDITIONS {
        let query = query.replace("(select FIRST_DELIVERED)", &delivered_at_load.to_string());
        let broken: i64 = client
            .query_one(&query, &[])
            .await
            .map_err(|error| {
                format!("consistency condition {number} cannot be checked: {}", explain(&error.into()))
            })?
            .get(0);
        if broken != 0 {
            violations.push(format!("consistency condition {number} is broken {broken} time(s)"));
        }
    }
    Ok(violations)
}
