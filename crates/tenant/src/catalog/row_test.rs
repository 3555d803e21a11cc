//! Conditions on the columns of one row that are told from the row alone: what a partial index has its entries by.
//!
//! They are evaluated here, by everyone who writes, builds, replays or checks an index, so nothing of a statement, a session or a clock has a
//! part in them. The layer above makes them of SQL, and SQL of them: there is no text beside them, so a renamed column or label needs no change.

use std::cmp::Ordering;

use base::SqlResult;
use types::Datum;

use super::codec::{Decode, Encode, Malformed};

/// Levels of NOT, AND and OR within each other, at most.
pub const ROW_TEST_DEPTH_MAX: usize = 64;

/// A condition on a row. Columns are positions in the table; constants are of their columns' families, and none is NULL.
#[derive(Clone, PartialEq, Debug)]
pub enum RowTest {
    /// A boolean column is true.
    True(usize),
    /// A column has no value; negated: it has one.
    IsNull {
        column: usize,
        negated: bool,
    },
    /// A boolean column is `wanted`; negated: it is not, or has no value.
    IsBool {
        column: usize,
        wanted: bool,
        negated: bool,
    },
    Compare {
        column: usize,
        comparison: Comparison,
        blanks: Blanks,
        constant: Datum,
    },
    /// A column has one of several values.
    OneOf {
        column: usize,
        blanks: Blanks,
        constants: Vec<Datum>,
    },
    Not(Box<RowTest>),
    And(Vec<RowTest>),
    Or(Vec<RowTest>),
}

/// How a value stands to a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Whether blanks at the end of texts count in a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blanks {
    Count,
    /// As of `char(n)`.
    Ignored,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Blanks {
    fn compare(self, a: &Datum, b: &Datum) -> Ordering {
        if self == Blanks::Ignored
            && let (Datum::Text(a), Datum::Text(b)) = (a, b)
        {
            return a.trim_end_matches(' ').as_bytes().cmp(b.trim_end_matches(' ').as_bytes());
        }
        types::compare(a, b)
    }
}

impl RowTest {
    /// Whether it is true of the row whose columns `value` tells; `None` where that is unknown, for a NULL.
    ///
    /// Errors: those of `value`.
    pub fn holds(&self, value: &mut dyn FnMut(usize) -> SqlResult<Datum>) -> SqlResult<Option<bool>> {
        Ok(match self {
            RowTest::True(column) => match value(*column)? {
                Datum::Bool(is) => Some(is),
                _ => None,
            },
            RowTest::IsNull { column, negated } => Some(value(*column)?.is_null() != *negated),
            RowTest::IsBool { column, wanted, negated } => {
                Some((value(*column)? == Datum::Bool(*wanted)) != *negated)
            }
            RowTest::Compare { column, comparison, blanks, constant } => {
                let own = value(*column)?;
                (!own.is_null()).then(|| comparison.holds(blanks.compare(&own, constant)))
            }
            RowTest::OneOf { column, blanks, constants } => {
                let own = value(*column)?;
                let is_own = |constant: &Datum| blanks.compare(&own, constant).is_eq();
                (!own.is_null()).then(|| constants.iter().any(is_own))
            }
            RowTest::Not(inner) => inner.holds(value)?.map(|holds| !holds),
            RowTest::And(parts) => RowTest::joined(parts, true, value)?,
            RowTest::Or(parts) => RowTest::joined(parts, false, value)?,
        })
    }

    /// AND of the parts, or OR: `usual` unless a part says otherwise, or one is unknown.
    fn joined(
        parts: &[RowTest],
        usual: bool,
        value: &mut dyn FnMut(usize) -> SqlResult<Datum>,
    ) -> SqlResult<Option<bool>> {
        let mut joined = Some(usual);
        for part in parts {
            match part.holds(value)? {
                Some(holds) if holds == usual => {}
                Some(holds) => return Ok(Some(holds)),
                None => joined = None,
            }
        }
        Ok(joined)
    }

    /// The conditions that are all to be true; itself where it is one.
    pub fn conjuncts(&self) -> &[RowTest] {
        match self {
            RowTest::And(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether it says something of this column.
    pub fn names(&self, column: usize) -> bool {
        let mut found = false;
        self.for_each_column(&mut |named| found |= named == column);
        found
    }

    /// Calls `each` with the columns that it names, with one named twice as often.
    pub fn for_each_column(&self, each: &mut dyn FnMut(usize)) {
        match self {
            RowTest::True(column)
            | RowTest::IsNull { column, .. }
            | RowTest::IsBool { column, .. }
            | RowTest::Compare { column, .. }
            | RowTest::OneOf { column, .. } => each(*column),
            RowTest::Not(inner) => inner.for_each_column(each),
            RowTest::And(parts) | RowTest::Or(parts) => {
                parts.iter().for_each(|part| part.for_each_column(each));
            }
        }
    }

    /// The same of a table where the columns stand at other positions.
    #[must_use]
    pub fn moved(&self, to: &dyn Fn(usize) -> usize) -> RowTest {
        let mut moved = self.clone();
        moved.move_columns(to);
        moved
    }

    fn move_columns(&mut self, to: &dyn Fn(usize) -> usize) {
        match self {
            RowTest::True(column)
            | RowTest::IsNull { column, .. }
            | RowTest::IsBool { column, .. }
            | RowTest::Compare { column, .. }
            | RowTest::OneOf { column, .. } => *column = to(*column),
            RowTest::Not(inner) => inner.move_columns(to),
            RowTest::And(parts) | RowTest::Or(parts) => {
                parts.iter_mut().for_each(|part| part.move_columns(to));
            }
        }
    }

    /// Bytes that it takes in memory, by estimate.
    pub(super) fn memory(&self) -> usize {
        let below = match self {
            RowTest::True(_) | RowTest::IsNull { .. } | RowTest::IsBool { .. } => 0,
            RowTest::Compare { constant, .. } => constant.heap_bytes(),
            RowTest::OneOf { constants, .. } => types::row_memory(constants),
            RowTest::Not(inner) => inner.memory(),
            RowTest::And(parts) | RowTest::Or(parts) => parts.iter().map(RowTest::memory).sum(),
        };
        size_of::<RowTest>() + below
    }
}

const TAG_TRUE: u8 = 1;
const TAG_NULL: u8 = 2;
const TAG_BOOL: u8 = 3;
const TAG_COMPARE: u8 = 4;
const TAG_ONE_OF: u8 = 5;
const TAG_NOT: u8 = 6;
const TAG_AND: u8 = 7;
const TAG_OR: u8 = 8;

impl Encode for RowTest {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            RowTest::True(column) => (TAG_TRUE, *column).encode(out),
            RowTest::IsNull { column, negated } => ((TAG_NULL, *column), *negated).encode(out),
            RowTest::IsBool { column, wanted, negated } => {
                ((TAG_BOOL, *column), (*wanted, *negated)).encode(out);
            }
            RowTest::Compare { column, comparison, blanks, constant } => {
                ((TAG_COMPARE, *column), (*comparison, *blanks)).encode(out);
                constant.encode(out);
            }
            RowTest::OneOf { column, blanks, constants } => {
                ((TAG_ONE_OF, *column), *blanks).encode(out);
                constants.encode(out);
            }
            RowTest::Not(inner) => {
                out.push(TAG_NOT);
                inner.encode(out);
            }
            RowTest::And(parts) => {
                out.push(TAG_AND);
                parts.encode(out);
            }
            RowTest::Or(parts) => {
                out.push(TAG_OR);
                parts.encode(out);
            }
        }
    }
}

impl Decode for RowTest {
    fn decode(input: &mut &[u8]) -> Result<RowTest, Malformed> {
        decode_within(input, ROW_TEST_DEPTH_MAX)
    }
}

/// One that has no more than `depth` levels below its own.
fn decode_within(input: &mut &[u8], depth: usize) -> Result<RowTest, Malformed> {
    let below = || depth.checked_sub(1).ok_or(Malformed("condition is too deep"));
    Ok(match u8::decode(input)? {
        TAG_TRUE => RowTest::True(usize::decode(input)?),
        TAG_NULL => {
            let (column, negated) = Decode::decode(input)?;
            RowTest::IsNull { column, negated }
        }
        TAG_BOOL => {
            let (column, (wanted, negated)) = Decode::decode(input)?;
            RowTest::IsBool { column, wanted, negated }
        }
        TAG_COMPARE => {
            let (column, (comparison, blanks)) = Decode::decode(input)?;
            RowTest::Compare { column, comparison, blanks, constant: Datum::decode(input)? }
        }
        TAG_ONE_OF => {
            let (column, blanks) = Decode::decode(input)?;
            RowTest::OneOf { column, blanks, constants: Vec::decode(input)? }
        }
        TAG_NOT => RowTest::Not(Box::new(decode_within(input, below()?)?)),
        TAG_AND => RowTest::And(decode_parts(input, below()?)?),
        TAG_OR => RowTest::Or(decode_parts(input, below()?)?),
        _ => return Err(Malformed("unknown condition")),
    })
}

fn decode_parts(input: &mut &[u8], depth: usize) -> Result<Vec<RowTest>, Malformed> {
    let len = usize::decode(input)?;
    if len > input.len() {
        return Err(Malformed("list is longer than its record"));
    }
    (0..len).map(|_| decode_within(input, depth)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(column: usize, comparison: Comparison, constant: Datum) -> RowTest {
        RowTest::Compare { column, comparison, blanks: Blanks::Count, constant }
    }

    fn holds(test: &RowTest, row: &[Datum]) -> Option<bool> {
        test.holds(&mut |column| Ok(row[column].clone())).expect("nothing fails")
    }

    #[test]
    fn three_valued_as_sql_has_it() {
        let more = compare(0, Comparison::Greater, Datum::Int4(3));
        let is = RowTest::True(1);
        let row = |n: Option<i64>, is: Option<bool>| {
            [n.map_or(Datum::Null, Datum::Int8), is.map_or(Datum::Null, Datum::Bool)]
        };
        assert_eq!(holds(&more, &row(Some(4), None)), Some(true), "of another width");
        assert_eq!(holds(&more, &row(Some(3), None)), Some(false));
        assert_eq!(holds(&more, &row(None, None)), None);
        let both = RowTest::And(vec![more.clone(), is.clone()]);
        assert_eq!(holds(&both, &row(None, Some(false))), Some(false));
        assert_eq!(holds(&both, &row(None, Some(true))), None);
        let either = RowTest::Or(vec![more.clone(), is]);
        assert_eq!(holds(&either, &row(None, Some(true))), Some(true));
        assert_eq!(holds(&either, &row(Some(1), None)), None);
        assert_eq!(holds(&RowTest::Not(Box::new(more)), &row(None, None)), None);
        let is_not = RowTest::IsBool { column: 1, wanted: true, negated: true };
        assert_eq!(holds(&is_not, &row(None, None)), Some(true));
        assert_eq!(holds(&RowTest::IsNull { column: 0, negated: true }, &row(None, None)), Some(false));
    }

    #[test]
    fn blanks_at_the_end_count_where_they_are_said_to() {
        for (blanks, expected) in [(Blanks::Count, false), (Blanks::Ignored, true)] {
            let constants = vec![Datum::text("a"), Datum::text("b")];
            let test = RowTest::OneOf { column: 0, blanks, constants };
            assert_eq!(holds(&test, &[Datum::text("b  ")]), Some(expected));
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_not_deeper_than_it_may_be() {
        let every = RowTest::And(vec![
            RowTest::True(0),
            RowTest::IsNull { column: 1, negated: true },
            RowTest::IsBool { column: 2, wanted: false, negated: true },
            RowTest::Or(vec![
                compare(3, Comparison::LessOrEqual, Datum::text("x")),
                RowTest::Not(Box::new(RowTest::OneOf {
                    column: 4,
                    blanks: Blanks::Ignored,
                    constants: vec![Datum::Int2(7), Datum::Int8(8)],
                })),
            ]),
        ]);
        let mut bytes = Vec::new();
        every.encode(&mut bytes);
        let mut input = &bytes[..];
        assert_eq!(RowTest::decode(&mut input), Ok(every.clone()));
        assert!(input.is_empty());
        let moved = every.moved(&|column| column + 10);
        assert!((0..5).all(|column| moved.names(column + 10) && !moved.names(column)));

        let nested = |depth: usize| {
            let mut bytes = vec![TAG_NOT; depth];
            RowTest::True(0).encode(&mut bytes);
            RowTest::decode(&mut &bytes[..]).is_ok()
        };
        assert!(nested(ROW_TEST_DEPTH_MAX) && !nested(ROW_TEST_DEPTH_MAX + 1));
        assert_eq!(RowTest::decode(&mut &[9][..]), Err(Malformed("unknown condition")));
    }
}
