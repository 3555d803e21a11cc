//! TPC-C by wire: schema and population (specification 5.11, clauses 1 and 4), the five transactions and their mix (clause
//! 2 and 5.2.3), the twelve consistency conditions (3.3.2). No think time unless asked for; terminals have a home warehouse.
//!
//! A reduced population is allowed and is printed with every result; it is then not comparable with published figures.

mod check;
mod input;
mod population;
mod random;
mod scale;
mod schema;
mod statements;
mod transaction;
mod workload;

pub use scale::Scale;
pub use transaction::Terminal;
pub use workload::Tpcc;
