//! Queries 1 to 11.

use crate::random::Draw as _;
use crate::tpch::parameters::Parameters;
use crate::tpch::rows::part_type;
use crate::tpch::words::{COLORS, NATIONS, REGIONS, SEGMENTS, TYPES};

/// One of the nations' names.
pub(super) fn nation(p: &mut Parameters, validation: &'static str) -> &'static str {
    p.pick(validation, |rng| NATIONS[rng.uniform(0, NATIONS.len() - 1)].0)
}

/// A word of parts' names.
pub(super) fn color(p: &mut Parameters, validation: &'static str) -> &'static str {
    let all: Vec<&'static str> = COLORS.split(' ').collect();
    p.word(validation, &all)
}

pub(super) fn pricing_summary(p: &mut Parameters) -> String {
    let days = p.number(90, 60, 120);
    format!(
        "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
            sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
            avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
        from lineitem where l_shipdate <= date '1998-12-01' - interval '{days} days'
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"
    )
}

pub(super) fn minimum_cost_supplier(p: &mut Parameters) -> String {
    let (size, metal) = (p.number(15, 1, 50), p.word("BRASS", TYPES.2));
    let region = p.word("EUROPE", &REGIONS);
    format!(
        "select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        from part, supplier, partsupp, nation, region
        where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = {size} and p_type like '%{metal}'
            and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = '{region}'
            and ps_supplycost = (
                select min(ps_supplycost) from partsupp, supplier, nation, region
                where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
                    and n_regionkey = r_regionkey and r_name = '{region}')
        order by s_acctbal desc, n_name, s_name, p_partkey limit 100"
    )
}

pub(super) fn shipping_priority(p: &mut Parameters) -> String {
    let (segment, day) = (p.word("BUILDING", &SEGMENTS), p.number(15, 1, 31));
    format!(
        "select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
        from customer, orders, lineitem
        where c_mktsegment = '{segment}' and c_custkey = o_custkey and l_orderkey = o_orderkey
            and o_orderdate < date '1995-03-{day:02}' and l_shipdate > date '1995-03-{day:02}'
        group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate limit 10"
    )
}

pub(super) fn order_priority(p: &mut Parameters) -> String {
    let month = p.month(6, 0, 57);
    format!(
        "select o_orderpriority, count(*) as order_count from orders
        where o_orderdate >= date '{month}' and o_orderdate < date '{month}' + interval '3 months'
            and exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
        group by o_orderpriority order by o_orderpriority"
    )
}

pub(super) fn local_supplier_volume(p: &mut Parameters) -> String {
    let (region, year) = (p.word("ASIA", &REGIONS), p.year());
    format!(
        "select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
        from customer, orders, lineitem, supplier, nation, region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
            and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
            and r_name = '{region}' and o_orderdate >= date '{year}' and o_orderdate < date '{year}' + interval '1 year'
        group by n_name order by revenue desc"
    )
}

pub(super) fn forecast_revenue(p: &mut Parameters) -> String {
    let (year, percent, quantity) = (p.year(), p.number(6, 2, 9), p.number(24, 24, 25));
    format!(
        "select sum(l_extendedprice * l_discount) as revenue from lineitem
        where l_shipdate >= date '{year}' and l_shipdate < date '{year}' + interval '1 year'
            and l_discount between 0.{percent:02} - 0.01 and 0.{percent:02} + 0.01 and l_quantity < {quantity}"
    )
}

pub(super) fn volume_shipping(p: &mut Parameters) -> String {
    // France and Germany.
    let nations = p.different([6, 7], |rng| rng.uniform(0, 24));
    let [one, other] = nations.map(|number| NATIONS[number as usize].0);
    format!(
        "select supp_nation, cust_nation, l_year, sum(volume) as revenue
        from (
            select n1.n_name as supp_nation, n2.n_name as cust_nation, extract(year from l_shipdate) as l_year,
                l_extendedprice * (1 - l_discount) as volume
            from supplier, lineitem, orders, customer, nation n1, nation n2
            where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
                and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
                and ((n1.n_name = '{one}' and n2.n_name = '{other}') or (n1.n_name = '{other}' and n2.n_name = '{one}'))
                and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping
        group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year"
    )
}

pub(super) fn market_share(p: &mut Parameters) -> String {
    let nation = nation(p, "BRAZIL");
    let of_nation = NATIONS.iter().find(|(name, _)| *name == nation).expect("it is one of them").1;
    let region = REGIONS[of_nation];
    let kind = p.pick("ECONOMY ANODIZED STEEL".to_owned(), part_type);
    format!(
        "select o_year, sum(case when nation = '{nation}' then volume else 0 end) / sum(volume) as mkt_share
        from (
            select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume,
                n2.n_name as nation
            from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey
                and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = '{region}'
                and s_nationkey = n2.n_nationkey and o_orderdate between date '1995-01-01' and date '1996-12-31'
                and p_type = '{kind}') as all_nations
        group by o_year order by o_year"
    )
}

pub(super) fn product_type_profit(p: &mut Parameters) -> String {
    let color = color(p, "green");
    format!(
        "select nation, o_year, sum(amount) as sum_profit
        from (
            select n_name as nation, extract(year from o_orderdate) as o_year,
                l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
            from part, supplier, lineitem, partsupp, orders, nation
            where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey
                and o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%{color}%') as profit
        group by nation, o_year order by nation, o_year desc"
    )
}

pub(super) fn returned_items(p: &mut Parameters) -> String {
    let month = p.month(9, 1, 24);
    format!(
        "select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_address,
            c_phone, c_comment
        from customer, orders, lineitem, nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '{month}'
            and o_orderdate < date '{month}' + interval '3 months' and l_returnflag = 'R'
            and c_nationkey = n_nationkey
        group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment order by revenue desc limit 20"
    )
}

pub(super) fn important_stock(p: &mut Parameters) -> String {
    let (nation, fraction) = (nation(p, "GERMANY"), p.scale.fraction());
    format!(
        "select ps_partkey, sum(ps_supplycost * ps_availqty) as value from partsupp, supplier, nation
        where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = '{nation}'
        group by ps_partkey
        having sum(ps_supplycost * ps_availqty) > (
            select sum(ps_supplycost * ps_availqty) * {fraction:.12} from partsupp, supplier, nation
            where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = '{nation}')
        order by value desc"
    )
}
