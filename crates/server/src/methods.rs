//! What each method takes and leads to: an answer at once, or a call.

mod resource;
mod tool;

use crate::{
    call::{Purpose, Sought, Start, quietly},
    catalogue::Listing,
    context::Belongs,
    convert::{self, Answer, No},
    handle::{self, Source},
    handler::Prepared,
    instance::{Instance, Made},
    lists::Stock,
    model::JsonObject,
    offering::Offering,
    principal::Principal,
    round::{Retry, Round, Same},
    sampling,
    server::Inner,
    standing::Standing,
};
use http::HeaderMap;
use interlock_proto::{
    About, Code, Params, Refusal, Version,
    era::{self, Era, Method, Modern},
    refusal::shortened,
};
use interlock_workflow::{
    Binding, BindingId, Finish, Kind, Pass, Position, Reason, Refused, Scope, SymbolId, Workflow,
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

/// What is called.
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) name: Cow<'static, str>,
    /// What it is to the workflow, if that is known without looking for its name.
    pub(crate) symbol: Option<SymbolId>,
}

impl Wanted {
    pub(crate) const fn new(kind: Kind, name: Cow<'static, str>) -> Self {
        Self {
            kind,
            name,
            symbol: None,
        }
    }
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

    fn get_prompt(&self, asked: Asked<'_>) -> Result<Plan, Refusal> {
        let (name, arguments, retry) = Call::read(asked)?;
        let offering = asked.offering;
        let Some(prompt) = offering.catalogue.prompt(&name) else {
            return Err(unknown_prompt(&name));
        };
        let round = self.round(asked, &name, arguments.as_ref(), retry)?;
        let wanted = Wanted::new(Kind::Prompt, name.into_owned().into());
        let prompt = Arc::clone(prompt);
        let prepare = move |_: &Self, _, keep: bool| {
            let arguments = arguments.unwrap_or_default();
            let kept = keep.then(|| Value::Object(arguments.clone()));
            let handler = reading(|| prompt.prepare(arguments))?;
            let handler = handler.map_err(|why| Refusal::new(Code::InvalidParams).because(why))?;
            Ok((handler, kept))
        };
        self.admitted(asked, wanted, None, (None, None), round, prepare)
    }

    /// What a call leads to whose instance is known, or is to be found first.
    fn admitted(
        &self,
        asked: Asked<'_>,
        wanted: Wanted,
        handle: Option<Value>,
        limits: Limits,
        round: Round,
        prepare: impl FnOnce(&Self, Option<Position>, bool) -> Examined + Send + 'static,
    ) -> Result<Plan, Refusal> {
        let instance = match self.whose(asked, &wanted, handle) {
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
                    ..start_of(wanted, limits, asked.belongs())
                };
                return Ok(Plan::Call(start, round));
            }
            Err(no) => return Ok(self.refuse(asked, wanted.kind, no)),
        };
        Ok(self.let_in(asked, wanted, limits, round, instance, prepare))
    }

    /// What a call leads to whose instance is at hand, if it has one.
    fn let_in(
        &self,
        asked: Asked<'_>,
        wanted: Wanted,
        limits: Limits,
        round: Round,
        instance: Option<&Arc<Instance>>,
        prepare: impl FnOnce(&Self, Option<Position>, bool) -> Examined,
    ) -> Plan {
        match self.examine(instance, asked.principal, &wanted, prepare) {
            Ok(let_in) => {
                let start = Start {
                    handler: Some(let_in.handler),
                    made: let_in.made,
                    bound: let_in.bound,
                    ..start_of(wanted, limits, asked.belongs())
                };
                Plan::Call(start, round)
            }
            Err(no) => self.refuse(asked, wanted.kind, no),
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
        Wanted { kind, name, .. }: &Wanted,
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
        if workflow.is_always(*kind, name) {
            return Ok(Whose::Nobodys);
        }
        match (workflow.settings().scope, kind, handle) {
            (Scope::Principal | Scope::Global, _, _) => Ok(Whose::Sought(Source::Caller)),
            (Scope::Session | Scope::Handle, Kind::Tool, Some(Value::String(id))) => {
                Ok(Whose::Sought(Source::Handle(id)))
            }
            (Scope::Session | Scope::Handle, Kind::Tool, _) => Err(handle::missing(name)),
            (Scope::Session | Scope::Handle, Kind::Resource | Kind::Prompt, _) => {
                Err(handle::no_place(*kind, name))
            }
        }
    }

    /// The gate first, then the arguments, then the guard: what is not allowed now is not worth
    /// checking, and no guard has to look at what no schema allows.
    pub(crate) fn examine(
        &self,
        instance: Option<&Arc<Instance>>,
        principal: &Principal,
        wanted: &Wanted,
        prepare: impl FnOnce(&Self, Option<Position>, bool) -> Examined,
    ) -> Result<LetIn, No> {
        let at = instance.map(|instance| instance.position());
        let binding = self.admit(instance.zip(at), wanted)?;
        let keep = binding.is_some_and(Binding::reads_call);
        let prepared = prepare(self, at, keep).and_then(|prepared| match &prepared.1 {
            Some(kept) if Made::is_too_deep(kept) => Err(too_deep(&wanted.name)),
            Some(_) | None => Ok(prepared),
        });
        let (handler, kept) = prepared.inspect_err(|refusal| {
            if let (Some(instance), Some(_)) = (instance, binding) {
                let said = (refusal.code().number(), refusal.message());
                instance.refused(self.clock.now(), wanted.kind, &wanted.name, said);
            }
        })?;
        let made = kept.map(|args| {
            let principal = principal.facts();
            Arc::new(Made { args, principal })
        });
        if binding.is_some_and(Binding::is_conditional) {
            self.judge(instance, wanted, made.as_deref())?;
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
        wanted: &Wanted,
    ) -> Result<Option<&Binding>, No> {
        let Some((workflow, (instance, at))) = self.workflow.as_ref().zip(stands) else {
            return Ok(None);
        };
        let known = wanted
            .symbol
            .and_then(|symbol| workflow.bound_at(at, symbol));
        if known.is_some() {
            return Ok(known);
        }
        match workflow.admit(at, wanted.kind, &wanted.name) {
            Ok(Pass::Bound(binding)) => Ok(Some(binding)),
            Ok(Pass::Always) => Ok(None),
            Err(refused) => Err(self.refused(instance, refused)),
        }
    }

    /// Whether the call may run as things stand, with what it is called with.
    fn judge(
        &self,
        instance: Option<&Arc<Instance>>,
        wanted: &Wanted,
        made: Option<&Made>,
    ) -> Result<(), No> {
        let Some((workflow, instance)) = self.workflow.as_ref().zip(instance) else {
            return Ok(());
        };
        let call = Made::call(made, wanted.kind, &wanted.name);
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
        let (is_leased, is_over) = (instance.is_leased(), *refused.reason() == Reason::Finished);
        let mut no = match is_leased {
            // It never begins again.
            true => No::of(&refused, refused.path_if(Finish::Stay)),
            false => refused.into(),
        };
        if is_leased && is_over {
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

fn too_deep(name: &str) -> Refusal {
    Refusal::new(Code::InvalidJsonSchema).because(format!(
        "The arguments of '{name}' nest deeper than they can be kept: {} levels are allowed.",
        Made::DEEPEST
    ))
}

/// A call that nobody has let in yet.
#[inline]
fn start_of(
    Wanted { kind, name, .. }: Wanted,
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
