//! Requests of 2026-07-28: each stands alone, and ends when its client goes away.

use crate::{
    call::{
        CallOrigin, Start,
        launch::{Launched, Rest, launch},
    },
    context::{
        cancellation::{Signal, SignalSender},
        client::{Caller, ClientInfo, Way},
        multi_round::Round,
    },
    dispatch::{self, Plan, Request as DispatchRequest},
    outbound::{
        Route,
        exchange::{Exchange, Exchanged, First},
        stream::{Retention, Stream, StreamRules},
        subscribers::ChangeStream,
    },
    transport::http::{
        endpoint::{Client, Counted, first},
        event_stream::{EventStream, EventStreamOptions},
        headers::{KnownHeaders, check_name, check_standard},
        in_flight::Slot,
        response::{self, ErrorResponse, Response},
        state::HttpState,
    },
    wire::{self, AnswerKind, result::Answer},
};
use http::StatusCode;
use interlock_engine::Principal;
use interlock_proto::{
    Code, Params, Refusal, RequestId, RpcCode,
    era::{self, Method, Modern},
    frame::{ErrorId, Request},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, sync::Arc};

/// Serves one request.
pub(crate) async fn serve(
    http: &Arc<HttpState>,
    headers: &KnownHeaders<'_>,
    client: Client,
    counted: Counted,
    request: &Request<'_>,
    modern: &Modern<'_>,
) -> Result<Response, ErrorResponse> {
    let refuse = |refusal: &Refusal| {
        let status = response::stateless_status(AnswerKind::Error(refusal.rpc_code()));
        response::with_status(status, &ErrorId::Known(request.id.clone()), refusal)
    };
    let planned = plan(http, headers, &client.principal, request, modern);
    let Some(plan) = planned.map_err(|refusal| refuse(&refusal))? else {
        let slot = counted.slot;
        return listen(http, client, slot, request).map_err(|refusal| refuse(&refusal));
    };
    match plan {
        Plan::Ready(result) => {
            let mut line = Vec::new();
            wire::raw_result(&mut line, &request.id, &result);
            line.pop();
            Ok(response::json(StatusCode::OK, line.into()))
        }
        Plan::Answer(answer) => {
            let (kind, mut line) = wire::answer_line(&request.id, &answer, None);
            line.pop();
            let status = response::stateless_status(kind);
            Ok(response::json(status, line.into()))
        }
        Plan::Call(start, round) => Ok(run(
            http,
            client.principal,
            counted,
            request,
            modern,
            start,
            round,
        )
        .await),
    }
}

/// What to do about a request; none if it opens a subscription.
fn plan(
    http: &HttpState,
    headers: &KnownHeaders<'_>,
    principal: &Principal,
    request: &Request<'_>,
    modern: &Modern<'_>,
) -> Result<Option<Plan>, Refusal> {
    let version = modern.version;
    check_standard(headers, version.as_str(), &request.method).map_err(mismatch)?;
    let method = Method::parse(&request.method);
    let method = method.ok_or_else(|| Refusal::method_not_found(&request.method))?;
    http.inner.with_snapshot(|snapshot| {
        // A method that this server does not have is not found, whatever else is wrong.
        snapshot.allows(method, version)?;
        if let Some(name) = name(method, request) {
            check_name(headers, &name).map_err(mismatch)?;
        }
        if http.sessions.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        if method == Method::SubscriptionsListen {
            return Ok(None);
        }
        let planned = dispatch::plan(
            &http.inner,
            DispatchRequest {
                method,
                snapshot,
                params: request.params.as_ref(),
                version,
                instance: None,
                principal,
                used: None,
                at: http.inner.clock.now(),
                modern: Some(modern),
                headers: Some(headers.all),
            },
        );
        planned.map(Some)
    })
}

/// The parameter that the header `Mcp-Name` mirrors.
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

pub(super) fn mismatch(why: String) -> Refusal {
    Refusal::new(Code::InvalidHeader)
        .with_rpc(RpcCode::HEADER_MISMATCH)
        .because(why)
}

/// Runs a call: in place if it does not have to wait, else as a task that ends with its client.
async fn run(
    http: &Arc<HttpState>,
    principal: Principal,
    Counted { slot, share }: Counted,
    request: &Request<'_>,
    modern: &Modern<'_>,
    start: Start,
    round: Round,
) -> Response {
    let caller = Caller {
        principal,
        version: modern.version,
        way: Way::Alone {
            environment: Arc::clone(&http.inner.environment),
            client: ClientInfo::new(modern.capabilities, modern.client),
            level: modern.level,
            round,
        },
        progress: modern.progress.map(RawValue::to_owned),
        meta: http.inner.kept_meta(request.params.as_ref()),
        _body: Some(share),
    };
    let exchange = Exchange::new(Alone { slot });
    let _expected = exchange.expect_reader();
    let route = Route::Own(Arc::clone(&exchange));
    let signals = SignalSender::default();
    let origin = CallOrigin {
        core: Arc::clone(&http.inner),
        route: route.clone(),
        caller,
        signals: signals.receiver(),
        at: http.inner.clock.now(),
    };
    let mut cancel = CancelOnDrop(None);
    match launch(start, origin) {
        Launched::Ended(said) => answer(&route, &request.id, said),
        Launched::Waits(rest) => {
            cancel = CancelOnDrop(Some(signals.clone()));
            let (http, id) = (Arc::clone(http), request.id.clone());
            let background = http.inner.background.clone();
            background.spawn(async move {
                let said = run_to_end(&http, rest, &signals).await;
                answer(&route, &id, said);
            });
        }
    }
    // From here on the call is cancelled if the response is dropped.
    match first(http, &exchange).await {
        First::Answer(kind, message) => {
            cancel.disarm();
            response::json(response::stateless_status(kind), message)
        }
        First::Ended => {
            cancel.disarm();
            response::nothing()
        }
        First::Stream | First::Disconnect => events(http, &exchange, cancel),
    }
}

/// Runs a call to its end. Once the drain time is over, the call is told to shut down.
async fn run_to_end(http: &HttpState, mut rest: Rest, signals: &SignalSender) -> Option<Answer> {
    tokio::select! {
        said = &mut rest => said,
        () = http.overdue() => {
            signals.send(Signal::ShutDown);
            rest.await
        }
    }
}

fn answer(route: &Route, id: &RequestId, said: Option<Answer>) {
    match said {
        Some(said) => {
            let (kind, line) = wire::answer_line(id, &said, None);
            route.answer_line(kind, line);
        }
        None => route.end_unanswered(),
    }
}

/// Cancels a call when it is dropped, because the client has disconnected.
struct CancelOnDrop(Option<SignalSender>);

impl CancelOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(sender) = &self.0 {
            sender.send(Signal::Cancel);
        }
    }
}

/// A request of no session.
#[derive(Debug)]
struct Alone {
    slot: Arc<Slot>,
}

impl Exchanged for Alone {
    fn open_stream(&self) -> Arc<Stream> {
        let rules = StreamRules {
            retention: Retention::Once,
            keep_bytes: 1024 * 1024,
            keep_events: 1024,
        };
        Stream::new(0, rules)
    }

    fn asks_person(&self) {
        self.slot.wait();
    }
}

/// Opens a stream of changes, which stays open until either side ends it. It is bounded by what may
/// be listened to, and is not in flight: nothing is done for it until something changes.
fn listen(
    http: &Arc<HttpState>,
    client: Client,
    slot: Arc<Slot>,
    request: &Request<'_>,
) -> Result<Response, Refusal> {
    let params = request.params.as_ref().map(Params::get);
    let owner = client.quota_owner();
    let (filter, registration) = dispatch::listen::register(&http.inner, params, owner)?;
    slot.release();
    let exchange = Exchange::new(Alone { slot });
    let route = Route::Own(Arc::clone(&exchange));
    route.send_required(|out| wire::subscription_acknowledged(out, &request.id, &filter));
    registration.activate(ChangeStream {
        id: request.id.clone(),
        route,
        filter,
    });
    Ok(events(http, &exchange, registration))
}

/// The stream of an exchange, and what ends with it.
fn events(http: &HttpState, exchange: &Arc<Exchange>, guard: impl Send + 'static) -> Response {
    let options = EventStreamOptions {
        guard: Some(Box::new(guard)),
        ..http.stream_options()
    };
    response::events(EventStream::new(&exchange.stream(), options))
}
