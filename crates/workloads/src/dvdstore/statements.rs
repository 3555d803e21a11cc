//! The statements of a visit, prepared once a connection. What the suite's procedures do with them is in `shopper.rs` and
//! `purchase.rs`.

use crate::connection::statements;

statements! {
    begin: "begin";
    commit: "commit";
    rollback: "rollback";

    log_in: "select customerid from customers where username = $1 and password = $2";
    // What the customer bought, and what others bought with it.
    last_bought: "select p.title, p.actor, r.title from cust_hist as h
        join products as p on p.prod_id = h.prod_id join products as r on r.prod_id = p.common_prod_id
        where h.customerid = $1 limit 10";
    new_customer: "insert into customers (firstname, lastname, address1, address2, city, state, zip, country, region,
        email, phone, creditcardtype, creditcard, creditcardexpiration, username, password, age, income, gender)
        values ($1, $2, $3, '', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'password', $15, $16, $17)
        on conflict (username) do nothing returning customerid";

    by_category: "select prod_id, category, title, actor, price, special, common_prod_id from products
        where category = $1 and special = 1 limit $2";
    by_actor: "select prod_id, category, title, actor, price, special, common_prod_id from products
        where actor = $1 limit $2";
    by_title: "select prod_id, category, title, actor, price, special, common_prod_id from products
        where title = $1 limit $2";

    price: "select price from products where prod_id = $1";
    insert_order: "insert into orders (orderdate, customerid, netamount, tax, totalamount)
        values (current_date, $1, $2, $3, $4) returning orderid";
    take_from_stock: "update inventory set quan_in_stock = quan_in_stock - $2, sales = sales + $2
        where prod_id = $1 and quan_in_stock >= $2 returning quan_in_stock";
    insert_line: "insert into orderlines (orderlineid, orderid, prod_id, quantity, orderdate)
        values ($1, $2, $3, $4, current_date)";
    insert_history: "insert into cust_hist (customerid, orderid, prod_id) values ($1, $2, $3)";
    reorder: "insert into reorder (prod_id, date_low, quan_low) values ($1, current_date, $2)";
    restock: "update inventory set quan_in_stock = quan_in_stock + $2 where prod_id = $1";
}
