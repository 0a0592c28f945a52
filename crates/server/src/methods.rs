//! What each method takes and leads to: an answer at once, or a call.

mod tool;

use crate::{
    call::{Purpose, Sought, Start, quietly},
    catalogue::{CheckedTemplate, Listing},
    context::Belongs,
    convert::{self, Answer, No},
    handle::{self, Source},
    handler::{self, Cache, Hints, Prepared},
    instance::{Instance, Made},
    lists::Stock,
    model::JsonObject,
    offering::Offering,
    principal::Principal,
    round::{Retry, Round, Same},
    sampling,
    server::Inner,
    standing::Standing,
    uri,
};
use http::HeaderMap;
use interlock_proto::{
    About, Code, Params, Refusal, Version,
    era::{self, Era, Method, Modern},
    refusal::shortened,
};
use interlock_workflow::{
    Binding, BindingId, Kind, Pass, Position, Reason, Refused, Scope, Workflow,
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use std::{
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
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
type Fitting = (Arc<CheckedTemplate>, JsonObject);

/// Takes the arguments of a call that the gate has let in. It is told where the instance stands,
/// and whether somebody will ask for the arguments.
pub(crate) type Examine = Box<dyn FnOnce(&Inner, Option<Position>, bool) -> Examined + Send>;

/// How long a call may run, and of what it takes a permit.
type Limits = (Option<Duration>, Option<Arc<Semaphore>>);

/// A handler that has its arguments, and those for whoever asks.
type Examined = Result<(Prepared, Option<Value>), Refusal>;

/// A call that the gate has let in, as things stand.
pub(crate) struct LetIn {
    pub(crate) handler: Prepared,
    /// With what it was made, if anybody will ask for it.
    pub(crate) made: Option<Arc<Made>>,
    /// By what, if it is part of the workflow.
    pub(crate) bound: Option<BindingId>,
}

/// Whose instance a call is about.
enum Whose<'a> {
    Nobodys,
    Known(&'a Arc<Instance>),
    Sought(Source),
}

/// A request, as far as methods care.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) method: Method,
    /// What there was to be used when it came.
    pub(crate) offering: &'a Offering,
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

    /// Which instance a call belongs to that is made with it, unless another one is found.
    pub(crate) fn belongs(&self) -> Belongs {
        match (self.instance, self.modern) {
            (None, _) => Belongs::ToNone,
            // Whatever is not stateless is served by its session.
            (Some(_), None) => Belongs::ToSession,
            (Some(instance), Some(_)) => Belongs::To(Arc::clone(instance)),
        }
    }

    /// Whether its client may bring answers with its next request.
    fn can_answer(&self) -> bool {
        let modern = self.modern;
        modern.is_some_and(|modern| modern.capabilities.get() != "{}")
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
        let offering = asked.offering;
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
        let offering = asked.offering;
        let resource = offering.catalogue.resource(&uri);
        // Only a workflow can mean another one than the first.
        let most = if self.workflow.is_some() {
            usize::MAX
        } else {
            1
        };
        let fitting: Vec<_> = match resource {
            Some(_) => Vec::new(),
            None => {
                let fitting = offering.catalogue.templates_for(&uri).take(most);
                let owned = fitting.map(|(template, values)| (Arc::clone(template), values));
                owned.collect()
            }
        };
        if resource.is_none() && fitting.is_empty() {
            return Err(Refusal::resource_not_found(&uri, asked.version));
        }
        let round = self.round(asked, &uri, None, retry)?;
        let named = self.named_so(&uri, &fitting).to_owned();
        let call = (Kind::Resource, named.clone().into());
        let (uri, version) = (uri.into_owned(), asked.version);
        let resource = resource.cloned();
        let prepare = move |inner: &Self, at, keep: bool| {
            let (handler, cache, values) = match resource {
                Some(resource) => {
                    let nothing = keep.then(JsonObject::new);
                    (resource.prepare(), resource.cache, nothing)
                }
                None => inner.one_of_template(at, &named, &uri, fitting, keep)?,
            };
            let hints = inner.cache_hints(version, &named, cache);
            let handler = handler::hinted(handler, hints);
            Ok((handler, values.map(Value::Object)))
        };
        self.admitted(asked, call, None, (None, None), round, prepare)
    }

    /// How the workflow calls a resource, if it calls it by a URI of its own. One resource of a
    /// template can be written in several ways, and must not pass the gate by another name.
    fn named_so<'a>(&'a self, uri: &'a str, fitting: &[Fitting]) -> &'a str {
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
        at: Option<Position>,
        named: &str,
        uri: &str,
        mut fitting: Vec<Fitting>,
        keep: bool,
    ) -> Result<(Prepared, Cache, Option<JsonObject>), Refusal> {
        let names = fitting.iter().map(|(fits, _)| fits.pattern.as_str());
        let meant = self.template_meant(at, named, names).unwrap_or(0);
        let (template, values) = fitting.swap_remove(meant);
        let template = &template.template;
        let kept = keep.then(|| values.clone());
        let handler = reading(|| template.prepare(uri, values))?.map_err(|why| {
            Refusal::new(Code::InvalidUri).because(format!("the URI is not valid: {why}"))
        })?;
        Ok((handler, template.cache, kept))
    }

    /// Which of these templates the gate takes a resource for, if it takes it for one's.
    fn template_meant<'a>(
        &self,
        at: Option<Position>,
        named: &str,
        mut templates: impl Iterator<Item = &'a str>,
    ) -> Option<usize> {
        let workflow = self.workflow.as_ref()?;
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
        let offering = asked.offering;
        let Some(prompt) = offering.catalogue.prompt(&name) else {
            return Err(unknown_prompt(&name));
        };
        let round = self.round(asked, &name, arguments.as_ref(), retry)?;
        let call = (Kind::Prompt, name.into_owned().into());
        let prompt = Arc::clone(prompt);
        let prepare = move |_: &Self, _, keep: bool| {
            let arguments = arguments.unwrap_or_default();
            let kept = keep.then(|| Value::Object(arguments.clone()));
            let handler = reading(|| prompt.prepare(arguments))?;
            let handler = handler.map_err(|why| Refusal::new(Code::InvalidParams).because(why))?;
            Ok((handler, kept))
        };
        self.admitted(asked, call, None, (None, None), round, prepare)
    }

    /// What a call leads to whose instance is known, or is to be found first.
    fn admitted(
        &self,
        asked: Asked<'_>,
        (kind, name): (Kind, Cow<'static, str>),
        handle: Option<Value>,
        limits: Limits,
        round: Round,
        prepare: impl FnOnce(&Self, Option<Position>, bool) -> Examined + Send + 'static,
    ) -> Result<Plan, Refusal> {
        let instance = match self.whose(asked, kind, &name, handle) {
            // It has been served before by an instance that had to be found.
            Ok(Whose::Nobodys | Whose::Known(_)) if round.unfinished().is_some() => {
                return Err(sampling::spent());
            }
            Ok(Whose::Nobodys) => None,
            Ok(Whose::Known(instance)) => Some(instance),
            Ok(Whose::Sought(source)) => {
                let prepare = Box::new(prepare);
                let start = Start {
                    sought: Some(Box::new(Sought { source, prepare })),
                    ..start_of((kind, name), limits, asked.belongs())
                };
                return Ok(Plan::Call(start, round));
            }
            Err(no) => return Ok(self.refuse(asked, kind, no)),
        };
        Ok(self.let_in(asked, (kind, name), limits, round, instance, prepare))
    }

    /// What a call leads to whose instance is at hand, if it has one.
    fn let_in(
        &self,
        asked: Asked<'_>,
        (kind, name): (Kind, Cow<'static, str>),
        limits: Limits,
        round: Round,
        instance: Option<&Arc<Instance>>,
        prepare: impl FnOnce(&Self, Option<Position>, bool) -> Examined,
    ) -> Plan {
        match self.examine(instance, asked.principal, (kind, &name), prepare) {
            Ok(let_in) => {
                let start = Start {
                    handler: Some(let_in.handler),
                    made: let_in.made,
                    bound: let_in.bound,
                    ..start_of((kind, name), limits, asked.belongs())
                };
                Plan::Call(start, round)
            }
            Err(no) => self.refuse(asked, kind, no),
        }
    }

    fn refuse(&self, asked: Asked<'_>, kind: Kind, no: No) -> Plan {
        let place = self.workflow.as_ref().zip(asked.instance);
        let place = place.map(|(workflow, instance)| Standing {
            instance: instance.named(),
            is_sessions: asked.modern.is_none(),
            workflow,
            at: instance.position(),
            told: &[],
        });
        Plan::Answer(convert::refused(kind, no, self.stamp(asked.version, place)))
    }

    /// Whether another server may have moved the instance of a connection: then each call looks.
    fn others_may_move(&self, workflow: &Workflow) -> bool {
        let is_kept = self.journal_limit.is_none();
        match workflow.settings().scope {
            Scope::Principal | Scope::Global => is_kept,
            Scope::Session | Scope::Handle => false,
        }
    }

    /// Which instance decides about a call.
    fn whose<'a>(
        &self,
        asked: Asked<'a>,
        kind: Kind,
        name: &str,
        handle: Option<Value>,
    ) -> Result<Whose<'a>, No> {
        let Some(workflow) = &self.workflow else {
            return Ok(Whose::Nobodys);
        };
        if let Some(instance) = asked.instance
            && !self.others_may_move(workflow)
        {
            return Ok(Whose::Known(instance));
        }
        if workflow.is_always(kind, name) {
            return Ok(Whose::Nobodys);
        }
        match (workflow.settings().scope, kind, handle) {
            (Scope::Principal | Scope::Global, _, _) => Ok(Whose::Sought(Source::Caller)),
            (Scope::Session | Scope::Handle, Kind::Tool, Some(Value::String(id))) => {
                Ok(Whose::Sought(Source::Handle(id)))
            }
            (Scope::Session | Scope::Handle, Kind::Tool, _) => Err(handle::missing(name)),
            (Scope::Session | Scope::Handle, Kind::Resource | Kind::Prompt, _) => {
                Err(handle::no_place(kind, name))
            }
        }
    }

    /// The gate first, then the arguments, then the guard: what is not allowed now is not worth
    /// checking, and no guard has to look at what no schema allows.
    pub(crate) fn examine(
        &self,
        instance: Option<&Arc<Instance>>,
        principal: &Principal,
        (kind, name): (Kind, &str),
        prepare: impl FnOnce(&Self, Option<Position>, bool) -> Examined,
    ) -> Result<LetIn, No> {
        let at = instance.map(|instance| instance.position());
        let binding = self.admit(instance.zip(at), kind, name)?;
        let keep = binding.is_some_and(Binding::reads_call);
        let (handler, kept) = prepare(self, at, keep)?;
        if kept.as_ref().is_some_and(Made::is_too_deep) {
            let refusal = Refusal::new(Code::InvalidJsonSchema).because(format!(
                "The arguments of '{name}' nest deeper than they can be kept: {} levels are allowed.",
                Made::DEEPEST
            ));
            return Err(refusal.into());
        }
        let made = kept.map(|args| {
            let principal = principal.facts();
            Arc::new(Made { args, principal })
        });
        if binding.is_some_and(Binding::is_conditional) {
            self.judge(instance, kind, name, made.as_deref())?;
        }
        Ok(LetIn {
            handler,
            made,
            bound: binding.map(Binding::id),
        })
    }

    /// Whether clients of that version find their instances by handles.
    fn uses_handles(&self, version: Version) -> bool {
        let workflow = self.workflow.as_ref();
        workflow.is_some_and(|workflow| handle::in_use(workflow, version.era()))
    }

    /// The answers that a 2026-07-28 client has brought. One that can be asked nothing brings none.
    fn round(
        &self,
        asked: Asked<'_>,
        name: &str,
        arguments: Option<&JsonObject>,
        retry: Retry,
    ) -> Result<Round, Refusal> {
        if !asked.can_answer() && retry.request_state.is_none() {
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
    fn admit(
        &self,
        stands: Option<(&Arc<Instance>, Position)>,
        kind: Kind,
        name: &str,
    ) -> Result<Option<&Binding>, No> {
        let Some((workflow, (instance, at))) = self.workflow.as_ref().zip(stands) else {
            return Ok(None);
        };
        match workflow.admit(at, kind, name) {
            Ok(Pass::Bound(binding)) => Ok(Some(binding)),
            Ok(Pass::Always) => Ok(None),
            Err(refused) => Err(self.refused(instance, refused)),
        }
    }

    /// Whether the call may run as things stand, with what it is called with.
    fn judge(
        &self,
        instance: Option<&Arc<Instance>>,
        kind: Kind,
        name: &str,
        made: Option<&Made>,
    ) -> Result<(), No> {
        let Some((workflow, instance)) = self.workflow.as_ref().zip(instance) else {
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
        let hint = *refused.reason() == Reason::Finished && instance.is_leased();
        let mut no = No::from(refused);
        if hint {
            let text = format!("{}{}", no.refusal.message(), handle::another());
            no.refusal = no.refusal.because(text);
        }
        if let Some(warning) = instance.tell_unclear() {
            let text = format!("{} {warning}", no.refusal.message());
            no.refusal = no.refusal.because(text);
        }
        no
    }
}

/// A call that nobody has let in yet.
#[inline]
fn start_of(
    (kind, name): (Kind, Cow<'static, str>),
    (timeout, places): Limits,
    belongs: Belongs,
) -> Start {
    Start {
        purpose: Purpose::Use,
        kind,
        name,
        timeout,
        places,
        handler: None,
        made: None,
        bound: None,
        belongs,
        sought: None,
    }
}

/// Lets arguments be read by a type of the application, which may panic.
fn reading<T>(read: impl FnOnce() -> T) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|payload| {
        quietly(|| drop(payload));
        Refusal::new(Code::InternalError).because("reading the arguments panicked")
    })
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
