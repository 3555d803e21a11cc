//! The point path from SQL text to rows, over a tenant in memory: every script under `scripts` gives what PostgreSQL 15
//! gave (`expect.py` wrote the `.out` files).

mod database;
mod ddl;
mod golden;
mod paths;
mod session;
