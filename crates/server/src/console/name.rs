//! Names of things in paths.

use serde::Deserialize;

/// The name of something, as a part of a path. To one of dots alone clients add two dots: `.` and `..` lead elsewhere, for whoever reads an address.
#[derive(Deserialize)]
#[serde(from = "String")]
pub(super) struct Name(pub(super) String);

impl From<String> for Name {
    fn from(mut text: String) -> Name {
        if text.len() > 2 && text.bytes().all(|byte| byte == b'.') {
            text.truncate(text.len() - 2);
        }
        Name(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dots_come_with_two_more() {
        for (sent, name) in [
            ("...", "."),
            ("....", ".."),
            (".....", "..."),
            (".", "."),
            ("..", ".."),
            ("a...", "a..."),
            ("", ""),
        ] {
            assert_eq!(Name::from(sent.to_owned()).0, name, "{sent}");
        }
    }
}
