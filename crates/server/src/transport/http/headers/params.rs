//! Compares the arguments of a call with the headers that mirror them.

use super::{HeaderValues, decoded, differs, single};
use crate::{
    catalog::header_params::{CheckHeaders, HeaderParam},
    model::JsonObject,
    transport::http::stateless::mismatch,
};
use http::HeaderMap;
use interlock_proto::{Refusal, refusal::shortened};
use serde_json::{Number, Value};
use std::borrow::Cow;

/// 2^53 − 1: up to here every integer is one that JavaScript can tell from its neighbours.
const LARGEST: f64 = 9_007_199_254_740_991.0;

impl CheckHeaders for HeaderMap {
    fn check(&self, params: &[HeaderParam], arguments: Option<&JsonObject>) -> Result<(), Refusal> {
        check_all(params, self, arguments).map_err(mismatch)
    }
}

fn check_all(
    params: &[HeaderParam],
    headers: &HeaderMap,
    arguments: Option<&JsonObject>,
) -> Result<(), String> {
    params
        .iter()
        .try_for_each(|param| check(param, headers, arguments))
}

fn check(
    param: &HeaderParam,
    headers: &HeaderMap,
    arguments: Option<&JsonObject>,
) -> Result<(), String> {
    let header = &param.header;
    let value = single(HeaderValues::of(headers.get_all(header)), header)?;
    let argument = arguments.and_then(|arguments| param.find(arguments));
    match (value, argument.and_then(mirrored)) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(format!(
            "the header {header} is missing where the body has the argument `{}`",
            param.place()
        )),
        (Some(value), None) => Err(format!(
            "the header {header} says `{}` where the body has no argument `{}` to mirror",
            shortened(value),
            param.place()
        )),
        (Some(value), Some(mirrored)) => match mirrored.compare(&decoded(header, value)?) {
            Comparison::Same => Ok(()),
            Comparison::Different => Err(differs(header, value, &mirrored.text())),
            Comparison::TooLarge => Err(format!(
                "the argument `{}` is too large an integer for the header {header}",
                param.place()
            )),
        },
    }
}

/// A value that a header can hold. `null` is as good as absent; arrays and objects have no form
/// in a header, and the tool's schema will refuse them.
enum Mirrored<'a> {
    Text(&'a str),
    Truth(bool),
    Number(&'a Number),
}

fn mirrored(value: &Value) -> Option<Mirrored<'_>> {
    match value {
        Value::String(text) => Some(Mirrored::Text(text)),
        Value::Bool(truth) => Some(Mirrored::Truth(*truth)),
        Value::Number(number) => Some(Mirrored::Number(number)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

enum Comparison {
    Same,
    Different,
    TooLarge,
}

impl Comparison {
    const fn of(same: bool) -> Self {
        if same { Self::Same } else { Self::Different }
    }
}

impl Mirrored<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Truth(truth) => Cow::Owned(truth.to_string()),
            Self::Number(number) => Cow::Owned(number.to_string()),
        }
    }

    /// Integers are compared as numbers, everything else as text.
    fn compare(&self, said: &str) -> Comparison {
        let Self::Number(number) = self else {
            return Comparison::of(self.text() == said);
        };
        match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && whole.abs() <= LARGEST => {
                Comparison::of(integer(said) == Some(whole))
            }
            Some(fraction) if fraction.fract() != 0.0 => Comparison::of(self.text() == said),
            Some(_) | None => Comparison::TooLarge,
        }
    }
}

/// Reads a decimal integer, also one with zeros behind a point. Up to [`LARGEST`] this is exact,
/// and what is larger stays larger.
fn integer(text: &str) -> Option<f64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let sound = digits(whole.strip_prefix('-').unwrap_or(whole)) && digits(fraction);
    let zeros = fraction.bytes().all(|byte| byte == b'0');
    whole.parse().ok().filter(|_| sound && zeros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::http::headers::tests::headers;
    use serde_json::json;

    fn object(value: Value) -> JsonObject {
        value.as_object().expect("an object").clone()
    }

    struct Params(Vec<HeaderParam>);

    impl Params {
        fn check(&self, headers: &HeaderMap, arguments: Option<&JsonObject>) -> Result<(), String> {
            check_all(&self.0, headers, arguments)
        }
    }

    fn read(schema: Value) -> Result<Params, String> {
        HeaderParam::all(&object(schema)).map(Params)
    }

    /// A schema whose one property is annotated.
    fn one(kind: &str) -> Params {
        let schema = json!({"properties": {"value": {"type": kind, "x-mcp-header": "Value"}}});
        read(schema).unwrap()
    }

    fn call(kind: &str, argument: Value, header: &str) -> Result<(), String> {
        let arguments = object(json!({ "value": argument }));
        one(kind).check(&headers(&[("mcp-param-value", header)]), Some(&arguments))
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(answer: Result<T, String>, because: &str) {
        let message = answer.expect_err("should be refused");
        assert!(message.contains(because), "{message}");
        assert!(message.chars().count() < 500, "{message}");
    }

    #[test]
    fn a_schema_without_annotations_mirrors_nothing() {
        for schema in [
            json!({}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": true}}),
            json!({"properties": ["not", "an", "object"], "anyOf": 7}),
        ] {
            let none = read(schema).unwrap();
            assert!(none.0.is_empty());
            let unknown = headers(&[("mcp-param-other", "x")]);
            assert_eq!(none.check(&unknown, None), Ok(()));
        }
    }

    #[test]
    fn properties_are_found_at_any_depth() {
        let found = read(json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "options": {"type": "object", "properties": {
                "limit": {"type": "integer", "x-mcp-header": "Limit"},
            }},
        }}))
        .unwrap();
        assert!(!found.0.is_empty());
        let arguments = object(json!({"region": "eu", "options": {"limit": 5}, "Limit": 6}));
        let check = |pairs| found.check(&headers(pairs), Some(&arguments));
        assert_eq!(
            check(&[("Mcp-Param-Region", "eu"), ("MCP-PARAM-LIMIT", "5")]),
            Ok(())
        );
        refused(
            check(&[("Mcp-Param-Region", "eu"), ("Mcp-Param-Limit", "6")]),
            "the header Mcp-Param-Limit says `6` where the body says `5`",
        );
        refused(
            check(&[("Mcp-Param-Region", "eu")]),
            "the header Mcp-Param-Limit is missing where the body has the argument `options.limit`",
        );
    }

    #[test]
    fn a_property_called_properties_is_a_property() {
        let found = read(json!({"properties": {"properties": {"properties": {
            "default": {"type": "string", "x-mcp-header": "A"},
        }}}}))
        .unwrap();
        let arguments = object(json!({"properties": {"default": "x"}}));
        let said = headers(&[("mcp-param-a", "x")]);
        assert_eq!(found.check(&said, Some(&arguments)), Ok(()));
    }

    #[test]
    fn text_is_compared_exactly() {
        for (argument, header) in [
            ("us-west1", "us-west1"),
            ("us west 1", " us west 1\t"),
            ("", ""),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            let answer = call("string", json!(argument), header);
            assert_eq!(answer, Ok(()), "{argument:?}");
        }
        for (argument, header) in [
            ("us-west1", "US-WEST1"),
            ("us-west1", "us-west2"),
            ("us-west1", ""),
            (" padded ", "padded"),
            ("42", "42.0"),
            ("=?base64?cGF5?=", "=?base64?cGF5?="),
        ] {
            let answer = call("string", json!(argument), header);
            refused(answer, "Mcp-Param-Value says");
        }
    }

    #[test]
    fn characters_that_a_header_cannot_have_are_refused() {
        refused(call("string", json!("世界"), "世界"), "not visible ASCII");
        refused(call("string", json!("x"), "=?base64?eA?="), "base64");
        refused(call("string", json!("x"), "=?base64?/w==?="), "UTF-8");
    }

    #[test]
    fn integers_are_compared_as_numbers() {
        for (argument, header) in [
            (json!(42), "42"),
            (json!(42), "42.0"),
            (json!(42.0), "42"),
            (json!(-7), "-7"),
            (json!(0), "-0"),
            (json!(42), "=?base64?NDI=?="),
            (json!(9_007_199_254_740_991_i64), "9007199254740991"),
            (json!(-9_007_199_254_740_991_i64), "-9007199254740991.000"),
        ] {
            let answer = call("integer", argument.clone(), header);
            assert_eq!(answer, Ok(()), "{argument} {header}");
        }
        for header in [
            "43",
            "-42",
            "42.5",
            "42.",
            ".42",
            "",
            "-",
            "+42",
            "4.2e1",
            "0x2a",
            "4 2",
            "inf",
            "NaN",
            "42.0.0",
            "42,0",
            "4200000000000000000000000000",
            "=?base64?NDIK?=",
        ] {
            let answer = call("integer", json!(42), header);
            refused(answer, "Mcp-Param-Value says");
        }
    }

    #[test]
    fn an_integer_close_to_another_is_not_the_same() {
        let largest = json!(9_007_199_254_740_991_i64);
        for header in ["9007199254740990", "9007199254740991.4", "9007199254740992"] {
            refused(call("integer", largest.clone(), header), "says");
        }
    }

    #[test]
    fn an_integer_outside_the_safe_range_is_refused_even_if_the_header_agrees() {
        for argument in [
            json!(9_007_199_254_740_992_i64),
            json!(-9_007_199_254_740_993_i64),
            json!(u64::MAX),
            json!(1e300),
        ] {
            let header = argument.to_string();
            refused(call("integer", argument, &header), "too large an integer");
        }
    }

    #[test]
    fn truths_are_compared_in_lower_case() {
        assert_eq!(call("boolean", json!(true), "true"), Ok(()));
        assert_eq!(call("boolean", json!(false), "false"), Ok(()));
        for header in ["false", "True", "1", ""] {
            refused(call("boolean", json!(true), header), "says");
        }
    }

    #[test]
    fn an_argument_of_the_wrong_type_is_left_to_the_schema_if_the_header_agrees() {
        assert_eq!(call("string", json!(5), "5"), Ok(()));
        assert_eq!(call("integer", json!("five"), "five"), Ok(()));
        assert_eq!(call("integer", json!(1.5), "1.5"), Ok(()));
        refused(call("integer", json!(1.5), "1.6"), "says `1.6`");
        let list = object(json!({"value": [1]}));
        assert_eq!(one("integer").check(&HeaderMap::new(), Some(&list)), Ok(()));
        refused(call("integer", json!([1]), "[1]"), "no argument `value`");
    }

    #[test]
    fn an_absent_or_null_argument_has_no_header() {
        let none = HeaderMap::new();
        let some = headers(&[("mcp-param-value", "x")]);
        let null = object(json!({"value": null}));
        let empty = JsonObject::new();
        for arguments in [None, Some(&null), Some(&empty)] {
            assert_eq!(one("string").check(&none, arguments), Ok(()));
            refused(
                one("string").check(&some, arguments),
                "the header Mcp-Param-Value says `x` where the body has no argument `value`",
            );
        }
    }

    #[test]
    fn a_path_that_leads_through_something_else_than_objects_leads_nowhere() {
        let nested = json!({"properties": {"a": {"properties": {
            "b": {"type": "string", "x-mcp-header": "B"},
        }}}});
        let nested = read(nested).unwrap();
        for value in [
            json!("b"),
            json!(null),
            json!([{"b": "x"}]),
            json!({"c": "x"}),
        ] {
            let arguments = object(json!({ "a": value }));
            assert_eq!(nested.check(&HeaderMap::new(), Some(&arguments)), Ok(()));
        }
    }

    #[test]
    fn a_header_given_twice_is_refused_even_if_both_agree() {
        let twice = headers(&[("mcp-param-value", "x"), ("Mcp-Param-Value", "x")]);
        let arguments = object(json!({"value": "x"}));
        refused(
            one("string").check(&twice, Some(&arguments)),
            "more than once",
        );
    }

    #[test]
    fn a_missing_header_is_refused() {
        for argument in [json!("x"), json!(""), json!(0), json!(false)] {
            let arguments = object(json!({ "value": argument }));
            refused(
                one("string").check(&HeaderMap::new(), Some(&arguments)),
                "is missing",
            );
        }
    }

    #[test]
    fn long_values_are_not_repeated_whole() {
        let long = "x".repeat(100_000);
        refused(call("string", json!(long), "y"), "says `y`");
        refused(call("string", json!("y"), &long), "says `xxx");
    }
}
