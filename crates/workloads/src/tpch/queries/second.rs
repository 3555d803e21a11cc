//! Queries 12 to 22.

use super::first::{color, nation};
use crate::random::Draw as _;
use crate::tpch::parameters::{Parameters, listed};
use crate::tpch::rows::container;
use crate::tpch::words::{MODES, TYPES};

pub(super) fn shipping_modes(p: &mut Parameters) -> String {
    // Mail and ship.
    let modes = p.different([5, 3], |rng| rng.uniform(0, 6));
    let [one, other] = modes.map(|number| MODES[number as usize]);
    let year = p.year();
    format!(
        "select l_shipmode,
            sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0 end)
                as high_line_count,
            sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1 else 0 end)
                as low_line_count
        from orders, lineitem
        where o_orderkey = l_orderkey and l_shipmode in ('{one}', '{other}') and l_commitdate < l_receiptdate
            and l_shipdate < l_commitdate and l_receiptdate >= date '{year}'
            and l_receiptdate < date '{year}' + interval '1 year'
        group by l_shipmode order by l_shipmode"
    )
}

pub(super) fn customer_distribution(p: &mut Parameters) -> String {
    let one = p.word("special", &["special", "pending", "unusual", "express"]);
    let other = p.word("requests", &["packages", "requests", "accounts", "deposits"]);
    format!(
        "select c_count, count(*) as custdist
        from (
            select c_custkey, count(o_orderkey) as c_count
            from customer left outer join orders
                on c_custkey = o_custkey and o_comment not like '%{one}%{other}%'
            group by c_custkey) as c_orders
        group by c_count order by custdist desc, c_count desc"
    )
}

pub(super) fn promotion_effect(p: &mut Parameters) -> String {
    let month = p.month(32, 0, 59);
    format!(
        "select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
            / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
        from lineitem, part
        where l_partkey = p_partkey and l_shipdate >= date '{month}'
            and l_shipdate < date '{month}' + interval '1 month'"
    )
}

pub(super) fn top_supplier(p: &mut Parameters) -> String {
    let month = p.month(36, 0, 57);
    format!(
        "with revenue as (
            select l_suppkey as supplier_no, sum(l_extendedprice * (1 - l_discount)) as total_revenue from lineitem
            where l_shipdate >= date '{month}' and l_shipdate < date '{month}' + interval '3 months'
            group by l_suppkey)
        select s_suppkey, s_name, s_address, s_phone, total_revenue from supplier, revenue
        where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
        order by s_suppkey"
    )
}

pub(super) fn parts_and_suppliers(p: &mut Parameters) -> String {
    let brand = p.brand(45);
    let (grade, finish) = (p.word("MEDIUM", TYPES.0), p.word("POLISHED", TYPES.1));
    let sizes = listed(&p.different([49, 14, 23, 45, 19, 3, 36, 9], |rng| rng.uniform(1, 50)));
    format!(
        "select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt from partsupp, part
        where p_partkey = ps_partkey and p_brand <> '{brand}' and p_type not like '{grade} {finish}%'
            and p_size in ({sizes})
            and ps_suppkey not in (select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
        group by p_brand, p_type, p_size order by supplier_cnt desc, p_brand, p_type, p_size"
    )
}

pub(super) fn small_quantities(p: &mut Parameters) -> String {
    let (brand, container) = (p.brand(23), p.pick("MED BOX".to_owned(), container));
    format!(
        "select sum(l_extendedprice) / 7.0 as avg_yearly from lineitem, part
        where p_partkey = l_partkey and p_brand = '{brand}' and p_container = '{container}'
            and l_quantity < (select 0.2 * avg(l_quantity) from lineitem where l_partkey = p_partkey)"
    )
}

pub(super) fn large_volume_customers(p: &mut Parameters) -> String {
    let quantity = p.number(300, 312, 315);
    format!(
        "select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
        from customer, orders, lineitem
        where o_orderkey in (
                select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > {quantity})
            and c_custkey = o_custkey and o_orderkey = l_orderkey
        group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        order by o_totalprice desc, o_orderdate limit 100"
    )
}

pub(super) fn discounted_revenue(p: &mut Parameters) -> String {
    let least = [p.number(1, 1, 10), p.number(10, 10, 20), p.number(20, 20, 30)];
    let brands = [p.brand(12), p.brand(23), p.brand(34)];
    let packed = [
        ("'SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'", 5),
        ("'MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'", 10),
        ("'LG CASE', 'LG BOX', 'LG PACK', 'LG PKG'", 15),
    ];
    let either: Vec<String> = least
        .iter()
        .zip(&brands)
        .zip(packed)
        .map(|((least, brand), (containers, size))| {
            format!(
                "(p_partkey = l_partkey and p_brand = '{brand}' and p_container in ({containers})
                and l_quantity >= {least} and l_quantity <= {least} + 10 and p_size between 1 and {size}
                and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')"
            )
        })
        .collect();
    format!(
        "select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
        where {}",
        either.join(" or ")
    )
}

pub(super) fn potential_promotion(p: &mut Parameters) -> String {
    let (color, year, nation) = (color(p, "forest"), p.year(), nation(p, "CANADA"));
    format!(
        "select s_name, s_address from supplier, nation
        where s_suppkey in (
                select ps_suppkey from partsupp
                where ps_partkey in (select p_partkey from part where p_name like '{color}%')
                    and ps_availqty > (
                        select 0.5 * sum(l_quantity) from lineitem
                        where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= date '{year}'
                            and l_shipdate < date '{year}' + interval '1 year'))
            and s_nationkey = n_nationkey and n_name = '{nation}'
        order by s_name"
    )
}

pub(super) fn waiting_suppliers(p: &mut Parameters) -> String {
    let nation = nation(p, "SAUDI ARABIA");
    format!(
        "select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation
        where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
            and l1.l_receiptdate > l1.l_commitdate
            and exists (
                select * from lineitem l2 where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey)
            and not exists (
                select * from lineitem l3 where l3.l_orderkey = l1.l_orderkey and l3.l_suppkey <> l1.l_suppkey
                    and l3.l_receiptdate > l3.l_commitdate)
            and s_nationkey = n_nationkey and n_name = '{nation}'
        group by s_name order by numwait desc, s_name limit 100"
    )
}

pub(super) fn sales_opportunity(p: &mut Parameters) -> String {
    let codes = p.different([13, 31, 23, 29, 30, 18, 17], |rng| rng.uniform(10, 34));
    let codes = codes.map(|code| format!("'{code}'")).join(", ");
    format!(
        "select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal
        from (
            select substring(c_phone from 1 for 2) as cntrycode, c_acctbal from customer
            where substring(c_phone from 1 for 2) in ({codes})
                and c_acctbal > (
                    select avg(c_acctbal) from customer
                    where c_acctbal > 0.00 and substring(c_phone from 1 for 2) in ({codes}))
                and not exists (select * from orders where o_custkey = c_custkey)) as custsale
        group by cntrycode order by cntrycode"
    )
}
