//! One way to write a URI, so that two that mean the same are one.

use std::borrow::Cow;

/// Schemes whose authority is a host, in which case means nothing, and whose empty path is `/`. In
/// any other, such as `note://Rules`, what comes after `//` may be somebody's own name.
const WITH_HOSTS: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// A URI, or a template of URIs, in the one way to write it (RFC 3986, section 6.2), as far as that
/// is safe: the case of the scheme, of a host and of percent-encoded bytes means nothing, and the
/// empty path of a host is `/`. Nothing is decoded, and `.` and `..` stay: what a server takes them
/// for is its own business.
///
/// ```
/// use interlock_workflow::normalised_uri;
///
/// assert_eq!(normalised_uri("HTTP://Example.com?x=%2f"), "http://example.com/?x=%2F");
/// assert_eq!(normalised_uri("http://example.com/{id}"), "http://example.com/{id}");
/// assert_eq!(normalised_uri("Note://Rules/../A"), "note://Rules/../A");
/// ```
pub fn normalised_uri(uri: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Cow::Borrowed(uri);
    };
    let scheme = scheme.to_ascii_lowercase();
    let mut written = String::with_capacity(uri.len() + 1);
    written.push_str(&scheme);
    written.push(':');
    let after = rest.strip_prefix("//");
    match after.filter(|_| WITH_HOSTS.contains(&&*scheme)) {
        None => put(&mut written, rest, Case::AsItIs),
        Some(after) => {
            let (authority, after) = after.split_at(authority_ends(after));
            let host = authority.rfind('@').map_or(0, |at| at + 1);
            written.push_str("//");
            put(&mut written, &authority[..host], Case::AsItIs);
            put(&mut written, &authority[host..], Case::Lower);
            let is_path_empty =
                after.is_empty() || ["?", "#", "{?", "{#"].iter().any(|q| after.starts_with(q));
            if !authority.is_empty() && is_path_empty {
                written.push('/');
            }
            put(&mut written, after, Case::AsItIs);
        }
    }
    match written == uri {
        true => Cow::Borrowed(uri),
        false => Cow::Owned(written),
    }
}

fn is_scheme(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.bytes().all(allowed)
}

/// Where the authority is over. An expression of a template belongs to it unless it may stand for
/// what comes after.
fn authority_ends(text: &str) -> usize {
    let mut at = 0;
    while let Some(next) = text[at..].find(['/', '?', '#', '{']) {
        at += next;
        let Some(inside) = text[at..].strip_prefix('{') else {
            return at;
        };
        match inside.find('}') {
            Some(close) if !inside.starts_with(['+', '/', '?', '#', '&', ';']) => at += close + 2,
            Some(_) | None => return at,
        }
    }
    text.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    AsItIs,
    Lower,
}

/// Writes a part of a URI, and the expressions in it as they are.
fn put(written: &mut String, text: &str, case: Case) {
    let mut is_expression = false;
    // How many hexadecimal digits of a percent-encoded byte are still to come.
    let mut digits = 0;
    for (at, c) in text.char_indices() {
        is_expression |= c == '{';
        let is_byte = c == '%'
            && text.as_bytes()[at + 1..]
                .iter()
                .take(2)
                .all(u8::is_ascii_hexdigit);
        written.push(match case {
            _ if is_expression => c,
            _ if digits > 0 => c.to_ascii_uppercase(),
            Case::Lower => c.to_ascii_lowercase(),
            Case::AsItIs => c,
        });
        digits = if is_byte {
            2_u8
        } else {
            digits.saturating_sub(1)
        };
        is_expression &= c != '}';
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_means_nothing_is_written_in_one_way() {
        for (written, one) in [
            ("http://example.com", "http://example.com/"),
            (
                "HTTPS://EXAMPLE.com:8080?q=A#F",
                "https://example.com:8080/?q=A#F",
            ),
            ("http://User:Pass@Host/Path", "http://User:Pass@host/Path"),
            ("http://h/%e2%82%ac%2f", "http://h/%E2%82%AC%2F"),
            ("http://h/%zz%4", "http://h/%zz%4"),
            ("http://H{.Tld}/A", "http://h{.Tld}/A"),
            (
                "http://{Sub}.Example.com{?Q}",
                "http://{Sub}.example.com/{?Q}",
            ),
            ("http://Host{+Path}", "http://host{+Path}"),
            ("http://Host{/Path}/B", "http://host{/Path}/B"),
            ("ORDER://{Id}/%2a", "order://{Id}/%2A"),
        ] {
            assert_eq!(normalised_uri(written), one);
        }
    }

    #[test]
    fn what_may_mean_something_stays() {
        for uri in [
            "note://Rules",
            "order://A-17",
            "urn:ISBN:1",
            "file:///C:/Docs/../x",
            "http://h/a/../b/./c",
            "http://h/%41",
            "http://h//",
            "http:/Host",
            "http://",
            "http:///x",
            "{scheme}://Host",
            "no scheme",
            "",
            "http://h/{",
        ] {
            assert_eq!(normalised_uri(uri), uri);
        }
    }

    proptest! {
        #[test]
        fn the_one_way_to_write_it_stays(uri in "(?i)(http|note|x)s?:(//)?[a-z{}+?@%/.# é0-9]{0,24}") {
            let once = normalised_uri(&uri).into_owned();
            prop_assert_eq!(normalised_uri(&once), &*once);
            prop_assert!(once.eq_ignore_ascii_case(&uri) || once.len() == uri.len() + 1);
        }
    }
}
