CREATE TYPE order_state AS ENUM ('open', 'paid', 'it''s "gone"');
CREATE SCHEMA stock;
CREATE TYPE stock.unit AS ENUM ('piece', 'kg');
CREATE TABLE customer (
    id bigint GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5) PRIMARY KEY,
    name varchar(40) NOT NULL,
    email text UNIQUE,
    balance numeric(12,2) NOT NULL DEFAULT 0,
    created timestamptz NOT NULL DEFAULT now(),
    parent bigint REFERENCES customer (id)
);
COMMENT ON TABLE customer IS 'who buys';
COMMENT ON COLUMN customer.name IS 'it''s a name';
CREATE TABLE stock.item (
    code char(8) NOT NULL,
    size smallint NOT NULL DEFAULT 1,
    unit stock.unit DEFAULT 'piece',
    "Odd Name" jsonb,
    tags text[] DEFAULT '{}',
    PRIMARY KEY (code, size),
    CONSTRAINT positive CHECK (size > 0 AND code <> '')
);
CREATE TABLE orders (
    id serial PRIMARY KEY,
    customer_id bigint NOT NULL REFERENCES customer (id) ON DELETE CASCADE,
    code char(8), size smallint,
    state order_state NOT NULL DEFAULT 'open',
    placed date DEFAULT CURRENT_DATE,
    note text DEFAULT 'a ''quoted'' note',
    ratio double precision DEFAULT 0.5,
    token uuid DEFAULT gen_random_uuid(),
    raw bytea,
    lasts interval DEFAULT '1 day',
    CONSTRAINT one_a_day UNIQUE (customer_id, placed),
    CONSTRAINT of_item FOREIGN KEY (code, size) REFERENCES stock.item MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL
);
CREATE INDEX orders_by_date ON orders (placed DESC NULLS LAST, customer_id);
CREATE UNIQUE INDEX item_tags ON stock.item (unit, code);
CREATE SEQUENCE ticket AS integer START WITH 100 INCREMENT BY -5 MAXVALUE 1000 CYCLE;
CREATE VIEW open_orders AS SELECT o.id, c.name, count(*) AS items FROM orders o JOIN customer c ON c.id = o.customer_id JOIN stock.item i USING (code, size) WHERE o.state = 'open' GROUP BY o.id, c.name;
CREATE VIEW big AS WITH t AS (SELECT * FROM open_orders) SELECT t.*, (SELECT max(balance) FROM customer) AS most FROM t WHERE items > 1;
CREATE ROLE clerk LOGIN;
GRANT SELECT, INSERT ON orders TO clerk;
GRANT USAGE ON SCHEMA stock TO clerk;
GRANT USAGE ON SEQUENCE ticket TO PUBLIC;
INSERT INTO customer (name, email) VALUES ('Ada', 'ada@example.org'), (E'Tab\there', NULL);
INSERT INTO stock.item VALUES ('a', 1, 'kg', '{"a": [1, 2]}', '{x,"y z"}'), ('b', 2, NULL, NULL, NULL);
INSERT INTO orders (customer_id, code, size, state, raw) VALUES (10, 'a', 1, 'paid', '\x00ff'), (15, NULL, NULL, 'open', NULL);
SELECT nextval('ticket'), nextval('ticket');
