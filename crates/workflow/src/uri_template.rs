//! Which URIs fit a template such as `order://{id}`.
//!
//! The forms of RFC 6570 that can be told apart in a URI are known: `{x}` is one piece of a path,
//! `{+x}` anything, and `{?x,y}` or `{&x}` a query that may be missing. Whoever serves the
//! resource extracts the values; here it only matters whether it is the one that is bound.

/// Longer URIs fit no template.
const LONGEST: usize = 2_048;

/// Whether it is a template and not the URI of one resource.
pub(crate) fn is_template(name: &str) -> bool {
    name.contains('{')
}

/// What every URI that fits a template begins with.
pub(crate) fn beginning(template: &str) -> &str {
    template
        .find('{')
        .map_or(template, |open| &template[..open])
}

/// Whether a URI fits a template. Takes time in proportion to the product of their lengths.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    if uri.len() > LONGEST || template.len() > LONGEST || !uri.starts_with(beginning(template)) {
        return false;
    }
    let uri = uri.as_bytes();
    // By place in the URI: the pieces so far can end there.
    let mut ends = vec![false; uri.len() + 1];
    ends[0] = true;
    for piece in pieces(template) {
        ends = match piece {
            Piece::Literal(text) => after_literal(&ends, uri, text.as_bytes()),
            Piece::Segment => after_some(&ends, uri, |byte| !matches!(byte, b'/' | b'?' | b'#')),
            Piece::Anything => after_some(&ends, uri, |_| true),
            Piece::Query => after_query(ends, uri),
        };
    }
    ends.last() == Some(&true)
}

enum Piece<'t> {
    Literal(&'t str),
    Segment,
    Anything,
    Query,
}

fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let open = rest.find('{').unwrap_or(rest.len());
        if open > 0 {
            let (text, left) = rest.split_at(open);
            rest = left;
            return Some(Piece::Literal(text));
        }
        let Some(close) = rest.find('}') else {
            return Some(Piece::Literal(std::mem::take(&mut rest)));
        };
        let name = &rest[1..close];
        rest = &rest[close + 1..];
        Some(match name.as_bytes().first() {
            Some(b'?' | b'&') => Piece::Query,
            Some(b'+' | b'#' | b'/') => Piece::Anything,
            Some(_) | None => Piece::Segment,
        })
    })
}

fn after_literal(ends: &[bool], uri: &[u8], text: &[u8]) -> Vec<bool> {
    let mut next = vec![false; ends.len()];
    for at in (0..ends.len()).filter(|at| ends[*at]) {
        if uri[at..].starts_with(text) {
            next[at + text.len()] = true;
        }
    }
    next
}

/// One byte or more, all of them of a kind.
fn after_some(ends: &[bool], uri: &[u8], fits: impl Fn(u8) -> bool) -> Vec<bool> {
    let mut next = vec![false; ends.len()];
    let mut inside = false;
    for (at, &byte) in uri.iter().enumerate() {
        inside = (inside || ends[at]) && fits(byte);
        next[at + 1] = inside;
    }
    next
}

/// Nothing, or a question mark or ampersand and the rest.
fn after_query(mut ends: Vec<bool>, uri: &[u8]) -> Vec<bool> {
    let starts = |at: usize| matches!(uri.get(at), Some(b'?' | b'&'));
    if (0..uri.len()).any(|at| ends[at] && starts(at))
        && let Some(last) = ends.last_mut()
    {
        *last = true;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_fits_its_template() {
        for (template, uri, fits) in [
            ("order://{id}", "order://17", true),
            ("order://{id}", "order://", false),
            ("order://{id}", "order://17/items", false),
            ("order://{id}/items", "order://17/items", true),
            ("order://{id}/items/{n}", "order://a/items/b", true),
            ("file:///{+path}", "file:///a/b/c.txt", true),
            ("file:///{+path}.txt", "file:///a/b/c.txt", true),
            ("file:///{+path}.md", "file:///a/b/c.txt", false),
            ("search://all{?q,n}", "search://all", true),
            ("search://all{?q,n}", "search://all?q=x", true),
            ("search://all{?q,n}", "search://allx", false),
            ("a://{x}-{y}", "a://1-2-3", true),
            ("a://{x}{", "a://1{", true),
            ("note://rules", "note://rules", true),
        ] {
            assert_eq!(matches(template, uri), fits, "{template} {uri}");
        }
        assert!(!matches("a:{+x}", &format!("a:{}", "x".repeat(LONGEST))));
    }
}
