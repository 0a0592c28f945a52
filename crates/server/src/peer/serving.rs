//! Requests that the connection machine has let through.

use super::{Arrived, Beginning, Peer, Running};
use crate::{
    call::{Line, Start},
    caller::{Caller, Client, Way},
    convert::Answer,
    launch::{Launched, launch},
    methods::{Asked, Plan},
    round::Round,
    route::{Route, Tone, lock},
    signal::{Signal, Signals},
    wire,
};
use interlock_proto::{
    Code, Level, Params, Refusal, Time, Version,
    connection::{Key, Lane},
    era::Method,
    refusal::shortened,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::{Arc, atomic::Ordering};

impl Peer {
    pub(super) fn serve(self: &Arc<Self>, key: &Key, arrived: &Arrived<'_>, route: &Route) {
        let (method, version) = match self.allowed(arrived) {
            Ok(allowed) => allowed,
            Err(refusal) => return self.refuse(key, &refusal, route),
        };
        let params = arrived.request.params.as_ref();
        let text = params.map(Params::get);
        let own = match method {
            Method::LoggingSetLevel => Some(self.set_level(text)),
            Method::ResourcesSubscribe => Some(self.subscribe(text, version)),
            Method::ResourcesUnsubscribe => Some(self.unsubscribe(text)),
            Method::SubscriptionsListen => return self.listen(key.clone(), text, route),
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
            | Method::TasksUpdate => None,
        };
        if let Some(done) = own {
            return match done {
                Ok(()) => self.answer(key, &serde_json::json!({}), route),
                Err(refusal) => self.refuse(key, &refusal, route),
            };
        }
        let served = self.inner.plan(Asked {
            method,
            offering: arrived.offering,
            params,
            version,
            instance: match key.lane {
                Lane::Handshake => self.instance.as_ref(),
                Lane::Stateless(_) => None,
            },
            principal: &self.principal,
            modern: arrived.modern.as_ref(),
            headers: None,
        });
        match served {
            Ok(Plan::Ready(result)) => {
                self.settle(key, arrived.at, || {
                    route.answer(Tone::Result, |out| wire::ready(out, &key.id, &result));
                });
            }
            Ok(Plan::Answer(answer)) => self.said(key, Some(&answer), arrived.at, route),
            Ok(Plan::Call(start, round)) => {
                let caller = self.caller(arrived, version, round);
                self.call(key, start, caller, arrived.at, route);
            }
            Err(refusal) => self.refuse(key, &refusal, route),
        }
    }

    fn caller(self: &Arc<Self>, arrived: &Arrived<'_>, version: Version, round: Round) -> Caller {
        let way = match &arrived.modern {
            Some(modern) => Way::Alone {
                inner: Arc::clone(&self.inner),
                client: Client::new(modern.capabilities, modern.client),
                level: modern.level,
                round,
            },
            None => Way::Session(Arc::clone(self)),
        };
        let progress = match &arrived.modern {
            Some(modern) => modern.progress,
            None => {
                let params = arrived.request.params.as_ref();
                params.and_then(Params::progress)
            }
        };
        Caller {
            principal: self.principal.clone(),
            version,
            way,
            progress: progress.map(RawValue::to_owned),
            meta: self.inner.kept_meta(arrived.request.params.as_ref()),
        }
    }

    /// Whether the method exists for this request, and in which version it is spoken.
    fn allowed(&self, arrived: &Arrived<'_>) -> Result<(Method, Version), Refusal> {
        let name = &arrived.request.method;
        let unknown = || Refusal::method_not_found(name);
        let method = arrived.method.ok_or_else(unknown)?;
        if let Some(modern) = &arrived.modern {
            arrived.offering.allows(method, modern.version)?;
            return Ok((method, modern.version));
        }
        if method == Method::Ping {
            // The connection machine has let it through, be it before `initialize`.
            return Ok((method, Version::COUNTER_OFFER));
        }
        match &arrived.allowed {
            Some(Ok(version)) => Ok((method, *version)),
            Some(Err(refusal)) => Err(refusal.clone()),
            // Nothing was agreed on, so nothing is.
            None => Err(Refusal::new(Code::ServerUninitialized)),
        }
    }

    /// Runs a call: here and now if it does not have to wait, else as a task.
    fn call(self: &Arc<Self>, key: &Key, start: Start, caller: Caller, at: Time, route: &Route) {
        let line = Line {
            route: route.clone(),
            caller,
            at,
        };
        let waits = || {
            let signals = self.waits(key)?;
            let (peer, key, route) = (Arc::clone(self), key.clone(), route.clone());
            let done = move |said: Option<Answer>| {
                peer.said(&key, said.as_ref(), peer.inner.clock.now(), &route);
            };
            Some((signals, done))
        };
        let rest = match launch(start, line, waits) {
            Launched::Ended(ref said) => return self.said(key, said.as_ref(), at, route),
            Launched::Waits(rest) => rest,
            Launched::Gone => return,
        };
        let mut book = lock(&self.book);
        if let Some(running) = book.calls.get_mut(key) {
            // With the book in hand: the task cannot end before its handle is where it belongs.
            running.task = Some(tokio::spawn(rest).abort_handle());
        } else {
            // All calls were ended meanwhile, and so is this one. What it holds is not ours.
            drop(book);
            drop(rest);
        }
    }

    /// A call that begins has to wait. `None`: all calls were ended meanwhile.
    fn waits(&self, key: &Key) -> Option<Signals> {
        let mut book = lock(&self.book);
        let Beginning { key, said } = book.begun(key)?;
        let (teller, signals) = Signals::channel(said);
        book.calls.insert(key, Running { teller, task: None });
        Some(signals)
    }

    pub(super) fn signal(&self, key: &Key, signal: Signal) {
        let mut book = lock(&self.book);
        let mut beginning = book.beginning.iter_mut();
        if let Some(beginning) = beginning.find(|beginning| beginning.key == *key) {
            beginning.said.add(signal);
        } else if let Some(call) = book.calls.get(key) {
            call.teller.tell(signal);
        }
    }

    fn said(self: &Arc<Self>, key: &Key, said: Option<&Answer>, now: Time, route: &Route) {
        let id = &key.id;
        match (said, route) {
            (None, _) => self.settle(key, now, || route.silent()),
            // What all share it is written to at once.
            (Some(said), Route::Shared(_)) => self.settle(key, now, || {
                route.answer(Tone::Result, |out| {
                    wire::answer(out, id, said, self.home());
                });
            }),
            (Some(said), Route::Feed(_) | Route::Own(_) | Route::Batch(_)) => {
                let (tone, line) = wire::answered(id, said, self.home());
                self.settle(key, now, || route.answer_with(tone, line));
            }
        }
    }

    fn set_level(&self, params: Option<&str>) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        struct SetLevel {
            level: String,
        }
        let SetLevel { level } = crate::methods::read("logging/setLevel", params)?;
        let level = Level::parse(&level).ok_or_else(|| {
            let known: Vec<_> = Level::ALL.iter().map(|level| level.as_str()).collect();
            Refusal::new(Code::InvalidParams).because(format!(
                "`{}` is no log level; there are: {}",
                shortened(&level),
                known.join(", ")
            ))
        })?;
        self.level.store(level as u8, Ordering::Relaxed);
        Ok(())
    }
}
