//! The arguments of a tool that its calls mirror in HTTP headers: `x-mcp-header` in its
//! `inputSchema`.

use crate::model::JsonObject;
use interlock_proto::{Refusal, refusal::shortened};
use serde_json::Value;
use std::collections::HashSet;

const ANNOTATION: &str = "x-mcp-header";

/// As deep as JSON from the wire can be.
const MOST_DEPTH: usize = 128;

/// Long enough for any name, and short enough to be repeated in a message.
const LONGEST_NAME: usize = 256;

/// An argument that is mirrored in a header.
#[derive(Clone, Debug)]
pub(crate) struct HeaderParam {
    /// `Mcp-Param-…`, as the tool's author wrote it.
    pub(crate) header: String,
    /// The names that lead from the arguments to the value.
    path: Vec<String>,
}

impl HeaderParam {
    /// Reads the annotations of an `inputSchema`. One that breaks a rule makes the whole tool
    /// invalid: clients would leave it out.
    pub(crate) fn all(schema: &JsonObject) -> Result<Vec<Self>, String> {
        let mut search = Search::default();
        search.schema(schema, Reach::Properties, 0)?;
        Ok(search.found)
    }

    pub(crate) fn find<'a>(&self, arguments: &'a JsonObject) -> Option<&'a Value> {
        let (first, rest) = self.path.split_first()?;
        let step = |value: &'a Value, name| value.as_object()?.get(name);
        rest.iter().try_fold(arguments.get(first)?, step)
    }

    /// The path as messages show it.
    pub(crate) fn place(&self) -> String {
        shortened(&self.path.join("."))
    }
}

/// Compares headers with the arguments that they mirror. The transport implements it.
pub(crate) trait CheckHeaders {
    fn check(&self, params: &[HeaderParam], arguments: Option<&JsonObject>) -> Result<(), Refusal>;
}

/// How a place in a schema is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// From the root, through `properties` and nothing else.
    Properties,
    /// In any other way.
    Otherwise,
}

/// A walk through a schema.
#[derive(Default)]
struct Search<'a> {
    path: Vec<&'a str>,
    names: HashSet<String>,
    found: Vec<HeaderParam>,
}

impl<'a> Search<'a> {
    fn schema(&mut self, schema: &'a JsonObject, reach: Reach, depth: usize) -> Result<(), String> {
        bounded(depth)?;
        for (keyword, value) in schema {
            match keyword.as_str() {
                ANNOTATION => self.annotation(schema, value, reach)?,
                "properties" => self.members(value, reach, depth + 1)?,
                "$defs" | "definitions" | "dependencies" | "dependentSchemas"
                | "patternProperties" => self.members(value, Reach::Otherwise, depth + 1)?,
                // These hold data, and data may look like anything.
                "const" | "default" | "enum" | "examples" => {}
                _ => self.anything(value, depth + 1)?,
            }
        }
        Ok(())
    }

    /// An object whose names are no keywords.
    fn members(&mut self, value: &'a Value, reach: Reach, depth: usize) -> Result<(), String> {
        for (name, member) in value.as_object().into_iter().flatten() {
            self.path.push(name);
            if let Value::Object(schema) = member {
                self.schema(schema, reach, depth + 1)?;
            }
            self.path.pop();
        }
        Ok(())
    }

    /// The value of a keyword that may hold schemas: composition, conditions, arrays, and unknown
    /// keywords.
    fn anything(&mut self, value: &'a Value, depth: usize) -> Result<(), String> {
        bounded(depth)?;
        match value {
            Value::Object(schema) => self.schema(schema, Reach::Otherwise, depth),
            Value::Array(items) => items
                .iter()
                .try_for_each(|item| self.anything(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn annotation(
        &mut self,
        schema: &JsonObject,
        annotation: &Value,
        reach: Reach,
    ) -> Result<(), String> {
        let place = shortened(&self.path.join("."));
        if reach == Reach::Otherwise || self.path.is_empty() {
            return Err(format!(
                "{ANNOTATION} is only for properties that `properties` alone leads to, and \
                 stands elsewhere, at `{place}`"
            ));
        }
        let Value::String(name) = annotation else {
            return Err(format!("{ANNOTATION} of `{place}` is not a string"));
        };
        let shown = shortened(name);
        let sound = (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_token);
        if !sound {
            return Err(format!(
                "{ANNOTATION} of `{place}` is `{shown}`, which cannot be part of a header's name"
            ));
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string" | "integer" | "boolean") => {}
            Some(_) | None => {
                return Err(format!(
                    "{ANNOTATION} is on `{place}`, whose type is not one of string, integer and \
                     boolean"
                ));
            }
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(format!("{ANNOTATION} `{shown}` of `{place}` is taken"));
        }
        self.found.push(HeaderParam {
            header: format!("Mcp-Param-{name}"),
            path: self.path.iter().map(|name| (*name).to_owned()).collect(),
        });
        Ok(())
    }
}

fn bounded(depth: usize) -> Result<(), String> {
    if depth > MOST_DEPTH {
        Err(format!("the schema is nested more than {MOST_DEPTH} deep"))
    } else {
        Ok(())
    }
}

/// What RFC 9110 calls `tchar`.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(schema: Value) -> Result<Vec<String>, String> {
        let schema = schema.as_object().expect("an object");
        let found = HeaderParam::all(schema)?;
        Ok(found.iter().map(|one| one.path.join(".")).collect())
    }

    #[track_caller]
    fn refused(answer: Result<Vec<String>, String>, because: &str) {
        let message = answer.expect_err("should be refused");
        assert!(message.contains(because), "{message}");
        assert!(message.chars().count() < 500, "{message}");
    }

    #[track_caller]
    fn misplaced(schema: Value) {
        refused(read(schema), "stands elsewhere");
    }

    #[test]
    fn a_name_that_no_header_can_have_is_refused() {
        for name in [
            "",
            " ",
            "My Region",
            "Region:Primary",
            "Région",
            "Region\t1",
            "a\r\nb",
            "a\u{7f}",
            "(a)",
            "a,b",
            "a/b",
            "\"a\"",
            "a@b",
        ] {
            let schema = json!({"properties": {"a": {"type": "string", ANNOTATION: name}}});
            refused(read(schema), "cannot be part of a header's name");
        }
        let named = |length| {
            let name = "x".repeat(length);
            read(json!({"properties": {"a": {"type": "string", ANNOTATION: name}}}))
        };
        assert!(named(LONGEST_NAME).is_ok());
        refused(named(LONGEST_NAME + 1), "cannot be part of a header's name");
        refused(named(100_000), "cannot be part of a header's name");
        for name in [json!(1), json!(null), json!(["Region"]), json!({})] {
            let schema = json!({"properties": {"a": {"type": "string", ANNOTATION: name}}});
            refused(read(schema), "is not a string");
        }
    }

    #[test]
    fn every_other_name_is_fine() {
        for name in ["Region", "Method", "x-y_z.1", "!#$%&'*+-.^_`|~09azAZ"] {
            let schema = json!({"properties": {"a": {"type": "string", ANNOTATION: name}}});
            assert!(read(schema).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_name_is_taken_in_any_case() {
        refused(
            read(json!({"properties": {
                "a": {"type": "string", ANNOTATION: "Region"},
                "b": {"properties": {"c": {"type": "string", ANNOTATION: "REGION"}}},
            }})),
            "x-mcp-header `REGION` of `b.c` is taken",
        );
    }

    #[test]
    fn only_the_three_plain_types_can_be_mirrored() {
        for kind in ["string", "integer", "boolean"] {
            let schema = json!({"properties": {"a": {"type": kind, ANNOTATION: "A"}}});
            assert_eq!(read(schema), Ok(vec!["a".to_owned()]));
        }
        for kind in [
            json!("number"),
            json!("array"),
            json!("object"),
            json!("null"),
            json!(["string", "null"]),
            json!(["string"]),
            json!(null),
        ] {
            let schema = json!({"properties": {"a": {"type": kind, ANNOTATION: "A"}}});
            refused(read(schema), "whose type is not one of");
        }
        let untyped = json!({"properties": {"a": {"enum": ["x"], ANNOTATION: "A"}}});
        refused(read(untyped), "whose type is not one of");
    }

    #[test]
    fn an_annotation_that_properties_alone_do_not_lead_to_is_refused() {
        let marked = json!({"type": "string", ANNOTATION: "A"});
        let inside = json!({"properties": {"a": marked}});
        misplaced(marked.clone());
        for keyword in [
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedItems",
            "not",
            "if",
            "then",
            "else",
            "x-unknown",
        ] {
            misplaced(json!({ keyword: marked }));
            misplaced(json!({ keyword: inside }));
            misplaced(json!({"properties": {"b": { keyword: inside }}}));
        }
        for keyword in ["oneOf", "anyOf", "allOf", "prefixItems", "items"] {
            misplaced(json!({ keyword: [true, inside] }));
            misplaced(json!({"properties": {"b": { keyword: [marked] }}}));
        }
        for keyword in [
            "$defs",
            "definitions",
            "patternProperties",
            "dependentSchemas",
        ] {
            misplaced(json!({ keyword: {"b": marked} }));
            misplaced(json!({ keyword: {"b": inside} }));
        }
    }

    #[test]
    fn what_only_looks_like_an_annotation_is_none() {
        let lookalike = json!({ANNOTATION: "A"});
        let found = read(json!({
            "properties": {ANNOTATION: {"type": "string"}},
            "$defs": {ANNOTATION: {"type": "string"}},
            "default": lookalike,
            "const": lookalike,
            "enum": [lookalike],
            "examples": [lookalike],
            "required": [ANNOTATION],
        }));
        assert_eq!(found, Ok(vec![]));
    }

    #[test]
    fn a_schema_nested_too_deeply_is_refused() {
        let nested = |levels: usize| {
            (0..levels).fold(json!({}), |schema, _| json!({"properties": {"a": schema}}))
        };
        assert!(read(nested(60)).is_ok());
        refused(read(nested(300)), "nested more than");
        let listed = (0..300).fold(json!({}), |schema, _| json!({"anyOf": [schema]}));
        refused(read(listed), "nested more than");
        let lists = (0..300).fold(json!([]), |list, _| json!([list]));
        refused(read(json!({ "x-unknown": lists })), "nested more than");
    }
}
