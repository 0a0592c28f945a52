//! `completion/complete`: what an argument could be.

use crate::{
    api::{Completers, Completion, Partial, Reply},
    call::{Purpose, Start},
    catalog::Catalog,
    context::multi_round::Round,
    core::Core,
    dispatch::{
        Plan, Request,
        params::{Meta, read},
        prompt::unknown_prompt,
    },
    wire::result,
};
use interlock_proto::{Code, Refusal, refusal::shortened};
use interlock_workflow::Kind;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{collections::BTreeMap, fmt, marker::PhantomData};

/// Suggests what an argument could be. It is a call like others, so that it can take its time,
/// be taken back and fail, but no workflow has a say in it.
pub(crate) fn complete(core: &Core, request: Request<'_>) -> Result<Plan, Refusal> {
    let Complete {
        reference: Object(reference),
        argument: Object(Argument { name, value }),
        context,
        ..
    } = read(request.method.name(), request.text())?;
    let arguments = context.and_then(|Object(context)| context.arguments);
    let partial = Partial {
        value,
        arguments: arguments.unwrap_or_default(),
    };
    let completers = reference.completers(&request.snapshot.catalog, &name)?;
    let Some(handler) = completers.prepare(&name, partial) else {
        let nothing = Completion::default().into_result();
        let nothing = Reply::Completion(Box::new(nothing));
        return Ok(Plan::Answer(result::replied(
            nothing,
            core.stamp(request.version, None),
        )));
    };
    let (kind, name) = match reference {
        Reference::Prompt { name } => (Kind::Prompt, name),
        Reference::Resource { uri } => (Kind::Resource, uri),
    };
    let start = Start {
        purpose: Purpose::Complete,
        kind,
        name: name.into(),
        timeout: None,
        places: None,
        handler: Some(handler),
        input: None,
        binding: None,
        belongs: request.belongs(),
        sought: None,
    };
    Ok(Plan::Call(start, Round::default()))
}

fn unknown_resource(uri: &str) -> Refusal {
    Refusal::new(Code::ResourceNotFound).because(format!("resource not found: {}", shortened(uri)))
}

#[derive(Deserialize)]
struct Complete {
    #[serde(rename = "ref")]
    reference: Object<Reference>,
    argument: Object<Argument>,
    #[serde(default)]
    context: Option<Object<CompleteContext>>,
    #[serde(default, rename = "_meta")]
    _meta: Meta,
}

/// Deciding argument is to be completed.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Reference {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

impl Reference {
    /// What completes the arguments of what is meant, if that has this one.
    fn completers<'a>(
        &self,
        catalog: &'a Catalog,
        argument: &str,
    ) -> Result<&'a Completers, Refusal> {
        let (completers, takes) = match self {
            Self::Prompt { name } => {
                let prompt = catalog.prompt(name).ok_or_else(|| unknown_prompt(name))?;
                (Some(&prompt.completers), prompt.takes(argument))
            }
            Self::Resource { uri } => match catalog.template_of(uri) {
                Some(template) => {
                    let takes = template.pattern.variables().contains(&argument);
                    (Some(&template.template.completers), takes)
                }
                // One that is no template's has nothing to fill in.
                None if catalog.resource(uri).is_some() => (None, false),
                None => return Err(unknown_resource(uri)),
            },
        };
        completers.filter(|_| takes).ok_or_else(|| {
            let why = format!("there is no argument `{}`", shortened(argument));
            Refusal::new(Code::InvalidParams).because(why)
        })
    }
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct CompleteContext {
    #[serde(default)]
    arguments: Option<BTreeMap<String, String>>,
}

/// An object and nothing else: serde would read a struct from an array as well.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}
