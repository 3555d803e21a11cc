"""SQLAlchemy 2 against a server: `create_all`, the ORM, and reflection that gives back what was created.

Its one argument is the URL of an empty database.
"""

import datetime as dt
import decimal
import enum
import sys
import uuid

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

URL = sys.argv[1].replace("postgres://", "postgresql+psycopg://")


class Base(orm.DeclarativeBase):
    pass


class State(enum.Enum):
    open = "open"
    paid = "paid"


class Customer(Base):
    __tablename__ = "customer"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(always=True), primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40), index=True)
    email: orm.Mapped[str | None] = orm.mapped_column(sa.Text, unique=True)
    balance: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(12, 2), server_default="0")
    created: orm.Mapped[dt.datetime] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    token: orm.Mapped[uuid.UUID | None]
    active: orm.Mapped[bool] = orm.mapped_column(default=True)
    profile: orm.Mapped[dict | None] = orm.mapped_column(pg.JSONB)
    tags: orm.Mapped[list | None] = orm.mapped_column(pg.ARRAY(sa.Text))
    orders: orm.Mapped[list["Order"]] = orm.relationship(back_populates="customer", cascade="all, delete-orphan")


class Order(Base):
    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    customer_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("customer.id", ondelete="CASCADE"))
    state: orm.Mapped[State] = orm.mapped_column(sa.Enum(State, name="order_state"))
    placed: orm.Mapped[dt.date]
    total: orm.Mapped[float] = orm.mapped_column(sa.Double)
    customer: orm.Mapped[Customer] = orm.relationship(back_populates="orders")
    lines: orm.Mapped[list["Line"]] = orm.relationship(cascade="all")
    __table_args__ = (
        sa.UniqueConstraint("customer_id", "placed", "state", name="one_order_a_day"),
        sa.CheckConstraint("total >= 0", name="total_not_negative"),
        sa.Index("orders_by_date", sa.text("placed DESC"), "customer_id"),
    )


class Line(Base):
    __tablename__ = "line"
    order_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("orders.id"), primary_key=True)
    number: orm.Mapped[int] = orm.mapped_column(sa.SmallInteger, primary_key=True, autoincrement=False)
    item: orm.Mapped[str] = orm.mapped_column(sa.CHAR(4))
    raw: orm.Mapped[bytes | None]
    at: orm.Mapped[dt.time | None]
    lasts: orm.Mapped[dt.timedelta | None]


def created(engine):
    Base.metadata.create_all(engine)
    # Nothing is missing the second time.
    Base.metadata.create_all(engine)


def used(engine):
    token = uuid.uuid4()
    with orm.Session(engine) as session:
        ada = Customer(name="Ada", email="ada@example.org", token=token, profile={"a": [1, None]}, tags=["x", "y,z"])
        ada.orders = [
            Order(
                state=State.open,
                placed=dt.date(2024, 2, n),
                total=n / 2,
                lines=[Line(number=m, item=f"i{m}", raw=b"\x00\xff", at=dt.time(12, m), lasts=dt.timedelta(hours=m)) for m in (1, 2)],
            )
            for n in range(1, 5)
        ]
        session.add_all([ada, Customer(name="Grace"), Customer(name="Edsger", email="e@example.org")])
        session.commit()
        assert ada.id is not None and ada.balance == 0 and ada.created.tzinfo is not None
    with orm.Session(engine) as session:
        ada = session.scalars(sa.select(Customer).where(Customer.name == "Ada")).one()
        assert ada.token == token and ada.profile == {"a": [1, None]} and ada.tags == ["x", "y,z"]
        assert [order.total for order in sorted(ada.orders, key=lambda order: order.placed)] == [0.5, 1.0, 1.5, 2.0]
        assert ada.orders[0].lines[0].item.strip() == "i1" and ada.orders[0].lines[0].raw == b"\x00\xff"
        totals = session.execute(
            sa.select(Customer.name, sa.func.count(Order.id), sa.func.coalesce(sa.func.sum(Order.total), 0))
            .outerjoin(Order)
            .group_by(Customer.name)
            .order_by(Customer.name)
        ).all()
        assert [tuple(row) for row in totals] == [("Ada", 4, 5.0), ("Edsger", 0, 0.0), ("Grace", 0, 0.0)], totals
        ranked = session.execute(
            sa.select(Order.id, sa.func.rank().over(order_by=Order.total.desc())).order_by(sa.text("2")).limit(2)
        ).all()
        assert [row[1] for row in ranked] == [1, 2]
        ada.orders[0].state = State.paid
        ada.balance += decimal.Decimal("10.25")
        session.commit()
        assert session.scalars(sa.select(Order).where(Order.state == State.paid)).one().customer.balance == decimal.Decimal("10.25")
        loaded = session.scalars(
            sa.select(Customer).options(orm.selectinload(Customer.orders).selectinload(Order.lines)).order_by(Customer.id)
        ).all()
        assert [len(customer.orders) for customer in loaded] == [4, 0, 0]
        joined = session.scalars(sa.select(Customer).options(orm.joinedload(Customer.orders))).unique().all()
        assert sum(len(customer.orders) for customer in joined) == 4
        upsert = pg.insert(Customer).values(name="Ada again", email="ada@example.org", active=False)
        upsert = upsert.on_conflict_do_update(index_elements=["email"], set_={"name": upsert.excluded.name})
        session.execute(upsert)
        session.commit()
        assert session.scalars(sa.select(Customer.name).where(Customer.email == "ada@example.org")).one() == "Ada again"
        try:
            session.add(Customer(name="twice", email="ada@example.org"))
            session.commit()
            raise AssertionError("a duplicate passed")
        except sa.exc.IntegrityError as error:
            assert error.orig.sqlstate == "23505"
            session.rollback()
        locked = session.scalars(sa.select(Customer).where(Customer.id == ada.id).with_for_update()).one()
        session.delete(session.get(Order, locked.orders[0].id))
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Line)) == 6
        assert session.execute(sa.delete(Customer).where(Customer.name == "Grace")).rowcount == 1
        session.commit()


def reflected(engine):
    inspector = sa.inspect(engine)
    assert inspector.default_schema_name == "public"
    assert {"public", "information_schema"} <= set(inspector.get_schema_names())
    assert set(inspector.get_table_names()) == {"customer", "orders", "line"}
    assert inspector.has_table("orders") and not inspector.has_table("nothing")
    assert inspector.get_pk_constraint("line") == {
        "constrained_columns": ["order_id", "number"], "name": "line_pkey", "comment": None
    }, inspector.get_pk_constraint("line")
    (key,) = inspector.get_foreign_keys("orders")
    assert key["constrained_columns"] == ["customer_id"] and key["referred_table"] == "customer"
    assert key["referred_columns"] == ["id"] and key["options"] == {"ondelete": "CASCADE"}, key
    (unique,) = inspector.get_unique_constraints("orders")
    assert (unique["name"], unique["column_names"]) == ("one_order_a_day", ["customer_id", "placed", "state"]), unique
    (check,) = inspector.get_check_constraints("orders")
    assert check["name"] == "total_not_negative" and "total >= 0" in check["sqltext"], check
    indexes = {index["name"]: index for index in inspector.get_indexes("orders")}
    assert indexes["orders_by_date"]["column_names"] == ["placed", "customer_id"], indexes
    assert indexes["orders_by_date"]["column_sorting"] == {"placed": ("desc",)}, indexes
    assert indexes["one_order_a_day"]["unique"], indexes
    names = {index["name"] for index in inspector.get_indexes("customer")}
    assert names == {"ix_customer_name", "customer_email_key"}, names
    (found,) = inspector.get_enums()
    assert (found["name"], found["labels"]) == ("order_state", ["open", "paid"]), found
    assert "orders_id_seq" in inspector.get_sequence_names()
    columns = {column["name"]: column for column in inspector.get_columns("customer")}
    assert columns["id"]["identity"]["always"] and columns["id"]["identity"]["start"] == 1, columns["id"]
    assert columns["created"]["default"] == "now()" and columns["balance"]["default"] in ("0", "'0'::numeric"), columns

    again = sa.MetaData()
    again.reflect(engine)
    assert set(again.tables) == set(Base.metadata.tables)
    for name, table in Base.metadata.tables.items():
        twin = again.tables[name]
        assert [c.name for c in twin.columns] == [c.name for c in table.columns]
        for mine, theirs in zip(table.columns, twin.columns):
            compiled = [c.type.compile(dialect=engine.dialect) for c in (mine, theirs)]
            assert compiled[0] == compiled[1], (name, mine.name, compiled)
            assert mine.nullable == theirs.nullable, (name, mine.name)
            assert mine.primary_key == theirs.primary_key, (name, mine.name)
        assert {f.target_fullname for f in twin.foreign_keys} == {f.target_fullname for f in table.foreign_keys}

    with engine.begin() as connection:
        connection.execute(sa.text("CREATE VIEW open_orders AS SELECT id, total FROM orders WHERE total > 0"))
        connection.execute(sa.text("CREATE SCHEMA other"))
        connection.execute(sa.text("CREATE TABLE other.t (a int PRIMARY KEY, b int REFERENCES public.orders(id))"))
    inspector = sa.inspect(engine)
    assert inspector.get_view_names() == ["open_orders"]
    assert "total" in inspector.get_view_definition("open_orders")
    assert inspector.get_table_names(schema="other") == ["t"]
    assert inspector.get_foreign_keys("t", schema="other")[0]["referred_table"] == "orders"

    # The reflected schema can be dropped and made again by what was reflected.
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA other CASCADE"))
        connection.execute(sa.text("DROP VIEW open_orders"))
    again.drop_all(engine)
    assert sa.inspect(engine).get_table_names() == []


def main():
    engine = sa.create_engine(URL)
    created(engine)
    used(engine)
    reflected(engine)
    engine.dispose()


main()
