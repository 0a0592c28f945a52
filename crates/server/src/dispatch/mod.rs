//! What each method takes and leads to: an answer at once, or a call.
//!
//! This room reads parameters, finds what is called in the catalog and admits it; guards come later,
//! in `call`. It runs no handler, waits for nothing and knows neither sessions nor transports.

mod completion;
mod handle_tools;
pub(crate) mod listen;
mod params;
mod plan_call;
mod prompt;
mod resource;
mod tool;

pub(crate) use params::read;

use crate::{
    api::{Places, drop_quietly},
    call::Start,
    catalog::{Listing, header_params::CheckHeaders, pages::ListSource, snapshot::CatalogSnapshot},
    context::{Belongs, multi_round::Round},
    core::{Core, rates::SessionUse},
    wire::result::Answer,
};
use interlock_engine::{Instance, Principal};
use interlock_proto::{
    Code, Params, Refusal, Time, Version,
    era::{Era, Method, Modern},
};
use interlock_workflow::Kind;
use serde_json::{Value, value::RawValue};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

/// What a request leads to.
pub(crate) enum Plan {
    /// A result that is there already.
    Ready(Arc<RawValue>),
    /// An answer that had to be made.
    Answer(Answer),
    /// A handler has to run, with the answers that its client has brought.
    Call(Start, Round),
}

/// How long a call may run, and where it takes a place.
type Limits = (Option<Duration>, Option<Places>);

/// A request, as far as methods care.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    /// What there was to be used when it came.
    pub(crate) snapshot: &'a CatalogSnapshot,
    pub(crate) params: Option<&'a Params<'a>>,
    pub(crate) version: Version,
    /// The instance of the connection; stateless requests have none.
    pub(crate) instance: Option<&'a Arc<Instance>>,
    pub(crate) principal: &'a Principal,
    /// What its session has used up of its rates, if it came in one.
    pub(crate) used: Option<&'a SessionUse>,
    pub(crate) at: Time,
    /// What a stateless request says about itself.
    pub(crate) modern: Option<&'a Modern<'a>>,
    /// The headers that have to say what its arguments say.
    pub(crate) headers: Option<&'a dyn CheckHeaders>,
}

impl<'a> Request<'a> {
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

/// Reads the parameters of a method that may be called, and says what it leads to.
pub(crate) fn plan(core: &Arc<Core>, request: Request<'_>) -> Result<Plan, Refusal> {
    let Request {
        method,
        used,
        principal,
        at,
        ..
    } = request;
    match core.call_rates.check(method, used, principal, at) {
        Err(refusal) if method == Method::ToolsCall => {
            // The model reads it.
            return Ok(plan_call::refuse(core, request, Kind::Tool, refusal.into()));
        }
        checked => checked?,
    }
    match method {
        Method::Ping => Ok(Plan::Ready(raw(&serde_json::json!({})))),
        Method::Discover => Ok(Plan::Ready(raw(&core.discover_result()))),
        Method::ToolsList => list(core, request, Listing::Tools),
        Method::ResourcesList => list(core, request, Listing::Resources),
        Method::PromptsList => list(core, request, Listing::Prompts),
        Method::ResourcesTemplatesList => list(core, request, Listing::Templates),
        Method::ToolsCall => tool::call_tool(core, request),
        Method::ResourcesRead => resource::read_resource(core, request),
        Method::PromptsGet => prompt::get_prompt(core, request),
        Method::CompletionComplete => completion::complete(core, request),
        Method::Initialize
        | Method::ResourcesSubscribe
        | Method::ResourcesUnsubscribe
        | Method::LoggingSetLevel
        | Method::TasksGet
        | Method::TasksResult
        | Method::TasksList
        | Method::TasksCancel
        | Method::TasksUpdate
        | Method::SubscriptionsListen => Err(Refusal::method_not_found(request.method.name())),
    }
}

fn list(core: &Core, request: Request<'_>, listing: Listing) -> Result<Plan, Refusal> {
    let cursor = params::cursor(request)?;
    let snapshot = request.snapshot;
    let source = ListSource {
        catalog: &snapshot.catalog,
        workflow: core.workflow(),
        server: &core.info,
    };
    let list = match request.version.era() {
        Era::Handshake => {
            let at = request.instance.map(|instance| instance.position());
            snapshot.pages.handshake(source, at, listing)
        }
        Era::Stateless => snapshot.pages.stateless(source, listing),
    };
    match list.page(cursor.as_deref()) {
        Some(page) => Ok(Plan::Ready(Arc::clone(page))),
        None => Err(Refusal::new(Code::InvalidParams)
            .because("there is no page with this cursor; list again without one")),
    }
}

/// Lets arguments be read by a type of the application, which may panic.
fn reading<T>(read: impl FnOnce() -> T) -> Result<T, Refusal> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|payload| {
        drop_quietly(payload);
        Refusal::new(Code::InternalError).because("reading the arguments panicked")
    })
}

fn raw(value: &Value) -> Arc<RawValue> {
    Arc::from(serde_json::value::to_raw_value(value).expect("a value is JSON"))
}
