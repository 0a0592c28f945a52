//! Requests of 2026-07-28: each stands alone, and ends when its client goes away.

use super::{
    endpoint::{InFlight, Web, first},
    exchange::{self, Exchange, First},
    headers::{Noted, check_standard},
    reply::{self, Refused, Response},
    stream::{BodyOptions, Retention, StreamRules},
};
use crate::{
    audience::{Filter, Listen, Owner},
    call::{Line, Start},
    caller::{Caller, Client, Way},
    convert::Answer,
    launch::{Launched, Rest, launch},
    methods::{Asked, Plan},
    principal::Principal,
    round::Round,
    route::Route,
    signal::{Said, Signal, Signals, Teller},
    wire,
};
use http::StatusCode;
use interlock_proto::{
    Code, Params, Refusal, RequestId, RpcCode,
    era::{self, Era, Method, Modern},
    frame::{ErrorId, Request},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};

/// Serves one request.
pub(crate) async fn serve(
    web: &Arc<Web>,
    headers: &Noted<'_>,
    principal: Principal,
    in_flight: InFlight,
    request: &Request<'_>,
    modern: &Modern<'_>,
) -> Result<Response, Refused> {
    let refuse = |refusal: &Refusal| {
        let status = reply::status(Era::Stateless, Some(refusal.rpc_code()));
        reply::with_status(status, &ErrorId::Known(request.id.clone()), refusal)
    };
    let method = Method::parse(&request.method);
    let name = method.and_then(|method| name(method, request));
    check_standard(
        headers,
        modern.version.as_str(),
        &request.method,
        name.as_deref(),
    )
    .map_err(|why| refuse(&mismatch(why)))?;
    let method = method.ok_or_else(|| refuse(&Refusal::method_not_found(&request.method)))?;
    let planned = web.inner.with_offering(|offering| {
        offering.allows(method, modern.version)?;
        if web.sessions.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        if method == Method::SubscriptionsListen {
            return Ok(None);
        }
        let planned = web.inner.plan(Asked {
            method,
            offering,
            params: request.params.as_ref(),
            version: modern.version,
            instance: None,
            principal: &principal,
            modern: Some(modern),
            headers: Some(headers.all),
        });
        planned.map(Some)
    });
    let Some(plan) = planned.map_err(|refusal| refuse(&refusal))? else {
        return listen(web, principal, in_flight, request).map_err(|refusal| refuse(&refusal));
    };
    match plan {
        Plan::Ready(result) => {
            let mut body = Vec::new();
            wire::ready(&mut body, &request.id, &result);
            body.pop();
            Ok(reply::json(StatusCode::OK, body.into()))
        }
        Plan::Answer(answer) => {
            let (tone, mut line) = wire::answered(&request.id, &answer, None);
            line.pop();
            Ok(reply::json(reply::tone(Era::Stateless, tone), line.into()))
        }
        Plan::Call(start, round) => {
            Ok(run(web, principal, in_flight, request, modern, start, round).await)
        }
    }
}

/// What the header `Mcp-Name` mirrors.
fn name<'a>(method: Method, request: &Request<'a>) -> Option<Cow<'a, str>> {
    let about = request.params.as_ref()?.about()?;
    let raw = match method {
        Method::ToolsCall | Method::PromptsGet => about.name,
        Method::ResourcesRead => about.uri,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => about.task,
        Method::Initialize
        | Method::Ping
        | Method::Discover
        | Method::ToolsList
        | Method::ResourcesList
        | Method::ResourcesTemplatesList
        | Method::ResourcesSubscribe
        | Method::ResourcesUnsubscribe
        | Method::PromptsList
        | Method::LoggingSetLevel
        | Method::CompletionComplete
        | Method::TasksResult
        | Method::TasksList
        | Method::SubscriptionsListen => return None,
    };
    era::text(raw?)
}

pub(crate) fn mismatch(why: String) -> Refusal {
    Refusal::new(Code::InvalidHeader)
        .with_rpc(RpcCode::HEADER_MISMATCH)
        .because(why)
}

/// Runs a call: here and now if it does not have to wait, else as a task that ends with its client.
async fn run(
    web: &Arc<Web>,
    principal: Principal,
    in_flight: InFlight,
    request: &Request<'_>,
    modern: &Modern<'_>,
    start: Start,
    round: Round,
) -> Response {
    let caller = Caller {
        principal,
        version: modern.version,
        way: Way::Alone {
            inner: Arc::clone(&web.inner),
            client: Client::new(modern.capabilities, modern.client),
            level: modern.level,
            round,
        },
        progress: modern.progress.map(RawValue::to_owned),
        meta: web.inner.kept_meta(request.params.as_ref()),
    };
    let exchange = Exchange::new(exchange::Asked::Alone(stream_rules(web)), in_flight);
    let _expected = exchange.expected();
    let route = Route::Own(Arc::clone(&exchange));
    let line = Line {
        route: route.clone(),
        caller,
        at: web.inner.clock.now(),
    };
    let mut gone = Gone(None);
    let waits = || {
        let (teller, signals) = Signals::channel(Said::default());
        gone = Gone(Some(teller));
        let (route, id) = (route.clone(), request.id.clone());
        Some((signals, move |said| answer(&route, &id, said)))
    };
    match launch(start, line, waits) {
        Launched::Ended(said) => answer(&route, &request.id, said),
        Launched::Waits(rest) => {
            let (web, hurry) = (Arc::clone(web), gone.0.clone());
            tokio::spawn(with_hurry(web, rest, hurry));
        }
        Launched::Gone => {}
    }
    // From here on, whoever drops this response takes the call back.
    match first(web, &exchange).await {
        First::Answer(tone, message) => {
            gone.never();
            reply::json(reply::tone(Era::Stateless, tone), message)
        }
        First::Ended => {
            gone.never();
            reply::nothing()
        }
        First::Spoke | First::HungUp => reply::events(exchange.stream().body(BodyOptions {
            keep_alive: web.keep_alive.clone(),
            guard: Some(Box::new((gone, Arc::clone(&exchange)))),
            ..BodyOptions::default()
        })),
    }
}

/// Runs a call to its end, which must come soon once the server does not wait any longer.
async fn with_hurry(web: Arc<Web>, mut rest: Rest, hurry: Option<Teller>) {
    tokio::select! {
        () = &mut rest => {}
        () = web.overdue() => {
            if let Some(call) = hurry {
                call.tell(Signal::ShutDown);
            }
            rest.await;
        }
    }
}

fn answer(route: &Route, id: &RequestId, said: Option<Answer>) {
    match said {
        Some(said) => {
            let (tone, line) = wire::answered(id, &said, None);
            route.answer_with(tone, line);
        }
        None => route.silent(),
    }
}

/// Takes a call back when it is dropped: its client has gone away.
struct Gone(Option<Teller>);

impl Gone {
    fn never(mut self) {
        self.0 = None;
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(teller) = &self.0 {
            teller.tell(Signal::Cancel);
        }
    }
}

const fn stream_rules(web: &Web) -> StreamRules {
    StreamRules {
        retention: Retention::Once,
        retry: web.retry,
        keep_bytes: 1024 * 1024,
        keep_events: 1024,
    }
}

/// Opens a stream of changes; it stays open until either side ends it.
fn listen(
    web: &Arc<Web>,
    principal: Principal,
    in_flight: InFlight,
    request: &Request<'_>,
) -> Result<Response, Refusal> {
    let filter = Filter::read(request.params.as_ref().map(Params::get), &web.inner)?;
    let (audience, bounds) = (&web.inner.audience, &web.inner.bounds);
    let seat = audience.reserve(Owner::Principal(principal), &filter, bounds)?;
    let exchange = Exchange::new(exchange::Asked::Alone(stream_rules(web)), in_flight);
    let route = Route::Own(Arc::clone(&exchange));
    route.insist(|out| wire::acknowledged(out, &request.id, &filter));
    seat.listen(Listen {
        id: request.id.clone(),
        route,
        filter,
    });
    Ok(reply::events(exchange.stream().body(BodyOptions {
        keep_alive: web.keep_alive.clone(),
        guard: Some(Box::new((seat, Arc::clone(&exchange)))),
        ..BodyOptions::default()
    })))
}
