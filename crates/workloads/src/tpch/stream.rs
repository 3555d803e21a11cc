//! A stream: all queries, or those selected, one after the other, and again.

use rand::rngs::SmallRng;

use super::parameters::Parameters;
use super::{QUERIES, Selection, queries};
use crate::Result;
use crate::connection::Connection;
use crate::load::{Outcome, Transactor};
use crate::random::Draw as _;

/// Names of the kinds.
pub(super) const KINDS: [&str; QUERIES] = [
    "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15", "Q16",
    "Q17", "Q18", "Q19", "Q20", "Q21", "Q22",
];

/// The order of the power test (appendix A).
const POWER: [u32; QUERIES] = [14, 2, 9, 20, 6, 17, 18, 8, 21, 13, 3, 22, 16, 4, 11, 15, 1, 10, 19, 5, 7, 12];

/// A client that runs a stream.
pub struct Stream {
    connection: Connection,
    parameters: Parameters,
    queries: Selection,
    /// Draws the order of the queries; `None` for that of the power test.
    order: Option<SmallRng>,
    /// Numbers of the queries still to run in this round, the next one last.
    left: Vec<u32>,
    /// The query that was chosen, so that a retry asks for the same again.
    text: String,
}

impl Stream {
    pub(super) fn new(
        connection: Connection,
        parameters: Parameters,
        queries: Selection,
        order: Option<SmallRng>,
    ) -> Stream {
        Stream { connection, parameters, queries, order, left: Vec::new(), text: String::new() }
    }
}

impl Transactor for Stream {
    fn choose(&mut self) -> usize {
        if self.left.is_empty() {
            self.left = match &mut self.order {
                Some(rng) => rng.permutation(QUERIES as u32),
                None => POWER.into_iter().rev().collect(),
            };
            self.left.retain(|number| self.queries.contains(*number as usize));
        }
        let number = self.left.pop().expect("a selection has a query") as usize;
        self.text = queries::text(number, &mut self.parameters);
        number - 1
    }

    async fn run(&mut self, _kind: usize) -> Result<Outcome> {
        self.connection.run_text(&self.text).await?;
        Ok(Outcome::Committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_test_has_every_query_once() {
        let mut numbers = POWER;
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=QUERIES as u32));
    }
}
