//! The values of an evaluation: borrowed from the facts and the expression where they can be.

use std::cmp::Ordering;
use std::rc::Rc;
use std::slice;

use serde_json::map::{self, Map};
use serde_json::{Number, Value};

use super::failed::Failed;
use super::{DEEPEST_VALUE, FUEL, MOST_TEXT, MOST_VALUES};

/// One value. A copy costs no more than a count.
#[derive(Clone, Debug)]
pub(super) enum Datum<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(&'a str),
    /// Text that the evaluation made.
    Built(Rc<str>),
    Array(&'a [Value]),
    Object(&'a Map<String, Value>),
    /// A list that the evaluation made.
    List(Rc<Vec<Self>>),
    /// A map that the evaluation made.
    Record(Rc<Vec<(&'a str, Self)>>),
}

/// A value, or why there is none; boxed, so that values are small to hand on.
pub(super) type Outcome<'a> = Result<Datum<'a>, Box<Failed>>;

/// What is left to spend.
pub(super) struct Fuel(usize);

impl Fuel {
    pub(super) fn full() -> Self {
        Self(FUEL)
    }

    pub(super) fn spend(&mut self, units: usize) -> Result<(), Box<Failed>> {
        match self.0.checked_sub(units) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => {
                self.0 = 0;
                Err(Box::new(Failed::OutOfFuel))
            }
        }
    }

    /// Pays for reading or building so many bytes of text.
    pub(super) fn spend_text(&mut self, bytes: usize) -> Result<(), Box<Failed>> {
        self.spend(bytes / 64)
    }
}

impl<'a> Datum<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::number(number),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::Array(items),
            Value::Object(fields) => Self::Object(fields),
        }
    }

    fn number(number: &Number) -> Self {
        if let Some(int) = number.as_i64() {
            Self::Int(int)
        } else if let Some(uint) = number.as_u64() {
            Self::Uint(uint)
        } else {
            Self::Double(number.as_f64().unwrap_or(f64::NAN))
        }
    }

    pub(super) fn built(text: String) -> Self {
        Self::Built(text.into())
    }

    /// What CEL calls this kind of value.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) | Self::Built(_) => "string",
            Self::Array(_) | Self::List(_) => "list",
            Self::Object(_) | Self::Record(_) => "map",
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Built(text) => Some(text),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Double(_)
            | Self::Array(_)
            | Self::Object(_)
            | Self::List(_)
            | Self::Record(_) => None,
        }
    }

    pub(super) fn numeric(&self) -> Option<Numeric> {
        match self {
            Self::Int(value) => Some(Numeric::Int(*value)),
            Self::Uint(value) => Some(Numeric::Uint(*value)),
            Self::Double(value) => Some(Numeric::Double(*value)),
            Self::Null
            | Self::Bool(_)
            | Self::Text(_)
            | Self::Built(_)
            | Self::Array(_)
            | Self::Object(_)
            | Self::List(_)
            | Self::Record(_) => None,
        }
    }

    /// How many items a list has, or keys a map.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Array(items) => Some(items.len()),
            Self::List(items) => Some(items.len()),
            Self::Object(fields) => Some(fields.len()),
            Self::Record(fields) => Some(fields.len()),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Double(_)
            | Self::Text(_)
            | Self::Built(_) => None,
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::Array(_) | Self::List(_))
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Object(_) | Self::Record(_))
    }

    /// The item of a list.
    pub(super) fn item(&self, index: usize) -> Option<Self> {
        if let Self::Array(items) = self {
            return items.get(index).map(Self::of);
        }
        let Self::List(items) = self else {
            return None;
        };
        items.get(index).cloned()
    }

    /// The value that a map has for a key.
    pub(super) fn field(&self, key: &str) -> Option<Self> {
        if let Self::Object(fields) = self {
            return fields.get(key).map(Self::of);
        }
        let Self::Record(fields) = self else {
            return None;
        };
        let found = fields.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| value.clone())
    }

    /// What a loop goes over: the items of a list, the keys of a map.
    pub(super) fn range(self) -> Result<Range<'a>, Self> {
        match self {
            Self::Array(items) => Ok(Range::Array(items.iter())),
            Self::Object(fields) => Ok(Range::Object(fields.keys())),
            Self::List(items) => Ok(Range::List(items, 0)),
            Self::Record(fields) => Ok(Range::Record(fields, 0)),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Double(_)
            | Self::Text(_)
            | Self::Built(_) => Err(self),
        }
    }

    /// The value as JSON, if it is neither too large nor too deep.
    pub(super) fn into_json(self) -> Result<Value, Box<Failed>> {
        let mut room = Room {
            values: MOST_VALUES,
            text: MOST_TEXT,
        };
        room.json(&self, 0)
    }
}

/// Goes over the items of a list or the keys of a map.
pub(super) enum Range<'a> {
    Array(slice::Iter<'a, Value>),
    Object(map::Keys<'a>),
    List(Rc<Vec<Datum<'a>>>, usize),
    Record(Rc<Vec<(&'a str, Datum<'a>)>>, usize),
}

impl<'a> Iterator for Range<'a> {
    type Item = Datum<'a>;

    fn next(&mut self) -> Option<Datum<'a>> {
        match self {
            Self::Array(items) => items.next().map(Datum::of),
            Self::Object(keys) => keys.next().map(|key| Datum::Text(key)),
            Self::List(items, next) => {
                *next += 1;
                items.get(*next - 1).cloned()
            }
            Self::Record(fields, next) => {
                *next += 1;
                fields.get(*next - 1).map(|(key, _)| Datum::Text(key))
            }
        }
    }
}

/// A value that is a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numeric {
    Int(i64),
    Uint(u64),
    Double(f64),
}

impl Numeric {
    /// The number, if it has no fraction. What is out of range ends up at the end of the range,
    /// which no int or uint comes near.
    pub(super) fn whole(self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(value.into()),
            Self::Uint(value) => Some(value.into()),
            Self::Double(value) => (value.fract() == 0.0).then_some(value as i128),
        }
    }

    /// By what they are worth, without rounding one to the kind of the other.
    fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(&right),
            (Self::Double(left), Self::Int(_) | Self::Uint(_)) => {
                whole_and_double(other.whole()?, left).map(Ordering::reverse)
            }
            (Self::Int(_) | Self::Uint(_), Self::Double(right)) => {
                whole_and_double(self.whole()?, right)
            }
            (Self::Int(_) | Self::Uint(_), Self::Int(_) | Self::Uint(_)) => {
                Some(self.whole()?.cmp(&other.whole()?))
            }
        }
    }
}

fn whole_and_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    let order = whole.cmp(&(double.floor() as i128));
    let below = order.is_eq() && double.fract() != 0.0;
    Some(if below { Ordering::Less } else { order })
}

/// The order of two values, if they have one.
pub(super) fn order(left: &Datum<'_>, right: &Datum<'_>) -> Option<Ordering> {
    if let (Some(left), Some(right)) = (left.numeric(), right.numeric()) {
        return left.order(right);
    }
    if let (Some(left), Some(right)) = (left.text(), right.text()) {
        return Some(left.cmp(right));
    }
    let (Datum::Bool(left), Datum::Bool(right)) = (left, right) else {
        return None;
    };
    Some(left.cmp(right))
}

/// Whether two values are the same. Values of different kinds are not, but for numbers.
pub(super) fn equal(
    left: &Datum<'_>,
    right: &Datum<'_>,
    fuel: &mut Fuel,
    depth: usize,
) -> Result<bool, Box<Failed>> {
    fuel.spend(1)?;
    if depth > DEEPEST_VALUE {
        return Err(Box::new(Failed::TooLarge));
    }
    if let (Some(left), Some(right)) = (left.text(), right.text()) {
        fuel.spend_text(left.len().min(right.len()))?;
        return Ok(left == right);
    }
    let like = left.is_list() == right.is_list() && left.len() == right.len();
    match left.len() {
        Some(_) if !like => Ok(false),
        Some(length) if left.is_list() => equal_items(left, right, length, fuel, depth),
        Some(_) => equal_fields(left, right, fuel, depth),
        None if matches!((left, right), (Datum::Null, Datum::Null)) => Ok(true),
        None => Ok(order(left, right) == Some(Ordering::Equal)),
    }
}

fn equal_items(
    left: &Datum<'_>,
    right: &Datum<'_>,
    length: usize,
    fuel: &mut Fuel,
    depth: usize,
) -> Result<bool, Box<Failed>> {
    for index in 0..length {
        let (Some(left), Some(right)) = (left.item(index), right.item(index)) else {
            return Ok(false);
        };
        if !equal(&left, &right, fuel, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_fields(
    left: &Datum<'_>,
    right: &Datum<'_>,
    fuel: &mut Fuel,
    depth: usize,
) -> Result<bool, Box<Failed>> {
    let Ok(keys) = left.clone().range() else {
        return Ok(false);
    };
    for key in keys {
        let key = key.text().unwrap_or_default();
        fuel.spend_text(key.len())?;
        let (Some(left), Some(right)) = (left.field(key), right.field(key)) else {
            return Ok(false);
        };
        if !equal(&left, &right, fuel, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What is left for a result.
struct Room {
    values: usize,
    text: usize,
}

impl Room {
    fn json(&mut self, datum: &Datum<'_>, depth: usize) -> Result<Value, Box<Failed>> {
        self.take_value(depth)?;
        match datum {
            Datum::Null => Ok(Value::Null),
            Datum::Bool(value) => Ok((*value).into()),
            Datum::Int(value) => Ok((*value).into()),
            Datum::Uint(value) => Ok((*value).into()),
            Datum::Double(value) => {
                let number = Number::from_f64(*value).ok_or(Failed::NotJson)?;
                Ok(Value::Number(number))
            }
            Datum::Text(text) => self.string(text).map(Value::String),
            Datum::Built(text) => self.string(text).map(Value::String),
            Datum::Array(items) => {
                let items = items.iter().map(Datum::of);
                self.array(items, depth)
            }
            Datum::List(items) => self.array(items.iter().cloned(), depth),
            Datum::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(key, value)| (key.as_str(), Datum::of(value)));
                self.object(fields, depth)
            }
            Datum::Record(fields) => self.object(fields.iter().cloned(), depth),
        }
    }

    fn array<'d>(
        &mut self,
        items: impl Iterator<Item = Datum<'d>>,
        depth: usize,
    ) -> Result<Value, Box<Failed>> {
        let items: Result<_, _> = items.map(|item| self.json(&item, depth + 1)).collect();
        items.map(Value::Array)
    }

    fn object<'d>(
        &mut self,
        fields: impl Iterator<Item = (&'d str, Datum<'d>)>,
        depth: usize,
    ) -> Result<Value, Box<Failed>> {
        let mut object = Map::new();
        for (key, value) in fields {
            object.insert(self.string(key)?, self.json(&value, depth + 1)?);
        }
        Ok(Value::Object(object))
    }

    fn take_value(&mut self, depth: usize) -> Result<(), Box<Failed>> {
        if depth > DEEPEST_VALUE {
            return Err(Box::new(Failed::TooLarge));
        }
        self.values = self.values.checked_sub(1).ok_or(Failed::TooLarge)?;
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<String, Box<Failed>> {
        self.text = self.text.checked_sub(text.len()).ok_or(Failed::TooLarge)?;
        Ok(text.to_owned())
    }
}
