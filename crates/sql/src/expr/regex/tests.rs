//! Matches and groups as PostgreSQL finds them, and searches that end.

use super::{Options, Pattern};

fn found(text: &str, pattern: &str) -> Option<Vec<Option<String>>> {
    let pattern = Pattern::compile(pattern, Options::default()).expect("a pattern");
    let found = pattern.search(text).find(0, true).expect("within its steps")?;
    Some(found.into_iter().map(|group| group.map(|range| text[range].to_owned())).collect())
}

#[test]
fn groups_lie_as_in_postgresql() {
    let some = |text: &str| Some(text.to_owned());
    for (text, pattern, groups) in [
        ("abcd", "(a|ab)(c|bcd)(d*)", vec![some("abcd"), some("ab"), some("c"), some("d")]),
        ("XY1234Z", "Y*([0-9]{1,3})", vec![some("Y123"), some("123")]),
        ("XY1234Z", "Y*?([0-9]{1,3})", vec![some("Y1"), some("1")]),
        ("abc01234xyz", "(.*)(\\d+)(.*)", vec![some("abc01234xyz"), some("abc0123"), some("4"), some("xyz")]),
        ("abc01234xyz", "(.*?)(\\d+)(.*)", vec![some("abc0"), some("abc"), some("0"), some("")]),
        (
            "abc01234xyz",
            "(?:(.*?)(\\d+)(.*)){1,1}",
            vec![some("abc01234xyz"), some("abc"), some("01234"), some("xyz")],
        ),
        ("aab", "(a*)(ab)*(b*)", vec![some("aab"), some("aa"), None, some("b")]),
        ("ab", "(a)?(x)?b", vec![some("ab"), some("a"), None]),
        ("xabab", "((a|b)*)", vec![some(""), some(""), None]),
        ("abab", "(a|b)*", vec![some("abab"), some("b")]),
        ("foofoo bar", "(\\w+)\\1", vec![some("foofoo"), some("foo")]),
        ("abcabc", "(?i)(ABC)\\1", vec![some("abcabc"), some("abc")]),
        ("price: 100 euros", "\\d+(?= euros)", vec![some("100")]),
        ("b1 a2", "(?<=a)\\d", vec![some("2")]),
    ] {
        assert_eq!(found(text, pattern), Some(groups), "{text} ~ {pattern}");
    }
}

#[test]
fn a_search_ends_whatever_the_pattern() {
    let text = "a".repeat(100_000);
    for pattern in [
        "(a*)*b",
        "(a|a)*b",
        "((a*)*)*$",
        "(a|aa)+$",
        "(.*)(.*)(.*)(.*)(.*)x",
        "(a*)\\1\\1b",
        "((a|aa)*)\\1c",
        "(?=(a*)*b)a",
        "(a{0,200}){0,200}",
        "(x+x+)+y",
        "a(?!.*b)",
        "a(.*b)?",
    ] {
        // A refusal is as good as an answer.
        if let Ok(pattern) = Pattern::compile(pattern, Options::default()) {
            let search = pattern.search(&text);
            let mut from = 0;
            while let Ok(Some(found)) = search.find(from, true) {
                from = found[0].clone().map_or(from, |range| range.end).max(from + 1);
                if from > text.len() {
                    break;
                }
            }
        }
    }
}

#[test]
fn what_nests_too_deep_is_refused() {
    let nest = || {
        for depth in [100, 10_000, 1_000_000] {
            let pattern = "(".repeat(depth) + &")".repeat(depth);
            assert_eq!(Pattern::compile(&pattern, Options::default()).is_ok(), depth == 100);
        }
        let many = "(a)".repeat(100_000);
        assert!(Pattern::compile(&many, Options::default()).is_err());
    };
    // The server's threads have more stack than those of tests.
    let stack = base::limits::THREAD_STACK_LEN.0 as usize;
    std::thread::Builder::new().stack_size(stack).spawn(nest).expect("a thread").join().expect("no panic");
}
