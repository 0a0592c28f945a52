//! A value that fits a JSON schema, for trying an expression out before anything runs.

use serde_json::{Map, Value, json};

/// How deep a sample nests, references included.
const DEEPEST: usize = 8;

/// How many values a sample has at most.
const MOST: usize = 500;

/// How many items a list has at most, however many the schema asks for.
const MOST_ITEMS: u64 = 3;

/// How long a text is at most, however long the schema wants it.
const LONGEST: u64 = 100;

/// A value that fits the schema as far as it says what it wants: every property is filled in, the
/// first of several forms is taken. `None` where it says nothing that helps.
pub(crate) fn sample(schema: &Value) -> Option<Value> {
    let mut sampler = Sampler {
        document: schema,
        left: MOST,
    };
    sampler.sample(schema, 0)
}

struct Sampler<'s> {
    document: &'s Value,
    left: usize,
}

impl<'s> Sampler<'s> {
    fn sample(&mut self, schema: &'s Value, depth: usize) -> Option<Value> {
        let schema = schema.as_object()?;
        if depth > DEEPEST {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        given(schema)
            .or_else(|| self.referred(schema, depth))
            .or_else(|| self.merged(schema, depth))
            .or_else(|| self.first_form(schema, depth))
            .or_else(|| self.typed(schema, depth))
    }

    fn referred(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Option<Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        let target = self.document.pointer(pointer)?;
        self.sample(target, depth + 1)
    }

    /// `allOf`: objects are put together, of anything else the first is taken.
    fn merged(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Option<Value> {
        let parts = schema.get("allOf")?.as_array()?;
        let mut merged = self.typed(schema, depth);
        for part in parts {
            let part = self.sample(part, depth + 1);
            merged = match (merged, part) {
                (Some(Value::Object(mut fields)), Some(Value::Object(more))) => {
                    fields.extend(more);
                    Some(Value::Object(fields))
                }
                (merged, part) => merged.or(part),
            };
        }
        merged
    }

    /// `oneOf` and `anyOf`: the first form that can be sampled, rather not null, with the properties
    /// beside it.
    fn first_form(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Option<Value> {
        let forms = schema.get("oneOf").or_else(|| schema.get("anyOf"))?;
        let mut forms = forms.as_array()?.iter();
        let mut form = forms.find_map(|form| self.sample(form, depth + 1))?;
        if form.is_null() {
            let other = forms.find_map(|form| self.sample(form, depth + 1));
            form = other.unwrap_or(form);
        }
        match (self.typed(schema, depth), form) {
            (Some(Value::Object(mut fields)), Value::Object(more)) => {
                fields.extend(more);
                Some(Value::Object(fields))
            }
            (_, form) => Some(form),
        }
    }

    fn typed(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Option<Value> {
        match kind(schema)? {
            "object" => Some(Value::Object(self.object(schema, depth))),
            "array" => Some(Value::Array(self.array(schema, depth))),
            "string" => Some(Value::String(text(schema))),
            "integer" => integer(schema),
            "number" => number(schema),
            "boolean" => Some(Value::Bool(true)),
            "null" => Some(Value::Null),
            _ => None,
        }
    }

    fn object(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut fields = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, property) in properties.into_iter().flatten() {
            if let Some(value) = self.sample(property, depth + 1) {
                fields.insert(key.clone(), value);
            }
        }
        fields
    }

    fn array(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Vec<Value> {
        let fixed = schema.get("prefixItems").and_then(Value::as_array);
        let mut items: Vec<Value> = fixed
            .into_iter()
            .flatten()
            .map_while(|item| self.sample(item, depth + 1))
            .collect();
        let least = schema.get("minItems").and_then(Value::as_u64);
        let most = schema.get("maxItems").and_then(Value::as_u64);
        let wanted = least
            .unwrap_or(1)
            .clamp(1, MOST_ITEMS)
            .min(most.unwrap_or(u64::MAX));
        let Some(each) = schema.get("items") else {
            return items;
        };
        while (items.len() as u64) < wanted {
            match self.sample(each, depth + 1) {
                Some(item) => items.push(item),
                None => break,
            }
        }
        items
    }
}

/// A value that the schema itself spells out.
fn given(schema: &Map<String, Value>) -> Option<Value> {
    let first = |key: &str| schema.get(key)?.as_array()?.first().cloned();
    schema.get("const").cloned().or_else(|| first("enum"))
}

/// The first type that the schema names which is not null, or the one that its keywords imply.
fn kind(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            let first = kinds.next()?;
            Some(if first == "null" {
                kinds.next().unwrap_or(first)
            } else {
                first
            })
        }
        Some(_) => None,
        None if schema.contains_key("properties") => Some("object"),
        None if schema.contains_key("items") || schema.contains_key("prefixItems") => Some("array"),
        None => None,
    }
}

fn text(schema: &Map<String, Value>) -> String {
    let formatted = match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => Some("2025-01-31T12:00:00Z"),
        Some("date") => Some("2025-01-31"),
        Some("time") => Some("12:00:00Z"),
        Some("email") => Some("someone@example.com"),
        Some("uri") => Some("https://example.com/"),
        Some("uuid") => Some("00000000-0000-4000-8000-000000000000"),
        _ => None,
    };
    if let Some(text) = formatted {
        return text.to_owned();
    }
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let most = bound("maxLength").unwrap_or(LONGEST);
    let length = bound("minLength").unwrap_or(1).clamp(1, LONGEST).min(most);
    "x".repeat(usize::try_from(length).unwrap_or(1))
}

fn integer(schema: &Map<String, Value>) -> Option<Value> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let least = bound("minimum").map(f64::ceil);
    let least = least.or(bound("exclusiveMinimum").map(|least| least.floor() + 1.0));
    let most = bound("maximum").map(f64::floor);
    let most = most.or(bound("exclusiveMaximum").map(|most| most.ceil() - 1.0));
    let wanted = between(1.0, least, most);
    let step = bound("multipleOf")
        .filter(|step| *step >= 1.0)
        .unwrap_or(1.0);
    let stepped = (wanted / step).ceil() * step;
    let fits = most.is_none_or(|most| stepped <= most);
    // The cast saturates, and a schema with such bounds is sampled as well as it can be.
    Some(Value::from(if fits { stepped } else { wanted } as i64))
}

fn number(schema: &Map<String, Value>) -> Option<Value> {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let least = bound("minimum").or(bound("exclusiveMinimum").map(|least| least + 0.5));
    let most = bound("maximum").or(bound("exclusiveMaximum").map(|most| most - 0.5));
    let wanted = between(1.5, least, most);
    wanted.is_finite().then(|| json!(wanted))
}

fn between(wanted: f64, least: Option<f64>, most: Option<f64>) -> f64 {
    let wanted = least.map_or(wanted, |least| wanted.max(least));
    most.map_or(wanted, |most| wanted.min(most))
}
