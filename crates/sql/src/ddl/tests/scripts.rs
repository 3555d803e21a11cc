//! What real programs send.

use super::{after, constraints, rows};

#[test]
fn pgbench_initialisation_runs_as_shipped() {
    let (mut bench, mut session) = after(
        "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
         create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22));
         create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100);
         create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100);
         create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)",
    );
    for sql in [
        "begin",
        "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
        "insert into pgbench_branches(bid,bbalance) values(1,0)",
        "insert into pgbench_tellers(tid,bid,tbalance) values (1,1,0)",
        "insert into pgbench_accounts values (1, 1, 0, ''), (2, 1, 0, '')",
        "commit",
        "vacuum analyze pgbench_branches",
        "vacuum analyze pgbench_tellers",
        "vacuum analyze pgbench_accounts",
        "vacuum analyze pgbench_history",
        "alter table pgbench_branches add primary key (bid)",
        "alter table pgbench_tellers add primary key (tid)",
        "alter table pgbench_accounts add primary key (aid)",
        "alter table pgbench_tellers add constraint pgbench_tellers_bid_fkey foreign key (bid) references pgbench_branches",
        "alter table pgbench_accounts add constraint pgbench_accounts_bid_fkey foreign key (bid) references pgbench_branches",
        "alter table pgbench_history add constraint pgbench_history_bid_fkey foreign key (bid) references pgbench_branches",
        "alter table pgbench_history add constraint pgbench_history_tid_fkey foreign key (tid) references pgbench_tellers",
        "alter table pgbench_history add constraint pgbench_history_aid_fkey foreign key (aid) references pgbench_accounts",
    ] {
        bench.run(&mut session, sql);
    }
    assert_eq!(
        constraints(&bench, "pgbench_accounts"),
        ["pgbench_accounts_pkey", "pgbench_accounts_bid_fkey"]
    );
    let found = bench.run(&mut session, "select aid, abalance from pgbench_accounts where aid = 2");
    assert_eq!(found.lines(), ["2|0"]);
    let accounts = bench.catalog().tables().find(|t| t.name == "pgbench_accounts").expect("made").oid;
    assert_eq!(bench.catalog().statistics(accounts).expect("analyzed").rows, 2);
}

#[test]
fn tpcc_tables_indexes_and_foreign_keys_are_made() {
    let (mut bench, mut session) = after(
        "create table warehouse (w_id int not null, w_name varchar(10), w_tax numeric(4,4), w_ytd numeric(12,2),
            primary key (w_id));
         create table district (d_id int not null, d_w_id int not null, d_name varchar(10), d_state char(2),
            d_next_o_id int, primary key (d_w_id, d_id));
         create table customer (c_id int not null, c_d_id int not null, c_w_id int not null, c_first varchar(16),
            c_last varchar(16), c_since timestamp, primary key (c_w_id, c_d_id, c_id));
         insert into warehouse values (1, 'w', 0.1, 0);
         insert into district values (1, 1, 'd', 'AB', 3001);
         insert into customer values (1, 1, 1, 'a', 'BARBARBAR', '2020-01-01');",
    );
    for sql in [
        "create index customer_by_name on customer (c_w_id, c_d_id, c_last, c_first)",
        "alter table district add foreign key (d_w_id) references warehouse",
        "alter table customer add foreign key (c_w_id, c_d_id) references district",
    ] {
        bench.run(&mut session, sql);
    }
    assert_eq!(constraints(&bench, "customer"), ["customer_pkey", "customer_c_w_id_c_d_id_fkey"]);
    let error = bench.fail(&mut session, "insert into district values (1, 9, 'd', 'AB', 1)");
    assert_eq!(error.state().as_str(), "23503");
}

#[test]
fn a_dump_restores() {
    let sql = r#"
        SET statement_timeout = 0;
        SET client_encoding = 'UTF8';
        SET standard_conforming_strings = on;
        SELECT pg_catalog.set_config('search_path', '', false);
        SET check_function_bodies = false;
        SET client_min_messages = warning;
        CREATE SCHEMA shop;
        ALTER SCHEMA shop OWNER TO owner;
        CREATE TYPE shop.colour AS ENUM (
            'red',
            'green'
        );
        ALTER TYPE shop.colour OWNER TO owner;
        SET default_tablespace = '';
        CREATE TABLE shop.items (
            id integer NOT NULL,
            name character varying(20) NOT NULL,
            tint shop.colour DEFAULT 'red'::shop.colour,
            price numeric(10,2) DEFAULT 0.00,
            made timestamp with time zone DEFAULT now(),
            CONSTRAINT items_price_check CHECK ((price >= (0)::numeric))
        );
        ALTER TABLE shop.items OWNER TO owner;
        CREATE SEQUENCE shop.items_id_seq
            AS integer
            START WITH 1
            INCREMENT BY 1
            NO MINVALUE
            NO MAXVALUE
            CACHE 1;
        ALTER TABLE shop.items_id_seq OWNER TO owner;
        ALTER SEQUENCE shop.items_id_seq OWNED BY shop.items.id;
        CREATE TABLE shop.orders (
            id bigint NOT NULL,
            item integer
        );
        CREATE VIEW shop.cheap AS
         SELECT items.id,
            items.name
           FROM shop.items
          WHERE (items.price < (10)::numeric);
        ALTER TABLE ONLY shop.items ALTER COLUMN id SET DEFAULT nextval('shop.items_id_seq'::regclass);
        INSERT INTO shop.items VALUES (1, 'nut', 'green', 0.10, '2020-01-01 00:00:00+00');
        SELECT pg_catalog.setval('shop.items_id_seq', 1, true);
        ALTER TABLE ONLY shop.items
            ADD CONSTRAINT items_name_key UNIQUE (name);
        ALTER TABLE ONLY shop.items
            ADD CONSTRAINT items_pkey PRIMARY KEY (id);
        ALTER TABLE ONLY shop.orders
            ADD CONSTRAINT orders_pkey PRIMARY KEY (id);
        CREATE INDEX orders_item_idx ON shop.orders USING btree (item);
        ALTER TABLE ONLY shop.orders
            ADD CONSTRAINT orders_item_fkey FOREIGN KEY (item) REFERENCES shop.items(id) ON DELETE CASCADE;
        COMMENT ON TABLE shop.items IS 'What we sell';
        COMMENT ON COLUMN shop.items.name IS 'As printed';
        GRANT SELECT ON TABLE shop.items TO PUBLIC;
    "#;
    let (mut bench, mut session) = after(sql);
    bench.run(&mut session, "insert into shop.items(name) values ('bolt')");
    let found = bench.run(&mut session, "select id, name, tint from shop.items where id = 2");
    assert_eq!(found.lines(), ["2|bolt|red"]);
    let cheap = bench.run(&mut session, "select name from shop.cheap where id = 1");
    assert_eq!(cheap.lines(), ["nut"]);
    let items = bench.catalog().tables().find(|t| t.name == "items").expect("made").clone();
    assert_eq!(bench.catalog().comment(items.oid, None), Some("What we sell"));
    assert_eq!(bench.catalog().comment(items.oid, Some(1)), Some("As printed"));
    assert_eq!(constraints(&bench, "items"), ["items_price_check", "items_name_key", "items_pkey"]);
}

#[test]
fn sqlalchemy_create_all_is_understood() {
    let sql = "
        CREATE TABLE users (
            id SERIAL NOT NULL,
            name VARCHAR(50) NOT NULL,
            email VARCHAR,
            active BOOLEAN DEFAULT true,
            PRIMARY KEY (id),
            UNIQUE (email)
        );
        CREATE TABLE posts (
            id BIGSERIAL NOT NULL,
            user_id INTEGER NOT NULL,
            body TEXT,
            score DOUBLE PRECISION,
            tags TEXT[],
            extra JSONB,
            PRIMARY KEY (id),
            CONSTRAINT fk_user FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
        );
        CREATE INDEX ix_posts_user_id ON posts (user_id);
        INSERT INTO users (name, email) VALUES ('a', 'a@x'), ('b', 'b@x');
        INSERT INTO posts (user_id, body) VALUES (2, 'hello')";
    assert_eq!(rows(sql, "select id, user_id, body from posts where id = 1"), ["1|2|hello"]);
}

#[test]
fn literals_of_a_query_have_the_types_of_the_columns_they_are_inserted_into() {
    let table = "create table t (a int, b date, c varchar(3), d text); create table s (x int); insert into s values (1), (2);
                 insert into t select null, '2020-01-02', 'abc', 'd' from s where x = 1;
                 insert into t (d, a) select x, '7' as seven from s where x = 2";
    assert_eq!(rows(table, "select * from t order by d"), ["7|||2", "|2020-01-02|abc|d"]);
    assert_eq!(
        super::failure(table, "insert into t (a) select 'x' from s"),
        "22P02 invalid input syntax for type integer: \"x\""
    );
    assert_eq!(
        super::failure(table, "insert into t (c) select 'abcd' from s"),
        "22001 value too long for type character varying(3)"
    );
    assert_eq!(
        super::failure(table, "insert into t (a) select 'x' || '1' from s"),
        "42804 column \"a\" is of type integer but expression is of type text"
    );
}
