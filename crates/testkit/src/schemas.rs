//! What a server says, against the JSON Schemas of the protocol.
//!
//! They are not ours to publish, so they are read from the folder that `INTERLOCK_SCHEMAS` names,
//! one file per version. Without it nothing is checked, and [`are_here`] says so; where nothing may be
//! skipped, that is a failure.

use jsonschema::Validator;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io::Write,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// The versions of which there are schemas.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// Whether there are schemas. If there are none, it says that the test is skipped.
///
/// # Panics
///
/// If there are none and `INTERLOCK_NO_SKIP` is set to anything but nothing and 0.
#[track_caller]
pub fn are_here() -> bool {
    let no_skip = std::env::var_os("INTERLOCK_NO_SKIP");
    let Some(line) = complaint(folder().as_deref(), no_skip.as_deref()) else {
        return true;
    };
    // Not by a macro, whose output a test that passes does not show.
    let written = writeln!(std::io::stderr(), "{line}");
    written.expect("stderr is there");
    false
}

/// What is to be said if there are no schemas.
#[track_caller]
fn complaint(folder: Option<&OsStr>, no_skip: Option<&OsStr>) -> Option<&'static str> {
    let may_skip = no_skip.is_none_or(|value| value.is_empty() || value == "0");
    match folder {
        Some(_) => None,
        None if may_skip => Some("skipped: INTERLOCK_SCHEMAS names no folder"),
        None => panic!("skipped: INTERLOCK_SCHEMAS names no folder, and nothing may be skipped"),
    }
}

fn folder() -> Option<OsString> {
    std::env::var_os("INTERLOCK_SCHEMAS").filter(|folder| !folder.is_empty())
}

/// Checks a message that a client of this version received; `method` is that of the request it
/// answers.
///
/// # Panics
///
/// If the protocol has no such message.
#[track_caller]
pub fn check_message(version: &str, method: Option<&str>, message: &Value) {
    if !VERSIONS.contains(&version) {
        return;
    }
    let has = |member| message.get(member).is_some();
    let (envelope, inside) = if has("method") && has("id") {
        ("JSONRPCRequest", Some(("ServerRequest", message)))
    } else if has("method") {
        ("JSONRPCNotification", Some(("ServerNotification", message)))
    } else if has("error") {
        // Before 2025-11-25 the schema has no error without an id, though there are such.
        if message["id"].is_null() && version < "2025-11-25" {
            return;
        }
        (error_of(version), special_error(version, message))
    } else {
        let result = &message["result"];
        let asks = version >= "2026-07-28" && result["resultType"] == "input_required";
        let definition = if asks {
            Some("InputRequiredResult")
        } else {
            method.and_then(result_of)
        };
        let response = if version < "2025-11-25" {
            "JSONRPCResponse"
        } else {
            "JSONRPCResultResponse"
        };
        (response, definition.map(|definition| (definition, result)))
    };
    check(version, envelope, message);
    if let Some((definition, value)) = inside {
        check(version, definition, value);
    }
}

/// Checks a value against one definition of one version.
///
/// # Panics
///
/// If it does not fit.
#[track_caller]
pub fn check(version: &str, definition: &str, value: &Value) {
    let Some(schema) = schema(version, definition) else {
        return;
    };
    let mistakes: Vec<_> = schema
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        mistakes.is_empty(),
        "{version} {definition}: {mistakes:?} in {value}"
    );
}

fn error_of(version: &str) -> &'static str {
    if version < "2025-11-25" {
        "JSONRPCError"
    } else {
        "JSONRPCErrorResponse"
    }
}

/// Errors that have a shape of their own.
fn special_error<'a>(version: &str, message: &'a Value) -> Option<(&'static str, &'a Value)> {
    if version < "2026-07-28" {
        return None;
    }
    let definition = match message["error"]["code"].as_i64()? {
        -32020 => "HeaderMismatchError",
        -32021 => "MissingRequiredClientCapabilityError",
        -32022 => "UnsupportedProtocolVersionError",
        _ => return None,
    };
    Some((definition, message))
}

fn result_of(method: &str) -> Option<&'static str> {
    Some(match method {
        "initialize" => "InitializeResult",
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
            "EmptyResult"
        }
        "server/discover" => "DiscoverResult",
        "subscriptions/listen" => "SubscriptionsListenResult",
        "tools/list" => "ListToolsResult",
        "tools/call" => "CallToolResult",
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        _ => return None,
    })
}

type Known = Mutex<Option<HashMap<(String, String), Arc<Validator>>>>;

/// The schema of one definition; each is read once.
fn schema(version: &str, definition: &str) -> Option<Arc<Validator>> {
    static KNOWN: Known = Mutex::new(None);
    let folder = folder()?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (version.to_owned(), definition.to_owned());
    let read = || {
        let path = Path::new(&folder).join(format!("{version}.json"));
        let text = std::fs::read_to_string(path).expect("there is a schema of each version");
        let mut schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
        let place = if schema["$defs"].is_object() {
            "$defs"
        } else {
            "definitions"
        };
        assert!(
            schema[place][definition].is_object(),
            "{version} has no {definition}"
        );
        schema["$ref"] = json!(format!("#/{place}/{definition}"));
        Arc::new(jsonschema::validator_for(&schema).expect("a schema is one"))
    };
    let known = known.get_or_insert_default();
    Some(Arc::clone(known.entry(key).or_insert_with(read)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_checks_messages_is_skipped_only_where_it_may_be() {
        let complaint = |folder: Option<&str>, no_skip: Option<&str>| {
            complaint(folder.map(OsStr::new), no_skip.map(OsStr::new))
        };
        for may_skip in [None, Some(""), Some("0")] {
            assert!(complaint(None, may_skip).is_some_and(|line| line.starts_with("skipped: ")));
        }
        for no_skip in [None, Some("1")] {
            assert_eq!(complaint(Some("here"), no_skip), None);
        }
        for no_skip in ["1", "true", "no", "00"] {
            let failed = std::panic::catch_unwind(|| complaint(None, Some(no_skip)));
            assert!(failed.is_err(), "{no_skip}");
        }
    }
}
