//! `completion/complete`: what an argument could be.

use crate::{
    api::{Completers, Completion, HandlerCall, Partial, Reply},
    call::{Purpose, Sought, Start, admission::Wanted},
    catalog::Catalog,
    context::multi_round::Round,
    core::Core,
    dispatch::{
        Plan, Request,
        params::{Meta, read},
        plan_call::{self, Deciding, deciding_instance},
        prompt::unknown_prompt,
    },
    wire::result,
};
use interlock_proto::{Code, Refusal, refusal::shortened};
use interlock_workflow::{Kind, Position};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{collections::BTreeMap, fmt, marker::PhantomData};

/// Suggests what an argument could be. It is a call like others, so that it can take its time,
/// be taken back and fail, but it moves nothing. What cannot be used now completes to nothing.
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
    let catalog = &request.snapshot.catalog;
    let completers = reference.completers(catalog, &name)?;
    let nothing = || {
        let meta = core.stamp(request.version, None);
        Ok(Plan::Answer(result::replied(no_completion(), meta)))
    };
    let Some(handler) = completers.prepare(&name, partial) else {
        return nothing();
    };
    let names = reference.names(catalog);
    let wanted = Wanted::new(reference.kind(), names[0].clone().into());
    let deciding = deciding_instance(core, request, &wanted, None);
    let start = Start {
        purpose: Purpose::Complete,
        ..plan_call::start(wanted, (None, None), request.belongs())
    };
    let start = match deciding {
        Ok(Deciding::Instance(instance))
            if !is_admitted(core, instance.position(), start.kind, &names) =>
        {
            return nothing();
        }
        // Without a handle nothing that is bound can be used.
        Err(_) => return nothing(),
        Ok(Deciding::None | Deciding::Instance(_)) => Start {
            handler: Some(handler),
            ..start
        },
        Ok(Deciding::Find(source)) => {
            let kind = start.kind;
            let prepare = Box::new(move |core: &Core, at: Option<Position>, _| {
                let is_admitted = at.is_some_and(|at| is_admitted(core, at, kind, &names));
                let nothing = || HandlerCall::new(|_| async { Ok(no_completion()) });
                Ok((if is_admitted { handler } else { nothing() }, None))
            });
            Start {
                sought: Some(Box::new(Sought { source, prepare })),
                ..start
            }
        }
    };
    Ok(Plan::Call(start, Round::default()))
}

/// Whether the gate admits what is meant, by one of its names.
fn is_admitted(core: &Core, at: Position, kind: Kind, names: &[String]) -> bool {
    core.workflow().is_none_or(|workflow| {
        let mut names = names.iter();
        names.any(|name| workflow.admit(at, kind, name).is_ok())
    })
}

fn no_completion() -> Reply {
    Reply::Completion(Box::new(Completion::default().into_result()))
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
    const fn kind(&self) -> Kind {
        match self {
            Self::Prompt { .. } => Kind::Prompt,
            Self::Resource { .. } => Kind::Resource,
        }
    }

    /// By which names a workflow may know what is meant: a template by its text first, and by the
    /// URI that the client has.
    fn names(&self, catalog: &Catalog) -> Vec<String> {
        match self {
            Self::Prompt { name } => vec![name.clone()],
            Self::Resource { uri } => {
                let template = catalog.template_of(uri);
                let text = template.map(|template| template.pattern.as_str().to_owned());
                text.into_iter().chain([uri.clone()]).collect()
            }
        }
    }

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
