//! What each method takes and leads to: an answer at once, or a call.

use crate::{
    call::{Purpose, Start},
    catalogue::{CheckedTemplate, Listing},
    convert::{self, Answer, No},
    handler::{self, Cache, Hints, Prepared},
    http::modern::mismatch,
    instance::{Instance, Made},
    lists::Stock,
    model::JsonObject,
    principal::Principal,
    round::{Retry, Round, Same},
    server::Inner,
    uri,
};
use http::HeaderMap;
use interlock_proto::{
    About, Code, Params, Refusal, Version,
    era::{self, Era, Method, Modern},
    refusal::shortened,
};
use interlock_workflow::{Binding, Kind, Pass, Refused, Workflow};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use std::{borrow::Cow, fmt, sync::Arc, time::Duration};
use tokio::sync::Semaphore;

/// What a request leads to.
pub(crate) enum Plan {
    /// A result that is there already.
    Ready(Arc<RawValue>),
    /// An answer that had to be made.
    Answer(Answer),
    /// A handler has to run, with the answers that its client has brought.
    Call(Start, Round),
}

/// A template that a URI fits, and the values that the URI is made of.
type Fitting<'a> = (&'a Arc<CheckedTemplate>, JsonObject);

/// A request, as far as methods care.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    pub(crate) params: Option<&'a Params<'a>>,
    pub(crate) version: Version,
    /// The instance of the connection; stateless requests have none.
    pub(crate) instance: Option<&'a Arc<Instance>>,
    pub(crate) principal: &'a Principal,
    /// What a stateless request says about itself.
    pub(crate) modern: Option<&'a Modern<'a>>,
    /// The headers that have to say what its arguments say.
    pub(crate) headers: Option<&'a HeaderMap>,
}

impl<'a> Asked<'a> {
    /// Its parameters, as they were written.
    pub(crate) fn text(&self) -> Option<&'a str> {
        self.params.map(Params::get)
    }
}

impl Inner {
    /// Reads the parameters of a method that may be called, and says what it leads to.
    pub(crate) fn plan(&self, asked: Asked<'_>) -> Result<Plan, Refusal> {
        match asked.method {
            Method::Ping => Ok(Plan::Ready(raw(&serde_json::json!({})))),
            Method::Discover => Ok(Plan::Ready(raw(&self.discover_result()))),
            Method::ToolsList => self.list(asked, Listing::Tools),
            Method::ResourcesList => self.list(asked, Listing::Resources),
            Method::PromptsList => self.list(asked, Listing::Prompts),
            Method::ResourcesTemplatesList => self.list(asked, Listing::Templates),
            Method::ToolsCall => self.call_tool(asked),
            Method::ResourcesRead => self.read_resource(asked),
            Method::PromptsGet => self.get_prompt(asked),
            Method::CompletionComplete => self.complete(asked),
            Method::Initialize
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::LoggingSetLevel
            | Method::TasksGet
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel
            | Method::TasksUpdate
            | Method::SubscriptionsListen => Err(Refusal::method_not_found(asked.method.name())),
        }
    }

    fn list(&self, asked: Asked<'_>, listing: Listing) -> Result<Plan, Refusal> {
        let cursor = cursor(asked)?;
        let offering = self.offering();
        let stock = Stock {
            catalogue: &offering.catalogue,
            workflow: self.workflow.as_ref(),
            server: &self.info,
        };
        let list = match asked.version.era() {
            Era::Handshake => {
                let at = asked.instance.map(|instance| instance.position());
                offering.lists.handshake(stock, at, listing)
            }
            Era::Stateless => offering.lists.stateless(stock, listing),
        };
        match list.page(cursor.as_deref()) {
            Some(page) => Ok(Plan::Ready(Arc::clone(page))),
            None => Err(Refusal::new(Code::InvalidParams)
                .because("there is no page with this cursor; list again without one")),
        }
    }

    fn call_tool(&self, asked: Asked<'_>) -> Result<Plan, Refusal> {
        let (name, arguments, retry) = Call::read(asked)?;
        let offering = self.offering();
        let Some(tool) = offering.catalogue.tool(&name) else {
            return Err(Refusal::new(Code::ToolNotFound)
                .because(format!("unknown tool: {}", shortened(&name))));
        };
        if let Some(headers) = asked.headers {
            tool.headers
                .check(headers, arguments.as_ref())
                .map_err(mismatch)?;
        }
        let round = self.round(asked, &name, arguments.as_ref(), retry)?;
        let arguments = Value::Object(arguments.unwrap_or_default());
        let limits = (tool.tool.timeout, tool.tool.concurrency.clone());
        let tool_name = tool.tool.model.name.clone();
        self.admitted(asked, Kind::Tool, tool_name, limits, round, |keep| {
            let wrong = |mistakes: String| {
                Refusal::new(Code::InvalidJsonSchema).because(format!(
                    "the arguments do not match the schema of '{name}': {mistakes}"
                ))
            };
            tool.schema.check(&arguments).map_err(wrong)?;
            let kept = keep.then(|| arguments.clone());
            let handler = tool.tool.prepare(object(arguments)).map_err(wrong)?;
            let handler = match &tool.output {
                Some(schema) => handler::checked(handler, Arc::clone(schema)),
                None => handler,
            };
            Ok((handler, kept))
        })
    }

    fn read_resource(&self, asked: Asked<'_>) -> Result<Plan, Refusal> {
        let Read {
            uri,
            input_responses,
            request_state,
            ..
        } = read(asked.method.name(), asked.text())?;
        let retry = Retry {
            input_responses,
            request_state,
        };
        uri::check(&uri).map_err(|why| {
            Refusal::new(Code::InvalidUri).because(format!("the URI is not valid: {why}"))
        })?;
        let offering = self.offering();
        let resource = offering.catalogue.resource(&uri);
        // Only a workflow can mean another one than the first.
        let most = if self.workflow.is_some() {
            usize::MAX
        } else {
            1
        };
        let fitting: Vec<_> = match resource {
            Some(_) => Vec::new(),
            None => offering.catalogue.templates_for(&uri).take(most).collect(),
        };
        if resource.is_none() && fitting.is_empty() {
            return Err(Refusal::resource_not_found(&uri, asked.version));
        }
        let round = self.round(asked, &uri, None, retry)?;
        let named = self.named_so(&uri, &fitting);
        let resource_name = named.to_owned().into();
        self.admitted(
            asked,
            Kind::Resource,
            resource_name,
            (None, None),
            round,
            |keep| {
                let (handler, cache, values) = match resource {
                    Some(resource) => {
                        let nothing = keep.then(JsonObject::new);
                        (resource.prepare(), resource.cache, nothing)
                    }
                    None => self.one_of_template(asked, named, &uri, fitting, keep)?,
                };
                let hints = self.cache_hints(asked.version, named, cache);
                let handler = handler::hinted(handler, hints);
                Ok((handler, values.map(Value::Object)))
            },
        )
    }

    /// How the workflow calls a resource, if it calls it by a URI of its own. One resource of a
    /// template can be written in several ways, and must not pass the gate by another name.
    fn named_so<'a>(&'a self, uri: &'a str, fitting: &[Fitting<'_>]) -> &'a str {
        let Some(workflow) = &self.workflow else {
            return uri;
        };
        let named = || workflow.artifacts(Kind::Resource);
        let is_same = |name: &&str| {
            let mut fitting = fitting.iter();
            fitting.any(|(template, values)| template.pattern.values(name).as_ref() == Some(values))
        };
        let itself = named().find(|name| *name == uri);
        itself.or_else(|| named().find(is_same)).unwrap_or(uri)
    }

    /// Reads a URI by the first template that it fits. With a workflow, one that the gate let it
    /// through for goes first: another one's handler may be none of its business.
    fn one_of_template(
        &self,
        asked: Asked<'_>,
        named: &str,
        uri: &str,
        mut fitting: Vec<Fitting<'_>>,
        keep: bool,
    ) -> Result<(Prepared, Cache, Option<JsonObject>), Refusal> {
        let names = fitting.iter().map(|(fits, _)| fits.pattern.as_str());
        let meant = self.template_meant(asked, named, names).unwrap_or(0);
        let (template, values) = fitting.swap_remove(meant);
        let template = &template.template;
        let kept = keep.then(|| values.clone());
        let handler = template.prepare(uri, values).map_err(|why| {
            Refusal::new(Code::InvalidUri).because(format!("the URI is not valid: {why}"))
        })?;
        Ok((handler, template.cache, kept))
    }

    /// Which of these templates the gate takes a resource for, if it takes it for one's.
    fn template_meant<'a>(
        &self,
        asked: Asked<'_>,
        named: &str,
        mut templates: impl Iterator<Item = &'a str>,
    ) -> Option<usize> {
        let workflow = self.workflow.as_ref()?;
        let at = asked.instance.map(|instance| instance.position());
        match at.map(|at| workflow.admit(at, Kind::Resource, named)) {
            Some(Ok(Pass::Bound(binding))) => {
                templates.position(|template| binding.artifact().name == template)
            }
            Some(Ok(Pass::Always)) | None => templates.position(|template| {
                let mut artifacts = workflow.artifacts(Kind::Resource);
                artifacts.any(|name| name == template)
                    && workflow.is_always(Kind::Resource, template)
            }),
            Some(Err(_)) => None,
        }
    }

    /// What a result of reading says about being kept. If it is part of a workflow it must not be
    /// kept: a read that does not come here moves nothing.
    fn cache_hints(&self, version: Version, named: &str, cache: Cache) -> Hints {
        let is_free = |workflow: &Workflow| workflow.is_always(Kind::Resource, named);
        match version.era() {
            Era::Handshake => Hints::Absent,
            Era::Stateless if self.workflow.as_ref().is_none_or(is_free) => Hints::Unless(cache),
            Era::Stateless => Hints::Always(Cache::NONE),
        }
    }

    fn get_prompt(&self, asked: Asked<'_>) -> Result<Plan, Refusal> {
        let (name, arguments, retry) = Call::read(asked)?;
        let offering = self.offering();
        let Some(prompt) = offering.catalogue.prompt(&name) else {
            return Err(unknown_prompt(&name));
        };
        let round = self.round(asked, &name, arguments.as_ref(), retry)?;
        let prompt_name = name.into_owned().into();
        self.admitted(
            asked,
            Kind::Prompt,
            prompt_name,
            (None, None),
            round,
            |keep| {
                let arguments = arguments.unwrap_or_default();
                let kept = keep.then(|| Value::Object(arguments.clone()));
                let handler = prompt.prepare(arguments);
                let handler =
                    handler.map_err(|why| Refusal::new(Code::InvalidParams).because(why))?;
                Ok((handler, kept))
            },
        )
    }

    /// The gate first, then the arguments, then the guard: what is not allowed now is not worth
    /// checking, and no guard has to look at what no schema allows. `prepare` is told whether
    /// somebody will ask for the arguments.
    fn admitted(
        &self,
        asked: Asked<'_>,
        kind: Kind,
        name: Cow<'static, str>,
        (timeout, places): (Option<Duration>, Option<Arc<Semaphore>>),
        round: Round,
        prepare: impl FnOnce(bool) -> Result<(Prepared, Option<Value>), Refusal>,
    ) -> Result<Plan, Refusal> {
        let place = || {
            let workflow = self.workflow.as_ref()?;
            let instance = asked.instance?;
            Some(convert::place(instance.id(), workflow, instance.position()))
        };
        let refuse = |no| {
            Plan::Answer(convert::refused(
                kind,
                no,
                self.stamp(asked.version, place()),
            ))
        };
        let binding = match self.admit(asked, kind, &name) {
            Ok(binding) => binding,
            Err(no) => return Ok(refuse(no)),
        };
        let (handler, kept) = match prepare(binding.is_some_and(Binding::reads_call)) {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(refuse(refusal.into())),
        };
        let made = kept.map(|args| {
            let principal = asked.principal.facts();
            Arc::new(Made { args, principal })
        });
        if binding.is_some_and(Binding::is_conditional)
            && let Err(no) = self.judge(asked, kind, &name, made.as_deref())
        {
            return Ok(refuse(no));
        }
        let start = Start {
            purpose: Purpose::Use,
            kind,
            name,
            timeout,
            places,
            handler,
            made,
            instance: asked.instance.cloned(),
        };
        Ok(Plan::Call(start, round))
    }

    /// The answers that a 2026-07-28 client has brought. One that can be asked nothing brings none.
    fn round(
        &self,
        asked: Asked<'_>,
        name: &str,
        arguments: Option<&JsonObject>,
        retry: Retry,
    ) -> Result<Round, Refusal> {
        let nothing = |modern: &Modern<'_>| modern.capabilities.get() == "{}";
        if asked.modern.is_none_or(nothing) && retry.request_state.is_none() {
            return Ok(Round::default());
        }
        let same = Same {
            principal: asked.principal.clone(),
            method: asked.method.name(),
            name: name.to_owned(),
            arguments: arguments.cloned(),
        };
        Round::open(&self.sealer, retry, same, self.clock.now())
    }

    /// Whether the call may run as things stand, whatever it is called with. If it is part of the
    /// workflow, by which binding.
    fn admit(&self, asked: Asked<'_>, kind: Kind, name: &str) -> Result<Option<&Binding>, No> {
        let Some(workflow) = &self.workflow else {
            return Ok(None);
        };
        if let Some(instance) = asked.instance {
            return match workflow.admit(instance.position(), kind, name) {
                Ok(Pass::Bound(binding)) => Ok(Some(binding)),
                Ok(Pass::Always) => Ok(None),
                Err(refused) => Err(self.refused(instance, refused)),
            };
        }
        if workflow.is_always(kind, name) {
            return Ok(None);
        }
        let refusal = Refusal::new(Code::NotInState).because(format!(
            "{kind} '{name}' is part of a workflow, and workflows are not served to requests of \
             version {}. Connect with `initialize` and version {} instead.",
            asked.version,
            Version::COUNTER_OFFER,
        ));
        Err(refusal.into())
    }

    /// Whether the call may run as things stand, with what it is called with.
    fn judge(
        &self,
        asked: Asked<'_>,
        kind: Kind,
        name: &str,
        made: Option<&Made>,
    ) -> Result<(), No> {
        let Some((workflow, instance)) = self.workflow.as_ref().zip(asked.instance) else {
            return Ok(());
        };
        let call = Made::call(made, kind, name);
        match instance.judge(workflow, &call) {
            Ok(Pass::Bound(_) | Pass::Always) => Ok(()),
            Err(refused) => Err(self.refused(instance, refused)),
        }
    }

    /// The journal is told that a call was refused, and the caller why.
    pub(crate) fn refused(&self, instance: &Arc<Instance>, refused: Refused<'_>) -> No {
        let wanted = refused.wanted();
        let said = (refused.code(), &*refused.to_string());
        instance.refused(self.clock.now(), wanted.kind, &wanted.name, said);
        refused.into()
    }
}

#[derive(Deserialize)]
struct Call<'a> {
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
    fn read(asked: Asked<'a>) -> Result<(Cow<'a, str>, Option<JsonObject>, Retry), Refusal> {
        let about = asked.params.and_then(Params::about);
        let known = about.and_then(Self::known);
        let call = known.map_or_else(|| read(asked.method.name(), asked.text()), Ok)?;
        let retry = Retry {
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

#[derive(Deserialize)]
struct Read<'a> {
    #[serde(borrow)]
    uri: Cow<'a, str>,
    #[serde(default, rename = "inputResponses")]
    input_responses: Option<JsonObject>,
    #[serde(default, rename = "requestState")]
    request_state: Option<String>,
    #[serde(default, rename = "_meta")]
    _meta: Meta,
}

pub(crate) fn unknown_prompt(name: &str) -> Refusal {
    Refusal::new(Code::PromptNotFound).because(format!("unknown prompt: {}", shortened(name)))
}

pub(crate) fn unknown_resource(uri: &str) -> Refusal {
    Refusal::new(Code::ResourceNotFound).because(format!("resource not found: {}", shortened(uri)))
}

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
fn cursor(asked: Asked<'_>) -> Result<Option<Cow<'_, str>>, Refusal> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(default, borrow)]
        cursor: Option<Cow<'a, str>>,
        #[serde(default, rename = "_meta")]
        _meta: Meta,
    }
    if asked.text().is_none_or(|params| params == "null") {
        return Ok(None);
    }
    read(asked.method.name(), asked.text()).map(|List { cursor, .. }| cursor)
}

fn raw(value: &Value) -> Arc<RawValue> {
    Arc::from(serde_json::value::to_raw_value(value).expect("a value is JSON"))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}
