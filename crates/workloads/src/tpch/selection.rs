//! Which of the queries run.

use std::fmt;
use std::str::FromStr;

use super::QUERIES;

/// Some of the queries, or all; never none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Query `n` is `n - 1` here.
    has: [bool; QUERIES],
}

impl Default for Selection {
    /// All.
    fn default() -> Selection {
        Selection { has: [true; QUERIES] }
    }
}

impl Selection {
    pub fn contains(&self, number: usize) -> bool {
        (1..=QUERIES).contains(&number) && self.has[number - 1]
    }

    /// The numbers of the queries, from 1 on, in their order.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        (1..=QUERIES).filter(|number| self.contains(*number))
    }
}

impl FromStr for Selection {
    type Err = String;

    /// Numbers and ranges with commas between them, as in `1,3,5-8`.
    fn from_str(text: &str) -> Result<Selection, String> {
        let number = |text: &str| {
            let number = text.trim().parse().ok().filter(|number| (1..=QUERIES).contains(number));
            number.ok_or_else(|| format!("\"{text}\" is no query from 1 to {QUERIES}"))
        };
        let mut has = [false; QUERIES];
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("\"{part}\" is no range"));
            }
            has[first - 1..last].fill(true);
        }
        Ok(Selection { has })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers().map(|number| number.to_string()).collect();
        f.write_str(&numbers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_read_as_it_is_printed() {
        let some: Selection = "1, 20-22,3".parse().expect("a selection");
        assert_eq!(some.to_string(), "1,3,20,21,22");
        assert_eq!(some.to_string().parse(), Ok(some));
        assert_eq!("1-22".parse(), Ok(Selection::default()));
        assert!(some.contains(20) && !some.contains(2) && !some.contains(0) && !some.contains(23));
        for wrong in ["", "0", "23", "5-3", "1,,2", "all"] {
            assert!(wrong.parse::<Selection>().is_err(), "{wrong}");
        }
    }
}
