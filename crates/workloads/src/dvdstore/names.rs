//! Titles and actors. The suite picks from 1,000 title words, 200 first and 200 last names; these are as many, made of
//! syllables.

use crate::random::Draw;

/// Different title words.
pub(super) const TITLE_WORDS: u32 = 1_000;
/// Different first names of actors, and as many last names.
const ACTOR_NAMES: u32 = 200;

const STARTS: [&str; 20] = [
    "BAL", "CAR", "DOR", "EL", "FEN", "GIL", "HAR", "IV", "JOR", "KEL", "LOR", "MAR", "NOR", "OL", "PER",
    "RAN", "SOL", "TAR", "VER", "WIL",
];
const MIDDLES: [&str; 5] = ["A", "E", "I", "O", "U"];
const ENDS: [&str; 10] = ["BERT", "DA", "FRED", "LA", "MAN", "NA", "RIC", "SON", "TON", "VIN"];

/// The title word of a number below [`TITLE_WORDS`].
fn title_word(number: u32) -> String {
    let (start, rest) = (number / 50, number % 50);
    format!("{}{}{}", STARTS[start as usize], MIDDLES[(rest / 10) as usize], ENDS[(rest % 10) as usize])
}

fn actor_name(number: u32, middle: &str) -> String {
    format!("{}{middle}{}", STARTS[(number / 10) as usize], ENDS[(number % 10) as usize])
}

/// The title of two words by their numbers.
fn title_of(first: u32, second: u32) -> String {
    format!("{} {}", title_word(first), title_word(second))
}

/// A product's title: the first million of them differ.
pub(super) fn title(product: u32) -> String {
    let number = product - 1;
    title_of(number / TITLE_WORDS % TITLE_WORDS, number % TITLE_WORDS)
}

/// What somebody looks for: any two words, so that in a small store there is seldom such a title.
pub(super) fn any_title(random: &mut impl Draw) -> String {
    title_of(random.uniform(0, TITLE_WORDS - 1), random.uniform(0, TITLE_WORDS - 1))
}

/// One of 40,000 actors.
pub(super) fn any_actor(random: &mut impl Draw) -> String {
    let (first, last) = (random.uniform(0, ACTOR_NAMES - 1), random.uniform(0, ACTOR_NAMES - 1));
    format!("{} {}", actor_name(first, ""), actor_name(last, "O"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_as_many_names_as_the_suite_has() {
        let words: BTreeSet<String> = (0..TITLE_WORDS).map(title_word).collect();
        assert_eq!(words.len(), 1_000);
        for middle in ["", "O"] {
            let names: BTreeSet<String> = (0..ACTOR_NAMES).map(|n| actor_name(n, middle)).collect();
            assert_eq!(names.len(), 200);
        }
        let titles: BTreeSet<String> = (1..=3_000).map(title).collect();
        assert_eq!(titles.len(), 3_000);
        assert!(titles.iter().all(|title| title.len() <= 50));
    }
}
