//! Requests that the connection machine has let through.

use crate::{
    call::{
        CallOrigin, Start,
        launch::{Launched, launch},
    },
    context::{
        cancellation::Signal,
        client::{Caller, ClientInfo, Way},
        multi_round::Round,
    },
    dispatch::{self, Plan, Request},
    outbound::{Route, lock},
    session::{ClientSession, inbound::IncomingRequest, subscriptions},
    wire::{self, AnswerKind, result::Answer},
};
use interlock_proto::{
    Code, Level, Params, Refusal, Time, Version,
    connection::{Key, Lane},
    era::Method,
    refusal::shortened,
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::sync::Arc;

impl ClientSession {
    /// Serves a request that the connection machine has let in.
    pub(super) fn serve(
        self: &Arc<Self>,
        key: &Key,
        incoming: &mut IncomingRequest<'_>,
        route: &Route,
    ) {
        let (method, version) = match allowed(incoming) {
            Ok(allowed) => allowed,
            Err(refusal) => return self.refuse(key, &refusal, route),
        };
        let params = incoming.request.params.as_ref().map(Params::get);
        let done = match method {
            Method::LoggingSetLevel => self.set_level(params),
            Method::ResourcesSubscribe => subscriptions::subscribe(self, params, version),
            Method::ResourcesUnsubscribe => subscriptions::unsubscribe(self, params),
            Method::SubscriptionsListen => {
                return subscriptions::open_stream(self, key.clone(), params, route);
            }
            Method::Initialize
            | Method::Ping
            | Method::Discover
            | Method::ToolsList
            | Method::ToolsCall
            | Method::ResourcesList
            | Method::ResourcesTemplatesList
            | Method::ResourcesRead
            | Method::PromptsList
            | Method::PromptsGet
            | Method::CompletionComplete
            | Method::TasksGet
            | Method::TasksResult
            | Method::TasksList
            | Method::TasksCancel
            | Method::TasksUpdate => return self.dispatch(key, method, version, incoming, route),
        };
        match done {
            Ok(()) => self.answer(key, &json!({}), route),
            Err(refusal) => self.refuse(key, &refusal, route),
        }
    }

    /// Serves a request that does not change the session itself.
    fn dispatch(
        self: &Arc<Self>,
        key: &Key,
        method: Method,
        version: Version,
        incoming: &mut IncomingRequest<'_>,
        route: &Route,
    ) {
        let signals = incoming.signals.take();
        let planned = dispatch::plan(
            &self.core,
            Request {
                method,
                snapshot: incoming.snapshot,
                params: incoming.request.params.as_ref(),
                version,
                instance: match key.lane {
                    Lane::Handshake => self.instance.as_ref(),
                    Lane::Stateless(_) => None,
                },
                principal: &self.principal,
                used: Some(&self.used),
                at: incoming.at,
                modern: incoming.modern.as_ref(),
                headers: None,
            },
        );
        match planned {
            Ok(Plan::Ready(result)) => {
                self.settle(key, incoming.at, || {
                    route.answer(AnswerKind::Result, |out| {
                        wire::raw_result(out, &key.id, &result)
                    });
                });
            }
            Ok(Plan::Answer(answer)) => self.send_answer(key, Some(&answer), incoming.at, route),
            Ok(Plan::Call(start, round)) => {
                let Some(signals) = signals else {
                    // It is registered as a call before it is planned as one.
                    return;
                };
                let origin = CallOrigin {
                    core: Arc::clone(&self.core),
                    route: route.clone(),
                    caller: self.caller(incoming, version, round),
                    signals,
                    at: incoming.at,
                };
                self.call(key, start, origin, route);
            }
            Err(refusal) => self.refuse(key, &refusal, route),
        }
    }

    fn caller(
        self: &Arc<Self>,
        incoming: &IncomingRequest<'_>,
        version: Version,
        round: Round,
    ) -> Caller {
        let way = match &incoming.modern {
            Some(modern) => Way::Alone {
                environment: Arc::clone(&self.core.environment),
                client: ClientInfo::new(modern.capabilities, modern.client),
                level: modern.level,
                round,
            },
            None => Way::Session(self.clone()),
        };
        let params = incoming.request.params.as_ref();
        let progress = match &incoming.modern {
            Some(modern) => modern.progress,
            None => params.and_then(Params::progress),
        };
        Caller {
            principal: self.principal.clone(),
            version,
            way,
            progress: progress.map(RawValue::to_owned),
            meta: self.core.kept_meta(params),
            _body: incoming.body.cloned(),
        }
    }

    /// Runs a call: in place if it does not have to wait, else as a task.
    fn call(self: &Arc<Self>, key: &Key, start: Start, origin: CallOrigin, route: &Route) {
        let at = origin.at;
        let rest = match launch(start, origin) {
            Launched::Ended(ref said) => return self.send_answer(key, said.as_ref(), at, route),
            Launched::Waits(rest) => rest,
        };
        let (session, of, to) = (Arc::clone(self), key.clone(), route.clone());
        let task = self.core.background.track_future(async move {
            let said = rest.await;
            session.send_answer(&of, said.as_ref(), session.core.clock.now(), &to);
        });
        let mut task = Some(task);
        // Spawned under the lock, so that the task cannot end before its handle is registered.
        lock(&self.state).calls.become_task(key, || {
            let task = task.take().expect("it is spawned once");
            tokio::spawn(task).abort_handle()
        });
        // If all calls were aborted meanwhile, the call is dropped here, without the lock: what it
        // holds is user code.
        drop(task);
    }

    pub(super) fn signal(&self, key: &Key, signal: Signal) {
        lock(&self.state).calls.signal(key, signal);
    }

    fn send_answer(self: &Arc<Self>, key: &Key, said: Option<&Answer>, now: Time, route: &Route) {
        let id = &key.id;
        match (said, route) {
            (None, _) => self.settle(key, now, || route.end_unanswered()),
            // A shared stream is written to in place.
            (Some(said), Route::Shared(_)) => self.settle(key, now, || {
                route.answer(AnswerKind::Result, |out| {
                    wire::answer(out, id, said, self.home());
                });
            }),
            (Some(said), Route::Session(_) | Route::Own(_) | Route::Batch(_)) => {
                let (kind, line) = wire::answer_line(id, said, self.home());
                self.settle(key, now, || route.answer_line(kind, line));
            }
        }
    }

    fn set_level(&self, params: Option<&str>) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct SetLevel {
            level: String,
        }
        let SetLevel { level } = dispatch::read("logging/setLevel", params)?;
        let level = Level::parse(&level).ok_or_else(|| {
            let known: Vec<_> = Level::ALL.iter().map(|level| level.as_str()).collect();
            Refusal::new(Code::InvalidParams).because(format!(
                "`{}` is no log level; there are: {}",
                shortened(&level),
                known.join(", ")
            ))
        })?;
        lock(&self.state).profile.level = level;
        Ok(())
    }
}

/// The method and the version of a request, if the method exists there.
fn allowed(incoming: &IncomingRequest<'_>) -> Result<(Method, Version), Refusal> {
    let name = &incoming.request.method;
    let unknown = || Refusal::method_not_found(name);
    let method = incoming.method.ok_or_else(unknown)?;
    if let Some(modern) = &incoming.modern {
        incoming.snapshot.allows(method, modern.version)?;
        return Ok((method, modern.version));
    }
    if method == Method::Ping {
        // The connection machine lets it through even before `initialize`.
        return Ok((method, Version::COUNTER_OFFER));
    }
    match &incoming.allowed {
        Some(Ok(version)) => Ok((method, *version)),
        Some(Err(refusal)) => Err(refusal.clone()),
        // Without an agreement nothing is allowed.
        None => Err(Refusal::new(Code::ServerUninitialized)),
    }
}
