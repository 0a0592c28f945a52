//! Validates the arguments of most calls as they are written, without parsing them into values.
//!
//! It knows a part of JSON Schema: an object whose fields are strings, numbers, booleans or null,
//! some of them required. It never says that arguments are wrong: either the validator would accept
//! them, or the validator has to judge.

use crate::schema::{DIALECTS, JsonObject};
use interlock_proto::scan::{Rest, Scalar};
use serde_json::Value;

/// A schema of flat fields.
#[derive(Debug)]
pub(super) struct FlatSchema {
    fields: Box<[Field]>,
    /// A bit for each field that has to be there.
    required: u64,
}

#[derive(Debug)]
struct Field {
    name: Box<str>,
    kinds: Kinds,
}

/// Which types a field may have.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    text: bool,
    integer: bool,
    fraction: bool,
    truth: bool,
    null: bool,
    /// Numbers may be negative.
    below_zero: bool,
}

/// As many as there are bits.
const MOST_FIELDS: usize = u64::BITS as usize;

/// Keywords that assert nothing.
const ANNOTATIONS: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

/// Formats of numbers, as schemars writes them. The validator ignores them. `float` is missing: a
/// number that was parsed into a value is rounded twice.
const FORMATS: [&str; 9] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "double",
];

impl FlatSchema {
    /// Reads a schema. `None` if it says anything that is not known here.
    pub(super) fn of(schema: &JsonObject) -> Option<Self> {
        let mut fields: Box<[Field]> = Box::default();
        let mut names: &[Value] = &[];
        for (keyword, value) in schema {
            match &**keyword {
                "$schema" => value.as_str()?.ends_with(DIALECTS[0]).then_some(())?,
                "type" => (value == "object").then_some(())?,
                "properties" => {
                    let all = value.as_object()?.iter();
                    fields = all.map(Field::of).collect::<Option<_>>()?;
                }
                "required" => names = value.as_array()?,
                // Only known fields are accepted anyway.
                "additionalProperties" => value.is_boolean().then_some(())?,
                other => ANNOTATIONS.contains(&other).then_some(())?,
            }
        }
        if fields.len() > MOST_FIELDS {
            return None;
        }
        let bit = |name: &Value| {
            let name = name.as_str()?;
            let at = fields.iter().position(|field| &*field.name == name)?;
            Some(1 << at)
        };
        let required = names
            .iter()
            .try_fold(0, |bits, name| Some(bits | bit(name)?))?;
        Some(Self { fields, required })
    }

    /// Whether these arguments are valid. `false` says nothing.
    pub(super) fn accepts(&self, arguments: &str) -> bool {
        let mut seen = 0;
        let mut rest = Rest::of(arguments);
        let read = rest.members(|name, value| {
            let at = self.fields.iter().position(|field| &*field.name == name)?;
            // Readers do not agree about a field that is there twice.
            let is_new = seen & (1 << at) == 0;
            seen |= 1 << at;
            (is_new && self.fields[at].kinds.include(value)).then_some(())
        });
        read.is_some() && rest.is_blank() && seen & self.required == self.required
    }
}

impl Field {
    fn of((name, schema): (&String, &Value)) -> Option<Self> {
        let mut kinds = Kinds {
            below_zero: true,
            ..Kinds::default()
        };
        for (keyword, value) in schema.as_object()? {
            match (&**keyword, value) {
                ("type", Value::Array(types)) => {
                    types.iter().try_for_each(|kind| kinds.add(kind))?;
                }
                ("type", kind) => kinds.add(kind)?,
                ("format", Value::String(format)) => {
                    FORMATS.contains(&&**format).then_some(())?;
                }
                ("minimum", Value::Number(least)) => {
                    (least.as_u64() == Some(0)).then_some(())?;
                    kinds.below_zero = false;
                }
                (other, _) => ANNOTATIONS.contains(&other).then_some(())?,
            }
        }
        let name = Box::from(&**name);
        Some(Self { name, kinds })
    }
}

impl Kinds {
    fn add(&mut self, kind: &Value) -> Option<()> {
        match kind.as_str()? {
            "string" => self.text = true,
            "integer" => self.integer = true,
            "number" => (self.integer, self.fraction) = (true, true),
            "boolean" => self.truth = true,
            "null" => self.null = true,
            _ => return None,
        }
        Some(())
    }

    const fn include(self, value: Scalar<'_>) -> bool {
        match value {
            Scalar::Text(_) => self.text,
            Scalar::Integer { is_negative } => self.integer && (self.below_zero || !is_negative),
            Scalar::Fraction { is_negative } => self.fraction && (self.below_zero || !is_negative),
            Scalar::Truth => self.truth,
            Scalar::Null => self.null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schema;
    use super::*;
    use proptest::{prelude::*, sample::select};
    use serde::Deserialize;
    use serde_json::json;

    fn plain(schema: &Value) -> Option<FlatSchema> {
        FlatSchema::of(schema.as_object().unwrap())
    }

    fn transfer() -> Value {
        json!({
            "type": "object",
            "description": "money from one to another",
            "properties": {
                "to": {"type": "string", "description": "who gets it"},
                "cents": {"type": "integer", "format": "uint32", "minimum": 0},
                "rate": {"type": ["number", "null"], "format": "double"},
                "now": {"type": "boolean", "default": false},
            },
            "required": ["to", "cents"],
        })
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "it is looked at as text")]
    struct Transfer {
        to: String,
        cents: u32,
        rate: Option<f64>,
        #[serde(default)]
        now: bool,
    }

    #[test]
    fn usual_arguments_are_taken_at_a_glance() {
        let transfer = plain(&transfer()).unwrap();
        for arguments in [
            r#"{"to":"Ada","cents":12}"#,
            r#"{"cents": 0, "to": "é", "rate": -0.5, "now": true}"#,
            r#"{"to":"","cents":12,"rate":null}"#,
            r#"{"to":"","cents":12,"rate":3}"#,
        ] {
            assert!(transfer.accepts(arguments), "{arguments}");
        }
        let nothing = plain(&json!({"type": "object"})).unwrap();
        assert!(nothing.accepts("{}"));
    }

    #[test]
    fn what_is_unusual_or_wrong_is_left_to_the_validator() {
        let plain = plain(&transfer()).unwrap();
        for arguments in [
            "",
            "{}",
            "[]",
            r#"{"to":"Ada"}"#,
            r#"{"to":"Ada","cents":-1}"#,
            r#"{"to":"Ada","cents":1.0}"#,
            r#"{"to":"Ada","cents":1e3}"#,
            r#"{"to":"Ada","cents":"12"}"#,
            r#"{"to":"Ada","cents":null}"#,
            r#"{"to":"Ada","cents":12,"more":1}"#,
            r#"{"to":"Ada","to":"Bob","cents":12}"#,
            r#"{"to":"A\u0064a","cents":12}"#,
            r#"{"to":["Ada"],"cents":12}"#,
            r#"{"to":"Ada","cents":12,"now":1}"#,
            r#"{"to":"Ada","cents":12}}"#,
            r#"{"to":"Ada","cents":12"#,
        ] {
            assert!(!plain.accepts(arguments), "{arguments}");
        }
    }

    #[test]
    fn a_schema_that_says_more_is_not_plain() {
        let field = |field: Value| json!({"type": "object", "properties": {"a": field}});
        for schema in [
            json!({"type": "object", "minProperties": 1}),
            json!({"type": "object", "required": ["a"]}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "anyOf": [{}]}),
            json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}),
            field(json!(true)),
            field(json!({"type": "array"})),
            field(json!({"type": "string", "minLength": 1})),
            field(json!({"type": "string", "format": "uri"})),
            field(json!({"type": "number", "format": "float"})),
            field(json!({"type": "integer", "minimum": 1})),
            field(json!({"type": "integer", "maximum": 9})),
            field(json!({"enum": ["a"]})),
            field(json!({"$ref": "#/$defs/a"})),
        ] {
            assert!(plain(&schema).is_none(), "{schema}");
        }
        let many: JsonObject = (0..65).map(|n| (n.to_string(), json!({}))).collect();
        assert!(plain(&json!({"type": "object", "properties": many})).is_none());
    }

    /// Whatever is done to arguments: if they are taken at a glance, the validator takes them, and
    /// they are read alike from text and from values.
    #[test]
    fn what_is_taken_at_a_glance_is_right() {
        let (schema, whole) = (
            transfer(),
            r#"{"to":"Ada","cents":120,"rate": -1.25,"now":true}"#,
        );
        let (plain, whole_schema) = (
            plain(&schema).unwrap(),
            Schema::of_arguments(schema.as_object().unwrap()).unwrap(),
        );
        let mut taken = 0;
        for at in 0..whole.len() {
            for with in [
                "", " ", "\"", "\\", "0", "-", ".", ",", "{", "}", "e1", "é", "\u{1}", "null",
            ] {
                for until in [at, at + 1, at + 3] {
                    let rest = whole.get(until..).unwrap_or_default();
                    let text = format!("{}{with}{rest}", &whole[..at]);
                    if plain.accepts(&text) {
                        let value: Value = serde_json::from_str(&text).expect(&text);
                        assert_eq!(whole_schema.check(&value), Ok(()), "{text}");
                        let written = serde_json::from_str::<Transfer>(&text);
                        let read = serde_json::from_value::<Transfer>(value);
                        let written = written.map_err(drop);
                        assert_eq!(
                            format!("{written:?}"),
                            format!("{:?}", read.map_err(drop)),
                            "{text}"
                        );
                        taken += 1;
                    }
                }
            }
        }
        assert!(taken > 100, "{taken}");
    }

    fn any_field() -> impl Strategy<Value = Value> {
        let kind = || select(vec!["string", "integer", "number", "boolean", "null"]);
        let kinds = prop_oneof![
            kind().prop_map(|kind| json!({"type": kind})),
            proptest::collection::hash_set(kind(), 1..3)
                .prop_map(|kinds| json!({"type": Vec::from_iter(kinds)})),
            Just(json!({})),
        ];
        (kinds, select(vec!["", "minimum", "format", "title"])).prop_map(|(mut field, more)| {
            match more {
                "minimum" => field["minimum"] = json!(0),
                "format" => field["format"] = json!("int8"),
                "title" => field["title"] = json!("a field"),
                _ => {}
            }
            field
        })
    }

    proptest! {
        #[test]
        fn what_is_taken_at_a_glance_is_right_for_any_plain_schema(
            fields in proptest::collection::vec(any_field(), 0..4),
            required in 0_usize..4,
            closed in any::<bool>(),
            values in proptest::collection::vec(
                (0_usize..5, select(vec![
                    "\"x\"", "\"\"", "0", "-0", "7", "-7", "0.0", "-2.5", "1e2", "true", "false",
                    "null", "[]", "{}", "123456789012345", "1234567890123456", "00", ".5", "5.",
                ])),
                0..5,
            ),
        ) {
            let names: Vec<_> = (0..fields.len()).map(|n| format!("f{n}")).collect();
            let required: Vec<_> = names.iter().take(required).collect();
            let properties: JsonObject = names.iter().cloned().zip(fields).collect();
            let schema = json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": !closed,
            });
            let schema = schema.as_object().unwrap();
            let plain = FlatSchema::of(schema).expect("it is plain");
            let members: Vec<_> = values.iter().map(|(n, value)| format!("\"f{n}\":{value}")).collect();
            let text = format!("{{{}}}", members.join(", "));
            if plain.accepts(&text) {
                let value: Value = serde_json::from_str(&text).expect("it is JSON");
                prop_assert_eq!(Schema::of_arguments(schema).unwrap().check(&value), Ok(()));
            }
        }
    }
}
