--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: stock; Type: SCHEMA; Schema: -; Owner: acme
--

CREATE SCHEMA stock;


ALTER SCHEMA stock OWNER TO acme;

--
-- Name: order_state; Type: TYPE; Schema: public; Owner: acme
--

CREATE TYPE public.order_state AS ENUM (
    'open',
    'paid',
    'it''s "gone"'
);


ALTER TYPE public.order_state OWNER TO acme;

--
-- Name: unit; Type: TYPE; Schema: stock; Owner: acme
--

CREATE TYPE stock.unit AS ENUM (
    'piece',
    'kg'
);


ALTER TYPE stock.unit OWNER TO acme;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: customer; Type: TABLE; Schema: public; Owner: acme
--

CREATE TABLE public.customer (
    id bigint NOT NULL,
    name character varying(40) NOT NULL,
    email text,
    balance numeric(12,2) DEFAULT 0 NOT NULL,
    created timestamp with time zone DEFAULT now() NOT NULL,
    parent bigint
);


ALTER TABLE public.customer OWNER TO acme;

--
-- Name: TABLE customer; Type: COMMENT; Schema: public; Owner: acme
--

COMMENT ON TABLE public.customer IS 'who buys';


--
-- Name: COLUMN customer.name; Type: COMMENT; Schema: public; Owner: acme
--

COMMENT ON COLUMN public.customer.name IS 'it''s a name';


--
-- Name: orders; Type: TABLE; Schema: public; Owner: acme
--

CREATE TABLE public.orders (
    id integer NOT NULL,
    customer_id bigint NOT NULL,
    code character(8),
    size smallint,
    state public.order_state DEFAULT 'open'::public.order_state NOT NULL,
    placed date DEFAULT CURRENT_DATE,
    note text DEFAULT 'a ''quoted'' note'::text,
    ratio double precision DEFAULT 0.5,
    token uuid DEFAULT gen_random_uuid(),
    raw bytea,
    lasts interval DEFAULT '1 day'::interval
);


ALTER TABLE public.orders OWNER TO acme;

--
-- Name: item; Type: TABLE; Schema: stock; Owner: acme
--

CREATE TABLE stock.item (
    code character(8) NOT NULL,
    size smallint DEFAULT 1 NOT NULL,
    unit stock.unit DEFAULT 'piece'::stock.unit,
    "Odd Name" jsonb,
    tags text[] DEFAULT '{}'::text[],
    CONSTRAINT positive CHECK (((size > 0) AND (code <> ''::bpchar)))
);


ALTER TABLE stock.item OWNER TO acme;

--
-- Name: open_orders; Type: VIEW; Schema: public; Owner: acme
--

CREATE VIEW public.open_orders AS
 SELECT o.id,
    c.name,
    count(*) AS items
   FROM ((public.orders o
     JOIN public.customer c ON ((c.id = o.customer_id)))
     JOIN stock.item i USING (code, size))
  WHERE (o.state = 'open'::public.order_state)
  GROUP BY o.id, c.name;


ALTER TABLE public.open_orders OWNER TO acme;

--
-- Name: big; Type: VIEW; Schema: public; Owner: acme
--

CREATE VIEW public.big AS
 WITH t AS (
         SELECT open_orders.id,
            open_orders.name,
            open_orders.items
           FROM public.open_orders
        )
 SELECT t.id,
    t.name,
    t.items,
    ( SELECT max(customer.balance) AS max
           FROM public.customer) AS most
   FROM t
  WHERE (t.items > 1);


ALTER TABLE public.big OWNER TO acme;

--
-- Name: customer_id_seq; Type: SEQUENCE; Schema: public; Owner: acme
--

ALTER TABLE public.customer ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.customer_id_seq
    START WITH 10
    INCREMENT BY 5
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: orders_id_seq; Type: SEQUENCE; Schema: public; Owner: acme
--

CREATE SEQUENCE public.orders_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.orders_id_seq OWNER TO acme;

--
-- Name: orders_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: acme
--

ALTER SEQUENCE public.orders_id_seq OWNED BY public.orders.id;


--
-- Name: ticket; Type: SEQUENCE; Schema: public; Owner: acme
--

CREATE SEQUENCE public.ticket
    AS integer
    START WITH 100
    INCREMENT BY -5
    NO MINVALUE
    MAXVALUE 1000
    CACHE 1
    CYCLE;


ALTER TABLE public.ticket OWNER TO acme;

--
-- Name: orders id; Type: DEFAULT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.orders ALTER COLUMN id SET DEFAULT nextval('public.orders_id_seq'::regclass);


--
-- Data for Name: customer; Type: TABLE DATA; Schema: public; Owner: acme
--

COPY public.customer (id, name, email, balance, created, parent) FROM stdin;
10	Ada	ada@example.org	0.00	2026-11-21 20:13:55.244372+00	\N
15	Tab\there	\N	0.00	2026-11-21 20:13:55.244372+00	\N
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: acme
--

COPY public.orders (id, customer_id, code, size, state, placed, note, ratio, token, raw, lasts) FROM stdin;
1	10	a       	1	paid	2026-11-21	a 'quoted' note	0.5	9a0533cd-dabd-4b4b-9f6b-cb49ae5d1f22	\\x00ff	1 day
2	15	\N	\N	open	2026-11-21	a 'quoted' note	0.5	f2b08ba8-3c6b-47e9-bfbb-4a41e4dbfa71	\N	1 day
\.


--
-- Data for Name: item; Type: TABLE DATA; Schema: stock; Owner: acme
--

COPY stock.item (code, size, unit, "Odd Name", tags) FROM stdin;
a       	1	kg	{"a": [1, 2]}	{x,"y z"}
b       	2	\N	\N	\N
\.


--
-- Name: customer_id_seq; Type: SEQUENCE SET; Schema: public; Owner: acme
--

SELECT pg_catalog.setval('public.customer_id_seq', 15, true);


--
-- Name: orders_id_seq; Type: SEQUENCE SET; Schema: public; Owner: acme
--

SELECT pg_catalog.setval('public.orders_id_seq', 2, true);


--
-- Name: ticket; Type: SEQUENCE SET; Schema: public; Owner: acme
--

SELECT pg_catalog.setval('public.ticket', 95, true);


--
-- Name: customer customer_email_key; Type: CONSTRAINT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_email_key UNIQUE (email);


--
-- Name: customer customer_pkey; Type: CONSTRAINT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_pkey PRIMARY KEY (id);


--
-- Name: orders one_a_day; Type: CONSTRAINT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT one_a_day UNIQUE (customer_id, placed);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);


--
-- Name: item item_pkey; Type: CONSTRAINT; Schema: stock; Owner: acme
--

ALTER TABLE ONLY stock.item
    ADD CONSTRAINT item_pkey PRIMARY KEY (code, size);


--
-- Name: orders_by_date; Type: INDEX; Schema: public; Owner: acme
--

CREATE INDEX orders_by_date ON public.orders USING btree (placed DESC NULLS LAST, customer_id);


--
-- Name: item_tags; Type: INDEX; Schema: stock; Owner: acme
--

CREATE UNIQUE INDEX item_tags ON stock.item USING btree (unit, code);


--
-- Name: customer customer_parent_fkey; Type: FK CONSTRAINT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.customer
    ADD CONSTRAINT customer_parent_fkey FOREIGN KEY (parent) REFERENCES public.customer(id);


--
-- Name: orders of_item; Type: FK CONSTRAINT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT of_item FOREIGN KEY (code, size) REFERENCES stock.item(code, size) MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL;


--
-- Name: orders orders_customer_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: acme
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_customer_id_fkey FOREIGN KEY (customer_id) REFERENCES public.customer(id) ON DELETE CASCADE;


--
-- Name: SCHEMA stock; Type: ACL; Schema: -; Owner: acme
--

GRANT USAGE ON SCHEMA stock TO clerk;


--
-- Name: TABLE orders; Type: ACL; Schema: public; Owner: acme
--

GRANT SELECT,INSERT ON TABLE public.orders TO clerk;


--
-- Name: SEQUENCE ticket; Type: ACL; Schema: public; Owner: acme
--

GRANT USAGE ON SEQUENCE public.ticket TO PUBLIC;


--
-- PostgreSQL database dump complete
--


