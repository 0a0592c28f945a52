//! What can be the URI of a resource.

use interlock_workflow::UriTemplate;

/// Longer URIs are nobody's.
const LONGEST: usize = UriTemplate::LONGEST_URI;

/// Whether somebody could mean a resource by it, or why not.
pub(crate) fn check(uri: &str) -> Result<(), &'static str> {
    if uri.len() > LONGEST {
        return Err("it is longer than 8192 bytes");
    }
    if uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("it holds spaces or control characters");
    }
    if !has_scheme(uri) {
        return Err("it does not begin with a scheme, such as `note:`");
    }
    Ok(())
}

/// Letters, digits, `+`, `-` and `.`, a letter first, and then a colon: RFC 3986, section 3.1.
fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else {
        return false;
    };
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_a_scheme_and_can_be_written_on_a_line() {
        for uri in ["note://rules", "urn:isbn:1", "a+b-c.d:", "x:é%20{"] {
            assert_eq!(check(uri), Ok(()), "{uri}");
        }
        for (uri, why) in [
            ("", "scheme"),
            ("rules", "scheme"),
            ("://rules", "scheme"),
            ("1x:rules", "scheme"),
            ("/a:b", "scheme"),
            ("é:b", "scheme"),
            ("x:a b", "spaces"),
            ("x:a\n", "control"),
            ("x:\u{2028}", "spaces"),
            ("x:\0", "control"),
        ] {
            assert!(check(uri).unwrap_err().contains(why), "{uri}");
        }
        assert_eq!(LONGEST, 8_192);
        let longest = format!("x:{}", "a".repeat(LONGEST - 2));
        assert_eq!(check(&longest), Ok(()));
        assert!(check(&format!("{longest}a")).is_err());
    }
}
