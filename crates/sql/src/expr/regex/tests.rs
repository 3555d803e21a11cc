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

#[test]
fn what_is_searched_again_and_again_is_bounded() {
    let text = "aA".repeat(20_000);
    let count = |pattern: &str| {
        let pattern = Pattern::compile(pattern, Options::default()).expect("a pattern");
        let search = pattern.search(&text);
        search.native_left.set(text.len() * 100);
        let (mut from, mut count) = (0, 0);
        while let Ok(Some(found)) = search.find(from, false) {
            from = found[0].clone().map_or(from, |range| range.end);
            count += 1;
        }
        count
    };
    // Both look for each match up to the text's end, in vain; our automata see the first end of the second one before.
    assert!((100..20_000).contains(&count("a[aA]*!|A")));
    assert_eq!(count("x??(?:.*[^a-zA-Z]|[a-zA-Z])"), 40_000);
}

#[test]
fn ranges_are_merged_and_found() {
    let matches = |text: &str, pattern: &str, fold_case: bool| {
        let options = Options { fold_case, ..Options::default() };
        Pattern::compile(pattern, options).expect("a pattern").is_match(text).expect("within its steps")
    };
    for (text, pattern, fold_case, want) in [
        ("b", "^[x-za-cb-d]$", false, true),
        ("e", "^[x-za-cb-d]$", false, false),
        ("K", "^[j-l]$", true, true),
        ("k", "^[\u{2100}-\u{2200}]$", true, true),
        ("k", "^[\u{2100}-\u{2200}]$", false, false),
        ("é", "^[^a-zà-ü]$", false, false),
        ("日", "^[^a-zà-ü]\\y$", false, true),
        ("ß", "^[à-ü]\\y$", false, false),
    ] {
        assert_eq!(matches(text, pattern, fold_case), want, "{text} ~ {pattern}");
    }
}
