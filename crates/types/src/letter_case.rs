//! Upper and lower case, as the C library has them whose words are as long as before: a character whose other case is several stays as it is.
//!
//! Keys of indexes are made by this.

fn one_char(mut cases: impl Iterator<Item = char>, c: char) -> char {
    match (cases.next(), cases.next()) {
        (Some(other), None) => other,
        _ => c,
    }
}

/// The lower case of a character.
pub fn lower_char(c: char) -> char {
    if c == 'İ' { 'i' } else { one_char(c.to_lowercase(), c) }
}

/// The upper case of a character.
pub fn upper_char(c: char) -> char {
    one_char(c.to_uppercase(), c)
}

/// `lower` of SQL.
pub fn lower(text: &str) -> String {
    text.chars().map(lower_char).collect()
}

/// `upper` of SQL.
pub fn upper(text: &str) -> String {
    text.chars().map(upper_char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_as_long_as_they_are() {
        assert_eq!((lower("ÄbC İ"), upper("straße ﬁ")), ("äbc i".to_owned(), "STRAßE ﬁ".to_owned()));
    }
}
