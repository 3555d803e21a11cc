//! The parameters behind the question mark of a request's address.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::answer::{Answer, Refusal};

/// `name=value` pairs in order. Of a name that comes twice the first counts.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<Pair>);

#[derive(Debug)]
struct Pair {
    name: String,
    value: String,
    /// As it came.
    encoded: String,
}

impl Query {
    fn parse(text: &str) -> Option<Query> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some(Pair { name: decoded(name)?, value: decoded(value)?, encoded: value.to_owned() })
        };
        text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect::<Option<_>>().map(Query)
    }

    /// A value; `None` if it is not there or empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.pair(name).map(|pair| pair.value.as_str()).filter(|value| !value.is_empty())
    }

    fn pair(&self, name: &str) -> Option<&Pair> {
        self.0.iter().find(|pair| pair.name == name)
    }

    /// A value that is to be a number, `true` or the like.
    ///
    /// # Errors
    /// 400 if it is something else.
    pub(super) fn value<T: FromStr>(&self, name: &str) -> Answer<Option<T>> {
        let bad = |text: &str| Refusal::bad_input(format!("\"{text}\" is no value for \"{name}\""));
        self.text(name).map(|text| text.parse().map_err(|_| bad(text))).transpose()
    }

    /// A number up to `max`, `default` if it is not there.
    ///
    /// # Errors
    /// 400 if it is something else.
    pub(super) fn number(&self, name: &str, default: usize, max: usize) -> Answer<usize> {
        let number = self.value(name)?.unwrap_or(default);
        if number > max {
            return Err(Refusal::bad_input(format!("\"{name}\" is {max} at most")));
        }
        Ok(number)
    }

    /// One of these.
    ///
    /// # Errors
    /// 400 if it is something else.
    pub(super) fn one_of<T: Copy>(&self, name: &str, all: &[(&str, T)]) -> Answer<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = all.iter().find(|(one, _)| *one == text).map(|(_, value)| *value);
        let names = || all.iter().map(|(one, _)| *one).collect::<Vec<_>>().join(", ");
        found.map(Some).ok_or_else(|| Refusal::bad_input(format!("\"{name}\" is one of: {}", names())))
    }

    /// The values of a list, separated by commas that are not encoded: those that are belong to a value.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let encoded = self.pair(name).map_or("", |pair| &pair.encoded);
        encoded.split(',').filter(|one| !one.is_empty()).filter_map(decoded).collect()
    }
}

/// `%41` and `+` undone; `None` if that is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(16 * high + low).expect("two digits")
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Answer<Query> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        query.ok_or_else(|| Refusal::bad_input("the address has a badly encoded parameter"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let query = Query::parse("a=1&b=caf%C3%A9+%26%3D%2B&c&d=&a=2&l=x,,y&m=a%2Cb,%25,caf%C3%A9")
            .expect("well-formed");
        assert_eq!(query.text("a"), Some("1"));
        assert_eq!(query.text("b"), Some("café &=+"));
        assert_eq!((query.text("c"), query.text("d"), query.text("e")), (None, None, None));
        assert_eq!(query.list("l"), ["x", "y"]);
        assert_eq!(query.list("m"), ["a,b", "%", "café"]);
        assert!(query.list("d").is_empty() && query.list("e").is_empty());
        assert_eq!(query.value::<u64>("a").unwrap(), Some(1));
        assert!(query.value::<u64>("b").is_err());
        assert!(query.number("a", 5, 0).is_err());
        assert_eq!(query.number("n", 5, 9).unwrap(), 5);
        assert_eq!(query.one_of("a", &[("0", false), ("1", true)]).unwrap(), Some(true));
        assert!(query.one_of("a", &[("0", false)]).is_err());
    }

    #[test]
    fn what_is_badly_encoded_is_refused() {
        for bad in ["a=%", "a=%4", "a=%zz", "a=%ff", "%=1", "a=%+1"] {
            assert!(Query::parse(bad).is_none(), "{bad}");
        }
    }
}
