//! Deserializes the variables of a URI and the arguments of a prompt, which are all strings. A field
//! of a number or a boolean is parsed.

use crate::model::JsonObject;
use interlock_proto::refusal::shortened;
use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor,
        value::{SeqDeserializer, StringDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Error, Value};
use std::{fmt::Display, str::FromStr};

/// Reads texts, and lists of them, into a type.
pub(super) fn read_texts<A: DeserializeOwned>(values: JsonObject) -> Result<A, String> {
    A::deserialize(Texts(values)).map_err(|error| shortened(&error.to_string()))
}

/// Strings by name.
struct Texts(JsonObject);

impl<'de> Deserializer<'de> for Texts {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Pairs {
            left: self.0.into_iter(),
            value: None,
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Pairs {
    left: serde_json::map::IntoIter,
    value: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Pairs {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.left.next() else {
            return Ok(None);
        };
        let key: StringDeserializer<Error> = name.clone().into_deserializer();
        self.value = Some((name, value));
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (name, value) = self
            .value
            .take()
            .ok_or_else(|| Error::custom("a value comes after its name"))?;
        seed.deserialize(Text(value))
            .map_err(|error| Error::custom(format!("`{}`: {error}", shortened(&name))))
    }
}

/// One string, or a list of them.
struct Text(Value);

impl IntoDeserializer<'_, Error> for Text {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads the text as a value of that type, if it is a text.
fn parsed<T: FromStr<Err: Display>>(text: &Value) -> Option<Result<T, Error>> {
    let text = text.as_str()?;
    let wrong = |why: T::Err| Error::custom(format!("{:?}: {why}", shortened(text)));
    Some(text.parse().map_err(wrong))
}

macro_rules! read_from_text {
    ($($deserialize:ident $visit:ident $type:ty;)*) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match parsed::<$type>(&self.0) {
                Some(value) => visitor.$visit(value?),
                None => self.0.$deserialize(visitor),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Text {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(values) => {
                let mut values = SeqDeserializer::new(values.into_iter().map(Self));
                let read = visitor.visit_seq(&mut values)?;
                values.end()?;
                Ok(read)
            }
            value @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)) => value.deserialize_any(visitor),
        }
    }

    read_from_text! {
        deserialize_bool visit_bool bool;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match parsed::<f64>(&self.0) {
            // JSON has no number for the others either.
            Some(Ok(value)) if !value.is_finite() => Err(Error::custom("it is no number")),
            Some(value) => visitor.visit_f64(value?),
            None => self.0.deserialize_f64(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn read<A: DeserializeOwned>(values: Value) -> Result<A, String> {
        read_texts(values.as_object().unwrap().clone())
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        Red,
        Green,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Id(u64);

    #[derive(Debug, Deserialize, PartialEq)]
    struct All {
        text: String,
        number: i32,
        huge: Option<u128>,
        share: f32,
        yes: bool,
        letter: char,
        id: Id,
        colour: Colour,
        list: Vec<u8>,
        missing: Option<u8>,
        #[serde(default)]
        also_missing: u8,
    }

    fn values() -> Value {
        json!({
            "text": "5",
            "number": "-5",
            "huge": "340282366920938463463374607431768211455",
            "share": "0.5",
            "yes": "true",
            "letter": "é",
            "id": "18446744073709551615",
            "colour": "green",
            "list": ["1", "2"],
            "nobody": "asked",
        })
    }

    #[test]
    fn texts_are_read_as_what_is_wanted() {
        let all = All {
            text: "5".to_owned(),
            number: -5,
            huge: Some(u128::MAX),
            share: 0.5,
            yes: true,
            letter: 'é',
            id: Id(u64::MAX),
            colour: Colour::Green,
            list: vec![1, 2],
            missing: None,
            also_missing: 0,
        };
        assert_eq!(read(values()), Ok(all));
        let map: BTreeMap<String, u8> = read(json!({"a": "1", "b": "2"})).unwrap();
        assert_eq!(map["b"], 2);
        let same: JsonObject = read(json!({"a": "1", "b": ["2"]})).unwrap();
        assert_eq!(Value::Object(same), json!({"a": "1", "b": ["2"]}));
        assert_eq!(read(json!({"a": "1"})), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_name() {
        for (name, wrong) in [
            ("number", json!("x")),
            ("number", json!("2147483648")),
            ("number", json!(["1"])),
            ("share", json!("NaN")),
            ("share", json!("inf")),
            ("yes", json!("yes")),
            ("letter", json!("ab")),
            ("id", json!("-1")),
            ("colour", json!("blue")),
            ("list", json!("1")),
            ("list", json!(["x"])),
            ("missing", json!("")),
        ] {
            let mut values = values();
            values[name] = wrong.clone();
            let why = read::<All>(values).unwrap_err();
            assert!(why.contains(&format!("`{name}`")), "{name} {wrong}: {why}");
        }
        let why = read::<All>(json!({})).unwrap_err();
        assert!(why.contains("`text`"), "{why}");
        let long = read::<Id2>(json!({"id": "9".repeat(100_000)})).unwrap_err();
        assert!(long.len() < 300, "{}", long.len());
    }

    #[derive(Debug, Deserialize)]
    struct Id2 {
        #[expect(dead_code, reason = "it is never read")]
        id: u8,
    }
}
