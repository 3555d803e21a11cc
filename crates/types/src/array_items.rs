//! The items of an array that is being made of something else.

use base::limits::ROW_LEN_MAX;
use base::{SqlError, SqlResult, SqlState};

use crate::Datum;

/// Numbers of thousands of digits take milliseconds to make, and a single call makes all items of an array: those that take more memory than this
/// count as so many times as much, which leaves a second's or two's work.
const LONG_NUMBER_MIN: usize = 1 << 10;
const LONG_NUMBER_WEIGHT: usize = 8;

/// Items, and the memory that they take: those of `char(n)` and of numeric may take a million times the text they are read from, and
/// memory that cannot be had ends the process.
#[derive(Debug, Default)]
pub(crate) struct ArrayItems {
    items: Vec<Datum>,
    bytes: u64,
}

impl ArrayItems {
    /// Room for so many items, of which each takes some bytes of what they are made of.
    pub(crate) fn with_capacity(count: usize) -> ArrayItems {
        ArrayItems { items: Vec::with_capacity(count), bytes: 0 }
    }

    /// # Errors
    /// 54000 where all items together take more memory than a row.
    pub(crate) fn push(&mut self, item: Datum) -> SqlResult<()> {
        let heap = match item.heap_bytes() {
            long if long > LONG_NUMBER_MIN && matches!(item, Datum::Numeric(_)) => LONG_NUMBER_WEIGHT * long,
            heap => heap,
        };
        self.bytes += (size_of::<Datum>() + heap) as u64;
        if self.bytes > ROW_LEN_MAX.0 {
            let message = format!("array takes more memory than the maximum of {ROW_LEN_MAX}");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        self.items.push(item);
        Ok(())
    }

    pub(crate) fn finish(self) -> Vec<Datum> {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Array, CastContext, ElementType, FormatContext, PgType, TypeMod, apply_typmod, cast, parse_binary,
        parse_text, write_binary,
    };

    #[test]
    fn an_array_whose_items_grow_is_refused_in_time() {
        let ctx = FormatContext::default();
        let blanks = PgType::Array(ElementType::Bpchar);
        let wide = TypeMod::length(10_485_760);
        let refused = |result: SqlResult<Datum>| {
            assert_eq!(result.unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        };
        let text = format!("{{{}a}}", "a,".repeat(10_000));
        refused(parse_text(&text, blanks, wide, &ctx));

        let letters = || Datum::array(ElementType::Text, vec![Datum::text("a"); 10_000]);
        let texts = PgType::Array(ElementType::Text);
        refused(cast(letters(), texts, blanks, wide, CastContext::Explicit, &ctx));
        let padded = Datum::Array(Box::new(Array {
            element: ElementType::Bpchar,
            items: vec![Datum::text("a"); 10_000],
        }));
        refused(apply_typmod(padded, blanks, wide, CastContext::Explicit));
        let mut bytes = Vec::new();
        write_binary(&letters(), texts, &ctx, &mut bytes);
        refused(parse_binary(&bytes, blanks, wide, &ctx));
        assert!(parse_text(&text, texts, TypeMod::NONE, &ctx).is_ok());

        let long = Datum::Numeric("1e131071".parse().unwrap());
        let mut items = ArrayItems::default();
        let pushed = (0..1_000).try_for_each(|_| items.push(long.clone()));
        refused(pushed.map(|()| Datum::Null));
        let vector = "1 ".repeat(12_000_000);
        refused(parse_text(&vector, PgType::Int2Vector, TypeMod::NONE, &ctx));
    }
}
