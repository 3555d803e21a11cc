//! The names of constraints, indexes and sequences that nobody gave one, as PostgreSQL makes them.

use base::limits::IDENTIFIER_LEN_MAX;

/// `table_columns_label`, with the smallest number behind it that makes it new. What is too long loses letters of its table or of its
/// columns, whichever is longer, and never of the label and number.
#[derive(Clone, Copy, Debug)]
pub struct MadeUpName<'a> {
    pub table: &'a str,
    /// Empty for none.
    pub columns: &'a [&'a str],
    /// `pkey`, `key`, `fkey`, `check`, `idx`, `seq`
    pub label: &'a str,
}

impl MadeUpName<'_> {
    /// The first of its forms that is not `taken`.
    pub(crate) fn free(&self, taken: impl Fn(&str) -> bool) -> String {
        let columns = self.columns.join("_");
        let free = |name: &String| !taken(name);
        let first = self.numbered(&columns, "");
        if free(&first) {
            return first;
        }
        let numbered = |n: u64| self.numbered(&columns, &n.to_string());
        (1..).map(numbered).find(free).expect("names do not run out")
    }

    fn numbered(&self, columns: &str, number: &str) -> String {
        let joined = usize::from(!columns.is_empty());
        let room = IDENTIFIER_LEN_MAX - self.label.len() - number.len() - 1 - joined;
        let (mut table_len, mut columns_len) = (self.table.len(), columns.len());
        let too_long = (table_len + columns_len).saturating_sub(room);
        // The longer one gives until they are alike, then each in turn, the columns first.
        let from_longer = too_long.min(table_len.abs_diff(columns_len));
        *if table_len > columns_len { &mut table_len } else { &mut columns_len } -= from_longer;
        let from_both = too_long - from_longer;
        table_len -= from_both / 2;
        columns_len -= from_both - from_both / 2;
        let table = &self.table[..self.table.floor_char_boundary(table_len)];
        let columns = &columns[..columns.floor_char_boundary(columns_len)];
        let underscore = &"_"[..joined];
        format!("{table}{underscore}{columns}_{}{number}", self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first name, and the one after so many others.
    #[track_caller]
    fn check(table: &str, columns: &[&str], label: &str, first: &str, others: usize, after_them: &str) {
        let name = MadeUpName { table, columns, label };
        assert_eq!(name.free(|_| false), first);
        let asked = std::cell::Cell::new(0);
        let taken = |_: &str| {
            asked.set(asked.get() + 1);
            asked.get() <= others
        };
        assert_eq!(name.free(taken), after_them);
    }

    #[test]
    fn long_names_lose_letters_of_their_longer_part() {
        let (a, b, c) = ("a".repeat(63), "b".repeat(63), "c".repeat(40));
        let some = |c: &str, n: usize| c.repeat(n);
        check("t", &[], "pkey", "t_pkey", 1, "t_pkey1");
        check("t", &["a", "b"], "key", "t_a_b_key", 2, "t_a_b_key2");
        check(&a, &[], "pkey", &format!("{}_pkey", some("a", 58)), 10, &format!("{}_pkey10", some("a", 56)));
        check(
            &a,
            &["v"],
            "seq",
            &format!("{}_v_seq", some("a", 57)),
            1,
            &format!("{}_v_seq1", some("a", 56)),
        );
        check(
            "t",
            &[&b],
            "idx",
            &format!("t_{}_idx", some("b", 57)),
            1,
            &format!("t_{}_idx1", some("b", 56)),
        );
        check(
            &a,
            &[&b, "x"],
            "key",
            &format!("{}_{}_key", some("a", 29), some("b", 29)),
            1,
            &format!("{}_{}_key1", some("a", 29), some("b", 28)),
        );
        check(&c, &["d", "e"], "fkey", &format!("{c}_d_e_fkey"), 0, &format!("{c}_d_e_fkey"));
    }

    #[test]
    fn no_letter_is_cut_in_two() {
        let (long, short) = ("é".repeat(31), "é".repeat(5));
        check(
            &long,
            &[],
            "pkey",
            &format!("{}_pkey", "é".repeat(29)),
            1,
            &format!("{}_pkey1", "é".repeat(28)),
        );
        check(
            &long,
            &[&short],
            "idx",
            &format!("{}_{short}_idx", "é".repeat(24)),
            1,
            &format!("{}_{short}_idx1", "é".repeat(23)),
        );
    }
}
