//! Reads the parameters of requests.

use crate::{context::multi_round::RetryParams, dispatch::Request, model::JsonObject};
use interlock_proto::{About, Code, Params, Refusal, era, refusal::shortened};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// An object, whatever is in it.
#[derive(Default)]
pub(crate) struct Meta;

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Meta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Meta)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

pub(crate) fn read<'a, T: Deserialize<'a>>(
    method: &str,
    params: Option<&'a str>,
) -> Result<T, Refusal> {
    let wrong = |why: String| Refusal::new(Code::InvalidParams).because(why);
    let params = params.ok_or_else(|| wrong(format!("`{method}` needs parameters")))?;
    // Serde would read a struct from an array as well.
    if !params.starts_with('{') {
        return Err(wrong(format!(
            "the parameters of `{method}` must be an object"
        )));
    }
    serde_json::from_str(params).map_err(|error| {
        let why = shortened(&error.to_string());
        wrong(format!("invalid parameters of `{method}`: {why}"))
    })
}

/// Which page of a list is wanted; the first unless something is said.
pub(super) fn cursor(request: Request<'_>) -> Result<Option<Cow<'_, str>>, Refusal> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(default, borrow)]
        cursor: Option<Cow<'a, str>>,
        #[serde(default, rename = "_meta")]
        _meta: Meta,
    }
    if request.text().is_none_or(|params| params == "null") {
        return Ok(None);
    }
    read(request.method.name(), request.text()).map(|List { cursor, .. }| cursor)
}

/// The parameters of `tools/call` and `prompts/get`.
#[derive(Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(default)]
    arguments: Option<JsonObject>,
    #[serde(default, rename = "inputResponses")]
    input_responses: Option<JsonObject>,
    #[serde(default, rename = "requestState")]
    request_state: Option<String>,
    #[serde(default, rename = "_meta")]
    _meta: Meta,
}

impl<'a> Call<'a> {
    /// What is called, with which arguments, and with which answers it comes back.
    pub(super) fn read(
        request: Request<'a>,
    ) -> Result<(Cow<'a, str>, Option<JsonObject>, RetryParams), Refusal> {
        let about = request.params.and_then(Params::about);
        let known = about.and_then(Self::known);
        let call = known.map_or_else(|| read(request.method.name(), request.text()), Ok)?;
        let retry = RetryParams {
            input_responses: call.input_responses,
            request_state: call.request_state,
        };
        Ok((call.name, call.arguments, retry))
    }

    /// The parameters have been found already. If anything is wrong with them, reading them again
    /// tells what.
    fn known(about: &About<'a>) -> Option<Self> {
        fn given<'a, T: Deserialize<'a>>(raw: Option<&'a str>) -> Option<Option<T>> {
            raw.map(serde_json::from_str).transpose().ok()
        }
        if about.is_odd {
            return None;
        }
        Some(Self {
            name: era::text(about.name?)?,
            arguments: given(about.arguments)?,
            input_responses: given(about.input_responses)?,
            request_state: given(about.request_state)?,
            _meta: Meta,
        })
    }
}
