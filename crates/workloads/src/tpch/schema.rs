//! The eight tables (clause 1.4.1).

/// Tables with their primary keys (clause 1.4.2.2), in an order in which they can be made.
pub(super) const CREATE: &[&str] = &[
    "create table region (
        r_regionkey int not null, r_name char(25) not null, r_comment varchar(152) not null, primary key (r_regionkey))",
    "create table nation (
        n_nationkey int not null, n_name char(25) not null, n_regionkey int not null, n_comment varchar(152) not null,
        primary key (n_nationkey))",
    "create table part (
        p_partkey int not null, p_name varchar(55) not null, p_mfgr char(25) not null, p_brand char(10) not null,
        p_type varchar(25) not null, p_size int not null, p_container char(10) not null,
        p_retailprice numeric(15,2) not null, p_comment varchar(23) not null, primary key (p_partkey))",
    "create table supplier (
        s_suppkey int not null, s_name char(25) not null, s_address varchar(40) not null, s_nationkey int not null,
        s_phone char(15) not null, s_acctbal numeric(15,2) not null, s_comment varchar(101) not null,
        primary key (s_suppkey))",
    "create table partsupp (
        ps_partkey int not null, ps_suppkey int not null, ps_availqty int not null, ps_supplycost numeric(15,2) not null,
        ps_comment varchar(199) not null, primary key (ps_partkey, ps_suppkey))",
    "create table customer (
        c_custkey int not null, c_name varchar(25) not null, c_address varchar(40) not null, c_nationkey int not null,
        c_phone char(15) not null, c_acctbal numeric(15,2) not null, c_mktsegment char(10) not null,
        c_comment varchar(117) not null, primary key (c_custkey))",
    "create table orders (
        o_orderkey bigint not null, o_custkey int not null, o_orderstatus char(1) not null,
        o_totalprice numeric(15,2) not null, o_orderdate date not null, o_orderpriority char(15) not null,
        o_clerk char(15) not null, o_shippriority int not null, o_comment varchar(79) not null, primary key (o_orderkey))",
    "create table lineitem (
        l_orderkey bigint not null, l_partkey int not null, l_suppkey int not null, l_linenumber int not null,
        l_quantity numeric(15,2) not null, l_extendedprice numeric(15,2) not null, l_discount numeric(15,2) not null,
        l_tax numeric(15,2) not null, l_returnflag char(1) not null, l_linestatus char(1) not null,
        l_shipdate date not null, l_commitdate date not null, l_receiptdate date not null, l_shipinstruct char(25) not null,
        l_shipmode char(10) not null, l_comment varchar(44) not null, primary key (l_orderkey, l_linenumber))",
];

/// Indexes on foreign keys, which clause 1.5.4 allows. Without that on a line's part, queries 17 and 20 take PostgreSQL a
/// time that grows with the square of the scale.
pub(super) const AFTER_LOAD: &[&str] = &[
    "create index partsupp_by_supplier on partsupp (ps_suppkey)",
    "create index orders_by_customer on orders (o_custkey)",
    "create index lineitem_by_part on lineitem (l_partkey, l_suppkey)",
];

/// Foreign keys (clause 1.4.2.3), which a test database may do without.
pub(super) const FOREIGN_KEYS: &[&str] = &[
    "alter table nation add foreign key (n_regionkey) references region",
    "alter table supplier add foreign key (s_nationkey) references nation",
    "alter table partsupp add foreign key (ps_partkey) references part",
    "alter table partsupp add foreign key (ps_suppkey) references supplier",
    "alter table customer add foreign key (c_nationkey) references nation",
    "alter table orders add foreign key (o_custkey) references customer",
    "alter table lineitem add foreign key (l_orderkey) references orders",
    "alter table lineitem add foreign key (l_partkey, l_suppkey) references partsupp",
];
