//! What operators and functions do with values, and the failures that they end in.

use super::datum::{Datum, Numeric, Outcome};
use super::failed::Failed;
use super::node::{Binary, Function};

pub(super) fn negate<'a>(value: &Datum<'a>) -> Outcome<'a> {
    if let Datum::Double(value) = value {
        return Ok(Datum::Double(-value));
    }
    let Datum::Int(value) = value else {
        return Err(wrong("-", value.kind()));
    };
    let negated = value.checked_neg();
    negated
        .map(Datum::Int)
        .ok_or_else(|| no_result(Binary::Subtract))
}

pub(super) fn arithmetic<'a>(operator: Binary, left: &Datum<'a>, right: &Datum<'a>) -> Outcome<'a> {
    let result = match (left.numeric(), right.numeric()) {
        (Some(Numeric::Int(left)), Some(Numeric::Int(right))) => {
            ints(operator, left, right).map(Datum::Int)
        }
        (Some(Numeric::Uint(left)), Some(Numeric::Uint(right))) => {
            uints(operator, left, right).map(Datum::Uint)
        }
        (Some(Numeric::Double(left)), Some(Numeric::Double(right)))
            if operator != Binary::Modulo =>
        {
            doubles(operator, left, right).map(Datum::Double)
        }
        _ => return Err(wrong_pair(operator, left, right)),
    };
    result.ok_or_else(|| no_result(operator))
}

macro_rules! checked {
    ($name:ident, $kind:ty) => {
        fn $name(operator: Binary, left: $kind, right: $kind) -> Option<$kind> {
            match operator {
                Binary::Add => left.checked_add(right),
                Binary::Subtract => left.checked_sub(right),
                Binary::Multiply => left.checked_mul(right),
                Binary::Divide => left.checked_div(right),
                Binary::Modulo => left.checked_rem(right),
                Binary::Equal
                | Binary::Unequal
                | Binary::Less
                | Binary::LessOrEqual
                | Binary::Greater
                | Binary::GreaterOrEqual
                | Binary::In => None,
            }
        }
    };
}

checked!(ints, i64);
checked!(uints, u64);

fn doubles(operator: Binary, left: f64, right: f64) -> Option<f64> {
    match operator {
        Binary::Add => Some(left + right),
        Binary::Subtract => Some(left - right),
        Binary::Multiply => Some(left * right),
        Binary::Divide => Some(left / right),
        Binary::Modulo
        | Binary::Equal
        | Binary::Unequal
        | Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual
        | Binary::In => None,
    }
}

/// A function of one value.
pub(super) fn apply(function: Function, subject: Datum<'_>) -> Outcome<'_> {
    let result = match function {
        Function::Size => size(&subject),
        Function::LowerAscii => subject
            .text()
            .map(|text| Datum::built(text.to_ascii_lowercase())),
        Function::UpperAscii => subject
            .text()
            .map(|text| Datum::built(text.to_ascii_uppercase())),
        Function::Trim => subject
            .text()
            .map(|text| Datum::built(text.trim().to_owned())),
        Function::Bool | Function::Int | Function::Uint | Function::Double | Function::String => {
            return convert(function, subject);
        }
        Function::Contains | Function::StartsWith | Function::EndsWith | Function::Matches => None,
    };
    result.ok_or_else(|| wrong(function.name(), subject.kind()))
}

fn size<'a>(subject: &Datum<'a>) -> Option<Datum<'a>> {
    let text = subject.text().map(|text| text.chars().count());
    let size = i64::try_from(text.or_else(|| subject.len())?).ok()?;
    Some(Datum::Int(size))
}

fn convert(function: Function, subject: Datum<'_>) -> Outcome<'_> {
    let number = subject.numeric();
    let text = subject.text();
    let converted = match function {
        Function::Int => match number {
            Some(number) => int(number).map(Datum::Int),
            None => text.and_then(|text| text.parse().ok()).map(Datum::Int),
        },
        Function::Uint => match number {
            Some(number) => uint(number).map(Datum::Uint),
            None => text.and_then(|text| text.parse().ok()).map(Datum::Uint),
        },
        Function::Double => match number {
            Some(number) => Some(Datum::Double(double(number))),
            None => text.and_then(|text| text.parse().ok()).map(Datum::Double),
        },
        Function::Bool => truth(&subject).map(Datum::Bool),
        Function::String => return string(subject),
        Function::Size
        | Function::Contains
        | Function::StartsWith
        | Function::EndsWith
        | Function::Matches
        | Function::LowerAscii
        | Function::UpperAscii
        | Function::Trim => None,
    };
    converted.ok_or_else(|| {
        let (function, found) = (function.name(), subject.kind());
        if subject.numeric().is_some() || subject.text().is_some() {
            Box::new(Failed::Conversion { function, found })
        } else {
            wrong(function, found)
        }
    })
}

fn int(number: Numeric) -> Option<i64> {
    match number {
        Numeric::Int(value) => Some(value),
        Numeric::Uint(value) => value.try_into().ok(),
        // As in CEL, both ends of the range are out of it.
        Numeric::Double(value) => {
            let within = value > i64::MIN as f64 && value < i64::MAX as f64;
            within.then_some(value as i64)
        }
    }
}

fn uint(number: Numeric) -> Option<u64> {
    match number {
        Numeric::Int(value) => value.try_into().ok(),
        Numeric::Uint(value) => Some(value),
        Numeric::Double(value) => (value >= 0.0 && value < u64::MAX as f64).then_some(value as u64),
    }
}

fn double(number: Numeric) -> f64 {
    match number {
        Numeric::Int(value) => value as f64,
        Numeric::Uint(value) => value as f64,
        Numeric::Double(value) => value,
    }
}

fn truth(subject: &Datum<'_>) -> Option<bool> {
    if let Datum::Bool(value) = subject {
        return Some(*value);
    }
    match subject.text()? {
        "1" | "t" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn string(subject: Datum<'_>) -> Outcome<'_> {
    let text = match &subject {
        Datum::Text(_) | Datum::Built(_) => return Ok(subject),
        Datum::Bool(value) => value.to_string(),
        Datum::Int(value) => value.to_string(),
        Datum::Uint(value) => value.to_string(),
        Datum::Double(value) => value.to_string(),
        Datum::Null | Datum::Array(_) | Datum::Object(_) | Datum::List(_) | Datum::Record(_) => {
            return Err(wrong("string", subject.kind()));
        }
    };
    Ok(Datum::built(text))
}

/// How a missing key is told; nothing if CEL has no keys of this kind. The maps of JSON have text
/// for keys, so every other key is missing.
pub(super) fn as_key(value: &Datum<'_>) -> Option<String> {
    match value {
        Datum::Text(key) => Some((*key).to_owned()),
        Datum::Built(key) => Some(key.to_string()),
        Datum::Bool(key) => Some(key.to_string()),
        Datum::Int(key) => Some(key.to_string()),
        Datum::Uint(key) => Some(key.to_string()),
        Datum::Double(key) => Some(key.to_string()),
        Datum::Null | Datum::Array(_) | Datum::Object(_) | Datum::List(_) | Datum::Record(_) => {
            None
        }
    }
}

/// The journal is no place for a long key that a caller made up.
const LONGEST_KEY: usize = 64;

pub(super) fn missing(key: &str) -> Box<Failed> {
    let key = key.chars().take(LONGEST_KEY).collect();
    Box::new(Failed::MissingKey { key })
}

pub(super) fn wrong(operation: impl Into<String>, found: impl Into<String>) -> Box<Failed> {
    Box::new(Failed::WrongTypes {
        operation: operation.into(),
        found: found.into(),
    })
}

pub(super) fn wrong_pair(operator: Binary, left: &Datum<'_>, right: &Datum<'_>) -> Box<Failed> {
    let found = format!("{} and {}", left.kind(), right.kind());
    wrong(operator.symbol(), found)
}

pub(super) fn no_result(operator: Binary) -> Box<Failed> {
    let operation = operator.symbol();
    Box::new(Failed::Arithmetic { operation })
}
