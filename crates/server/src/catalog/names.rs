//! What can be the name of a tool, a prompt or a resource. An error is the rule that is broken.

use interlock_workflow::UriTemplate;

/// No longer URI is compared with a template.
const LONGEST_URI: usize = UriTemplate::LONGEST_URI;

/// MCP tools, section "Tool Names".
pub(super) fn check_tool(name: &str) -> Result<(), &'static str> {
    const MOST: usize = 128;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-./".contains(&b);
    if (1..=MOST).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err("1 to 128 letters, digits, `_`, `-`, `.` and `/` are allowed")
    }
}

pub(super) fn check_resource(name: &str) -> Result<(), &'static str> {
    check_uri(name)?;
    if name.contains(['{', '}']) {
        return Err("what has braces is a template");
    }
    Ok(())
}

pub(super) fn check_prompt(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.chars().any(char::is_control) {
        Err("it must not be empty, nor hold control characters")
    } else {
        Ok(())
    }
}

/// Why a text cannot be the URI of a resource.
pub(crate) fn check_uri(uri: &str) -> Result<(), &'static str> {
    if uri.len() > LONGEST_URI {
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
