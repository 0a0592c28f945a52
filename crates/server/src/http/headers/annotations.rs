//! Which properties of an `inputSchema` are annotated with `x-mcp-header`, and whether they may be.

use crate::model::JsonObject;
use interlock_proto::refusal::shortened;
use serde_json::Value;
use std::collections::HashSet;

const ANNOTATION: &str = "x-mcp-header";

/// As deep as JSON from the wire can be.
const MOST_DEPTH: usize = 128;

/// Long enough for any name, and short enough to be repeated in a message.
const LONGEST_NAME: usize = 256;

/// The names that lead to each annotated property, and the annotation.
pub(super) fn find(schema: &JsonObject) -> Result<Vec<Annotated<'_>>, String> {
    let mut search = Search::default();
    search.schema(schema, Reach::Properties, 0)?;
    Ok(search.found)
}

/// A property that is mirrored.
#[derive(Debug)]
pub(super) struct Annotated<'a> {
    /// What its header is called, after `Mcp-Param-`.
    pub(super) name: &'a str,
    /// The names that lead to it.
    pub(super) path: Vec<&'a str>,
}

/// How one comes to a place in a schema.
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
    found: Vec<Annotated<'a>>,
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

    /// The value of a keyword that may hold schemas: composition, conditions, arrays, and whatever
    /// we do not know.
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
        annotation: &'a Value,
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
        self.found.push(Annotated {
            name,
            path: self.path.clone(),
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
        let found = find(schema)?;
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
