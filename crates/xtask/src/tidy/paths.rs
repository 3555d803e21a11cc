//! Which paths the code of a file names, tests left out: each `use` in full, whatever its form, and each path in code with its
//! first name looked up among what is imported. Names are looked up by file, not by scope, so an import within a function
//! counts for all of the file; methods and what macros make are not seen.

use std::collections::BTreeMap;

use super::tokens::{Token, tokens};

/// A path, segment by segment; a glob ends with `*`.
type Path<'a> = Vec<&'a str>;

/// All paths that the code names.
pub(super) fn named(text: &str) -> Vec<String> {
    let code = without_tests(&tokens(text));
    let (imports, rest) = split_imports(&code);
    let names: BTreeMap<&str, &Path<'_>> =
        imports.iter().filter_map(|(path, name)| Some((name.as_ref().copied()?, path))).collect();
    let in_code = paths(&rest);
    let all = imports.iter().map(|(path, _)| path).chain(&in_code);
    let mut named: Vec<String> = all.map(|path| resolve(path, &names).join("::")).collect();
    named.sort();
    named.dedup();
    named
}

/// Modules that a file declares for its tests alone and that have files of their own.
pub(super) fn test_modules(text: &str) -> Vec<String> {
    let all = tokens(text);
    let mut modules = Vec::new();
    for at in 0..all.len() {
        if let Some(item) = after_test_attribute(&all, at)
            && let Some(&[Token::Word("mod"), Token::Word(name), Token::Mark(';')]) =
                all.get(item..item + 3).map(|item| item.first_chunk().expect("three"))
        {
            modules.push(name.to_owned());
        }
    }
    modules
}

/// The path with its first name replaced by what it was imported as.
fn resolve<'a>(path: &Path<'a>, names: &BTreeMap<&str, &Path<'a>>) -> Path<'a> {
    let mut path = path.clone();
    // As often as imports may lean on each other; one that names itself ends it.
    for _ in 0..8 {
        match names.get(path[0]) {
            Some(import) if import[0] != path[0] => {
                path = import.iter().chain(&path[1..]).copied().collect();
            }
            _ => break,
        }
    }
    path
}

/// Past an attribute that leaves what follows to tests, and past those after it, if `at` is where one begins.
fn after_test_attribute(all: &[Token<'_>], at: usize) -> Option<usize> {
    const CFG: [Token<'_>; 4] = [Token::Mark('#'), Token::Mark('['), Token::Word("cfg"), Token::Mark('(')];
    let condition = all[at..].strip_prefix(&CFG)?;
    let is_for_tests = condition.starts_with(&[Token::Word("test"), Token::Mark(')')])
        || condition.starts_with(&[Token::Word("all"), Token::Mark('('), Token::Word("test")]);
    if !is_for_tests {
        return None;
    }
    let mut item = at;
    while all[item..].starts_with(&[Token::Mark('#'), Token::Mark('[')]) {
        item = past_brackets(all, item + 1);
    }
    if all.get(item) == Some(&Token::Word("pub")) {
        item += 1;
        if all.get(item) == Some(&Token::Mark('(')) {
            item = past_brackets(all, item);
        }
    }
    Some(item)
}

/// Past the bracket that closes the one at `at`.
fn past_brackets(all: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in all.iter().enumerate().skip(at) {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    all.len()
}

/// The tokens but for what is compiled for tests only.
fn without_tests<'a>(all: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut code = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        match after_test_attribute(all, at) {
            Some(item) => at = past_item(all, item),
            None => {
                code.push(all[at]);
                at += 1;
            }
        }
    }
    code
}

/// Past an item, a statement, a field or an arm of a match.
fn past_item(all: &[Token<'_>], from: usize) -> usize {
    // A comma between generics ends none of these.
    const ITEMS: [&str; 13] = [
        "fn", "mod", "impl", "use", "struct", "enum", "const", "static", "type", "trait", "unsafe", "async",
        "extern",
    ];
    let is_item = matches!(all.get(from), Some(Token::Word(word)) if ITEMS.contains(word));
    let mut at = from;
    while at < all.len() {
        match all[at] {
            Token::Mark('{') => return past_brackets(all, at),
            Token::Mark('(' | '[') => at = past_brackets(all, at),
            Token::Mark(';') => return at + 1,
            Token::Mark(',') if !is_item => return at + 1,
            // The end of what it stands in.
            Token::Mark(')' | ']' | '}') => return at,
            _ => at += 1,
        }
    }
    at
}

/// What is imported, each with the name it has here, and all that is no import.
fn split_imports<'a>(code: &[Token<'a>]) -> (Vec<(Path<'a>, Option<&'a str>)>, Vec<Token<'a>>) {
    let (mut imports, mut rest) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < code.len() {
        let begins_tree = matches!(code.get(at + 1), Some(Token::Word(_) | Token::Colons | Token::Mark('{')));
        if code[at] == Token::Word("use") && begins_tree {
            at = tree(code, at + 1, &Vec::new(), &mut imports);
        } else {
            rest.push(code[at]);
            at += 1;
        }
    }
    (imports, rest)
}

/// Reads a tree of imports below `prefix`; where it ends.
fn tree<'a>(
    code: &[Token<'a>],
    from: usize,
    prefix: &Path<'a>,
    imports: &mut Vec<(Path<'a>, Option<&'a str>)>,
) -> usize {
    let (mut path, mut at) = (prefix.clone(), from);
    loop {
        match code.get(at) {
            Some(Token::Colons) => at += 1,
            Some(Token::Word("self")) if !path.is_empty() => at += 1,
            Some(Token::Word("as")) => {
                let name = match code.get(at + 1) {
                    Some(Token::Word(name)) => Some(*name),
                    _ => None,
                };
                imports.push((path, name));
                return at + 2;
            }
            Some(Token::Word(segment)) => {
                path.push(segment);
                at += 1;
            }
            Some(Token::Mark('*')) => {
                path.push("*");
                imports.push((path, None));
                return at + 1;
            }
            Some(Token::Mark('{')) => {
                at += 1;
                while !matches!(code.get(at), None | Some(Token::Mark('}'))) {
                    at = match code[at] {
                        Token::Word(_) | Token::Colons | Token::Mark('{' | '*') => {
                            tree(code, at, &path, imports)
                        }
                        _ => at + 1,
                    };
                }
                return at + 1;
            }
            _ => {
                let name = path.last().copied();
                if !path.is_empty() {
                    imports.push((path, name));
                }
                return at;
            }
        }
    }
}

/// Paths of two segments or more in code. A name alone is where it was imported, too.
fn paths<'a>(code: &[Token<'a>]) -> Vec<Path<'a>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let Token::Word(first) = code[at] else {
            at += 1;
            continue;
        };
        let mut path = vec![first];
        at += 1;
        while let (Some(Token::Colons), Some(Token::Word(segment))) = (code.get(at), code.get(at + 1)) {
            path.push(segment);
            at += 2;
        }
        if path.len() > 1 {
            all.push(path);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_named(text: &str, expected: &[&str]) {
        assert_eq!(named(text), expected, "{text}");
    }

    #[test]
    fn every_form_of_import_is_read_in_full() {
        assert_named("use a::b;", &["a::b"]);
        assert_named("pub(crate) use ::a::b as c;", &["a::b"]);
        assert_named("use a::b as _;", &["a::b"]);
        assert_named("use a::{b, c::{d, self}, e::*};", &["a::b", "a::c", "a::c::d", "a::e::*"]);
        assert_named("use {a::b, c::d,};", &["a::b", "c::d"]);
        assert_named("fn f() -> impl Sized + use<'_> { use a::b; }", &["a::b"]);
    }

    #[test]
    fn paths_in_code_are_resolved_through_imports() {
        assert_named("use a::b; fn f() { b::c::<u8>(); d::e() }", &["a::b", "a::b::c", "d::e"]);
        assert_named("use a::{b as c}; type T = c::D;", &["a::b", "a::b::D"]);
        assert_named("use a::b; use b::c; fn f() { c::d() }", &["a::b", "a::b::c", "a::b::c::d"]);
        assert_named("use a::a; fn f() { a::b() }", &["a::a", "a::b"]);
        assert_named("select! { _ = a :: b(1) => assert!(<c::D>::e()) }", &["a::b", "c::D"]);
    }

    #[test]
    fn what_is_for_tests_only_is_left_out() {
        assert_named("#[cfg(test)]\nmod tests { fn f() { a::b() } } fn g() { c::d() }", &["c::d"]);
        assert_named(
            "#[cfg(test)] #[allow(x)] pub(crate) fn f<A, B>() { a::b() } fn g() { c::d() }",
            &["c::d"],
        );
        assert_named("struct S { #[cfg(test)] a: a::B, c: c::D }", &["c::D"]);
        assert_named("#[cfg(all(test, unix))] use a::b; use c::d;", &["c::d"]);
        assert_named("#[cfg(not(test))] use a::b;", &["a::b"]);
        assert_named("fn f() { #[cfg(test)] { a::b() } c::d() }", &["c::d"]);
        assert_eq!(test_modules("#[cfg(test)]\nmod a;\nmod b;\n#[cfg(test)]\npub(crate) mod c;"), ["a", "c"]);
    }
}
