//! The paths that a source file spells from `crate`, `self` or `super`, resolved from the root.
//!
//! It reads the text alone: comments and literals are skipped, use trees are taken apart, and
//! inline modules count when `super` is resolved. Paths that begin with another name are not read:
//! they stay inside their module, or begin in another crate.

/// One path in the source. Each name in a use tree is one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    /// From the root of the crate; `*` is the last part of a glob.
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// Every such path in `text`, which is the source of `module`.
pub(super) fn mentions(text: &str, module: &[&str]) -> Vec<Mention> {
    let tokens = tokens(text);
    let token = |at: usize| tokens.get(at).map(|token| token.text);
    let mut mentions = Vec::new();
    // One per open brace: the name of the inline module that it opens, if it does.
    let mut braces: Vec<Option<&str>> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let begins_path = token(at + 1) == Some("::") && (at == 0 || token(at - 1) != Some("::"));
        match tokens[at].text {
            "crate" | "self" | "super" if begins_path => {
                let inner = braces.iter().flatten();
                let here = module.iter().chain(inner).copied().collect();
                at = read_tree(&tokens, at, here, &mut mentions);
                continue;
            }
            "{" => {
                let is_module = at >= 2 && token(at - 2) == Some("mod");
                braces.push(is_module.then(|| tokens[at - 1].text));
            }
            "}" => {
                braces.pop();
            }
            _ => {}
        }
        at += 1;
    }
    mentions
}

/// Reads one path, or one use tree with all its branches, and returns where it ends.
fn read_tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    mut path: Vec<&'a str>,
    mentions: &mut Vec<Mention>,
) -> usize {
    let token = |at: usize| tokens.get(at).map(|token| token.text);
    loop {
        match token(at) {
            Some("crate") => path.clear(),
            Some("self") => {}
            Some("super") => {
                path.pop();
            }
            Some("{") => return read_group(tokens, at + 1, &path, mentions),
            Some(text) if text == "*" || is_name(text) => path.push(text),
            // The arguments of a generic, as in `crate::read::<T>`.
            Some(_) | None => break,
        }
        at += 1;
        if token(at) != Some("::") {
            break;
        }
        at += 1;
    }
    mentions.push(Mention {
        path: path.into_iter().map(str::to_owned).collect(),
        line: tokens[at - 1].line,
    });
    at
}

/// Reads the branches up to the closing brace, and returns what comes after it.
fn read_group<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    path: &[&'a str],
    mentions: &mut Vec<Mention>,
) -> usize {
    while at < tokens.len() && tokens[at].text != "}" {
        at = read_tree(tokens, at, path.to_vec(), mentions);
        // A branch may end with `as name`.
        while at < tokens.len() && !matches!(tokens[at].text, "," | "}") {
            at += 1;
        }
        if at < tokens.len() && tokens[at].text == "," {
            at += 1;
        }
    }
    at + 1
}

/// A word, a `::`, or any other single character of code.
struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// The code without blanks, comments, strings, characters and lifetimes.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped(rest, first);
        let length = skipped.unwrap_or_else(|| match word(rest) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            length => length,
        });
        let (piece, after) = rest.split_at(length);
        if skipped.is_none() {
            tokens.push(Token { text: piece, line });
        }
        line += piece.matches('\n').count();
        rest = after;
    }
    tokens
}

/// How long what is no code is, if `text` begins with such.
fn skipped(text: &str, first: char) -> Option<usize> {
    match first {
        _ if first.is_whitespace() => Some(first.len_utf8()),
        '/' if text.starts_with("//") => Some(text.find('\n').unwrap_or(text.len())),
        '/' if text.starts_with("/*") => Some(block_comment(text)),
        '"' => Some(quoted(text, '"')),
        '\'' => Some(character_or_lifetime(text)),
        'r' | 'b' | 'c' => raw_string(text),
        _ => None,
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a literal that ends with the quote it begins with.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn character_or_lifetime(text: &str) -> usize {
    let mut after = text.chars().skip(1);
    match (after.next(), after.next()) {
        (Some('\\'), _) | (_, Some('\'')) => quoted(text, '\''),
        _ => 1 + word(&text[1..]),
    }
}

fn raw_string(text: &str) -> Option<usize> {
    let start = word(text);
    if !matches!(&text[..start], "r" | "br" | "cr") {
        return None;
    }
    let after = &text[start..];
    let body = after.trim_start_matches('#');
    let hashes = &after[..after.len() - body.len()];
    let body = body.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + length)
}

/// How long the word is with which `text` begins.
fn word(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric())
        .unwrap_or(text.len())
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths in a source of the module `call::approval`, with their lines.
    #[track_caller]
    fn check(text: &str, expected: &[(&str, usize)]) {
        let mentions = mentions(text, &["call", "approval"]);
        let found: Vec<_> = mentions
            .iter()
            .map(|mention| (mention.path.join("::"), mention.line))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(path, line)| ((*path).to_owned(), *line))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_is_found_wherever_code_may_have_one() {
        check("use crate::wire::encode;", &[("wire::encode", 1)]);
        check("pub(crate) use crate::wire::*;", &[("wire::*", 1)]);
        check("let x = crate::wire::read::<T>(y);", &[("wire::read", 1)]);
        check("crate::a::B { c: crate::d() }", &[("a::B", 1), ("d", 1)]);
        check("<crate::a::B as C>::D", &[("a::B", 1)]);
        check("$crate::a!()", &[("a", 1)]);
        check("self.crate_::a; Self::b; other::c", &[]);
    }

    #[test]
    fn a_use_tree_is_taken_apart() {
        let text = "use crate::{\n    a::B,\n    session::{\n        self, X as Y,\n        state::{Z},\n    },\n    D,\n};\nuse crate::e::F;\n";
        check(
            text,
            &[
                ("a::B", 2),
                ("session", 4),
                ("session::X", 4),
                ("session::state::Z", 5),
                ("D", 7),
                ("e::F", 9),
            ],
        );
        check(
            "use {crate::a::B, super::C};",
            &[("a::B", 1), ("call::C", 1)],
        );
    }

    #[test]
    fn super_is_resolved_from_where_it_stands() {
        check("use super::super::session::X;", &[("session::X", 1)]);
        check("use self::super::super::X;", &[("X", 1)]);
        check(
            "use super::{super::session::X, Y};",
            &[("session::X", 1), ("call::Y", 1)],
        );
        let text = "mod tests {\n    use super::*;\n    fn f() {}\n    use super::super::A;\n}\nuse super::B;";
        check(
            text,
            &[("call::approval::*", 2), ("call::A", 4), ("call::B", 6)],
        );
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        check("// crate::a\n/// [`crate::b`]\ncrate::c", &[("c", 3)]);
        check("/* crate::a /* b */ crate::c\n */ crate::d", &[("d", 2)]);
        check(r#"f("crate::a \" crate::b", crate::c)"#, &[("c", 1)]);
        check(r##"f(br#"crate::a" "# , crate::c)"##, &[("c", 1)]);
        check(r"f('\'', '{', b'\\', 'ä', crate::c::<'a>)", &[("c", 1)]);
        check("f::<'a>(r#type, \"\n\n\", crate::c)", &[("c", 3)]);
    }
}
