//! The statements of the five transactions, prepared once a connection.

use crate::connection::statements;

statements! {
    begin: "begin";
    commit: "commit";
    rollback: "rollback";

    customer_and_tax: "select c_discount, c_last, c_credit, w_tax from customer, warehouse
        where w_id = $1 and c_w_id = $1 and c_d_id = $2 and c_id = $3";
    take_order_number: "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = $1 and d_id = $2
        returning d_next_o_id - 1, d_tax";
    insert_order: "insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
        values ($1, $2, $3, $4, current_timestamp, $5, $6)";
    insert_new_order: "insert into new_order (no_o_id, no_d_id, no_w_id) values ($1, $2, $3)";
    item: "select i_price, i_name, i_data from item where i_id = $1";
    stock: "select s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10 from stock where s_w_id = $1 and s_i_id = $2 for update";
    update_stock: "update stock set s_quantity = $3, s_ytd = s_ytd + $4, s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + $5 where s_w_id = $1 and s_i_id = $2";
    insert_order_line: "insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
        ol_quantity, ol_amount, ol_dist_info) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";

    pay_warehouse: "update warehouse set w_ytd = w_ytd + $2 where w_id = $1
        returning w_name, w_street_1, w_street_2, w_city, w_state, w_zip";
    pay_district: "update district set d_ytd = d_ytd + $3 where d_w_id = $1 and d_id = $2
        returning d_name, d_street_1, d_street_2, d_city, d_state, d_zip";
    customers_by_name: "select c_id, c_credit from customer where c_w_id = $1 and c_d_id = $2 and c_last = $3
        order by c_first";
    pay_customer: "update customer set c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4,
        c_payment_cnt = c_payment_cnt + 1 where c_w_id = $1 and c_d_id = $2 and c_id = $3
        returning c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit,
        c_credit_lim, c_discount, c_balance, c_data";
    write_customer_data: "update customer set c_data = $4 where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    insert_history: "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
        values ($1, $2, $3, $4, $5, current_timestamp, $6, $7)";

    customer_status: "select c_balance, c_first, c_middle, c_last from customer
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";
    last_order: "select o_id, o_carrier_id, o_entry_d from orders where o_w_id = $1 and o_d_id = $2 and o_c_id = $3
        order by o_id desc limit 1";
    lines_of_order: "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";

    oldest_new_order: "select no_o_id from new_order where no_w_id = $1 and no_d_id = $2
        order by no_o_id limit 1 for update";
    delete_new_order: "delete from new_order where no_w_id = $1 and no_d_id = $2 and no_o_id = $3";
    deliver_order: "update orders set o_carrier_id = $4 where o_w_id = $1 and o_d_id = $2 and o_id = $3
        returning o_c_id";
    deliver_lines: "update order_line set ol_delivery_d = current_timestamp
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    order_total: "select sum(ol_amount) from order_line where ol_w_id = $1 and ol_d_id = $2 and ol_o_id = $3";
    credit_customer: "update customer set c_balance = c_balance + $4, c_delivery_cnt = c_delivery_cnt + 1
        where c_w_id = $1 and c_d_id = $2 and c_id = $3";

    next_order_number: "select d_next_o_id from district where d_w_id = $1 and d_id = $2";
    low_stock: "select count(distinct s_i_id) from order_line, stock
        where ol_w_id = $1 and ol_d_id = $2 and ol_o_id < $3 and ol_o_id >= $3 - 20
        and s_w_id = $1 and s_i_id = ol_i_id and s_quantity < $4";
}
