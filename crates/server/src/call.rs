//! One call: the loop around the invocation machine.
//!
//! It waits for one thing, lets the machine decide, and does what the machine orders. Committing
//! comes before telling others, telling others before answering.

use crate::{
    clock,
    context::{Context, Place},
    convert::{self, Answer, No},
    failure::Failure,
    handler::{Prepared, Reply},
    instance::{Held, Inbox, Instance, KeepError, Marked, Turn},
    server::Inner,
    wire,
};
use futures_util::{FutureExt, future::BoxFuture};
use interlock_proto::{
    Code, Refusal, RequestId, Version,
    invocation::{self, Effect, Finish, Input, Invocation, Outcome, State},
    machine::Machine,
};
use interlock_workflow::{Kind, Pass, Position};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::watch;

/// A call that has been admitted.
pub(crate) struct Start {
    pub(crate) purpose: Purpose,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) handler: Prepared,
    pub(crate) instance: Option<Arc<Instance>>,
    pub(crate) version: Version,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To use what is called: the gate decides, and its end may move the instance.
    Use,
    /// To suggest how what is called could be used: nobody decides, and nothing moves.
    Complete,
}

/// Where a call's messages go, and where it hears from its connection.
pub(crate) struct Line {
    pub(crate) id: RequestId,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) signals: Signals,
}

/// What a call has to say to its client: whole lines.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// What comes before the answer.
    pub(crate) before: Vec<u8>,
    /// The answer, unless the client took the call back.
    pub(crate) answer: Option<Vec<u8>>,
}

/// Runs the call to its end.
pub(crate) async fn run(inner: Arc<Inner>, start: Start, line: Line) -> Said {
    Running::new(inner, start, line).run().await
}

struct Running {
    inner: Arc<Inner>,
    purpose: Purpose,
    kind: Kind,
    name: String,
    timeout: Option<Duration>,
    handler: Option<Prepared>,
    instance: Option<Arc<Instance>>,
    version: Version,
    line: Line,
    waiting: Waiting,
    stop: watch::Sender<bool>,
    turn: Option<Turn>,
    /// Where the instance stood after this call had moved it; others may have moved it since.
    after: Option<Position>,
    reply: Option<Result<Reply, Failure>>,
    no: Option<No>,
    said: Said,
}

/// How often a call tries to write down that it runs, if others write in between.
const ATTEMPTS: usize = 16;

/// What the call waits for.
enum Waiting {
    Nothing,
    /// For nothing: it need not take turns, and this is what became of it.
    Judged(Option<Result<Duration, No>>),
    Turn(BoxFuture<'static, Option<Held>>),
    Handler(BoxFuture<'static, Finished>),
}

/// What a handler returned, or that it panicked.
type Finished = std::thread::Result<Result<Reply, Failure>>;

/// What it waited for.
enum Came {
    Judgement(Result<Duration, No>),
    Turn(Option<Held>),
    Finished(Finished),
}

impl Running {
    fn new(inner: Arc<Inner>, start: Start, line: Line) -> Self {
        Self {
            inner,
            purpose: start.purpose,
            kind: start.kind,
            name: start.name,
            timeout: start.timeout,
            handler: Some(start.handler),
            instance: start.instance,
            version: start.version,
            line,
            waiting: Waiting::Nothing,
            stop: watch::Sender::new(false),
            turn: None,
            after: None,
            reply: None,
            no: None,
            said: Said::default(),
        }
    }

    async fn run(mut self) -> Said {
        let times = self.inner.times;
        let mut state = State::Idle;
        let mut input = Input::Call {
            queue: times.queue,
            grace: times.grace,
        };
        loop {
            let event = Invocation::input_name(&input);
            let step = invocation::step(&state, input, self.inner.clock.now());
            wire::trace::<Invocation>(&state, event, &step.state);
            state = step.state;
            for effect in step.effects {
                self.perform(effect).await;
            }
            input = match state {
                State::Result(_) => Input::Settled,
                State::Idle => return self.said,
                State::Pending { .. } => self.next_while_pending(&state).await,
                State::Executing { .. } => self.next_while_executing(&state).await,
            };
        }
    }

    /// A call that was taken back while it waited must not begin, even if its turn has come.
    async fn next_while_pending(&mut self, state: &State) -> Input {
        let came = tokio::select! {
            biased;
            signal = self.line.signals.next() => return signal,
            came = self.waiting.next() => came,
            () = clock::sleep_until(&*self.inner.clock, state.wake_at()) => return Input::Tick,
        };
        let input = self.input(came).await;
        // It may have been taken back while the store was asked.
        self.line.signals.ready().unwrap_or(input)
    }

    /// What a handler has done is done, even if nobody wants it any more.
    async fn next_while_executing(&mut self, state: &State) -> Input {
        let came = tokio::select! {
            biased;
            came = self.waiting.next() => came,
            signal = self.line.signals.next() => return signal,
            () = clock::sleep_until(&*self.inner.clock, state.wake_at()) => return Input::Tick,
        };
        self.input(came).await
    }

    /// What came, as the machine hears it.
    async fn input(&mut self, came: Came) -> Input {
        self.waiting = Waiting::Nothing;
        let judged = match came {
            Came::Finished(finished) => return self.finished(finished),
            Came::Judgement(judged) => judged,
            Came::Turn(Some(held)) => self.take_turn(held).await,
            Came::Turn(None) => Err(Refusal::new(Code::InstanceBusy).into()),
        };
        match judged {
            Ok(execution) => Input::Turn { execution },
            Err(no) => {
                let refusal = no.refusal.clone();
                self.no = Some(no);
                Input::Refused(refusal)
            }
        }
    }

    fn finished(&mut self, finished: Finished) -> Input {
        let result = match finished {
            Ok(Ok(mut reply)) => {
                reply.disown();
                Ok(reply)
            }
            Ok(Err(failure)) => Err(failure),
            Err(payload) => {
                quietly(|| drop(payload));
                return Input::Panicked;
            }
        };
        let input = match &result {
            Ok(Reply::Tool(result)) if result.is_error() => Input::Finished(Finish::Error),
            Ok(Reply::Tool(_) | Reply::Resource(_) | Reply::Prompt(_) | Reply::Completion(_)) => {
                Input::Finished(Finish::Success)
            }
            Err(failure) if failure.is_stopped() => Input::Stopped,
            Err(_) => Input::Finished(Finish::Error),
        };
        self.reply = Some(result);
        input
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Enqueue => self.waiting = self.enqueue(),
            Effect::LeaveQueue => self.leave_queue().await,
            Effect::Start => self.waiting = self.begin(),
            Effect::AskToStop => {
                self.stop.send_replace(true);
            }
            Effect::TearDown => {
                self.stop.send_replace(true);
                quietly(|| self.waiting = Waiting::Nothing);
            }
            Effect::Commit(outcome) => self.commit(outcome).await,
            Effect::Respond => self.respond(),
            Effect::Refuse(refusal) => {
                let gate = self.no.take().and_then(|no| no.gate);
                self.answer(convert::refused(
                    self.kind,
                    No { refusal, gate },
                    self.place(),
                    self.version,
                ));
            }
            // Progress has no way out of a handler yet, so there is nothing to forward.
            Effect::Suppress | Effect::Forward => {}
        }
    }

    /// A call that can move its instance waits for its turn; any other runs beside it.
    fn enqueue(&self) -> Waiting {
        let Some((workflow, instance)) = self.inner.workflow.as_ref().zip(self.instance.as_ref())
        else {
            return Waiting::Judged(Some(Ok(self.execution(None))));
        };
        if self.purpose == Purpose::Complete {
            return Waiting::Judged(Some(Ok(self.execution(None))));
        }
        match workflow.admit(instance.position(), self.kind, &self.name) {
            Ok(Pass::Bound(binding)) if binding.moves() => {
                let turn = Arc::clone(instance).turn(workflow.settings().busy);
                Waiting::Turn(turn.boxed())
            }
            Ok(Pass::Bound(binding)) => {
                Waiting::Judged(Some(Ok(self.execution(binding.deadline()))))
            }
            Ok(Pass::Always) => Waiting::Judged(Some(Ok(self.execution(None)))),
            Err(refused) => Waiting::Judged(Some(Err(refused.into()))),
        }
    }

    /// Judges the call again on the state that is found now, and writes down that it runs.
    async fn take_turn(&mut self, mut held: Held) -> Result<Duration, No> {
        let inner = Arc::clone(&self.inner);
        let Some(workflow) = &inner.workflow else {
            return Ok(self.execution(None));
        };
        // Whoever wrote in between got on, so this ends unless the store is broken.
        for _ in 0..ATTEMPTS {
            let at = held
                .position(inner.books(workflow))
                .await
                .map_err(unsaved)?;
            let binding = match workflow.admit(at, self.kind, &self.name)? {
                Pass::Always => return Ok(self.execution(None)),
                Pass::Bound(binding) if !binding.moves() => {
                    return Ok(self.execution(binding.deadline()));
                }
                Pass::Bound(binding) => binding,
            };
            let marked = held.mark(inner.books(workflow), binding).await;
            match marked.map_err(unsaved)? {
                Marked::Yes(turn) => {
                    self.turn = Some(turn);
                    return Ok(self.execution(binding.deadline()));
                }
                Marked::Stale(again) => held = again,
            }
        }
        Err(Refusal::new(Code::InstanceBusy).into())
    }

    async fn leave_queue(&mut self) {
        self.waiting = Waiting::Nothing;
        let inner = Arc::clone(&self.inner);
        if let Some((turn, workflow)) = self.turn.take().zip(inner.workflow.as_ref())
            && let Err(error) = turn.release(inner.books(workflow)).await
        {
            unsaved(error);
        }
    }

    fn execution(&self, deadline: Option<Duration>) -> Duration {
        deadline
            .or(self.timeout)
            .unwrap_or(self.inner.times.execution)
    }

    /// Starts the handler, in a box that panics do not leave.
    fn begin(&mut self) -> Waiting {
        let Some(handler) = self.handler.take() else {
            return Waiting::Nothing;
        };
        let place = self.inner.workflow.as_ref().zip(self.instance.as_ref());
        let place = place.map(|(workflow, instance)| {
            Arc::new(Place {
                instance: Arc::clone(instance.id()),
                state: workflow.state_name(instance.position().state).to_owned(),
            })
        });
        let context = Context::new(place, self.stop.subscribe());
        let work = AssertUnwindSafe(async move { handler(context).await });
        Waiting::Handler(work.catch_unwind().boxed())
    }

    async fn commit(&mut self, outcome: Outcome) {
        let inner = Arc::clone(&self.inner);
        let Some((turn, workflow)) = self.turn.take().zip(inner.workflow.as_ref()) else {
            return;
        };
        let books = inner.books(workflow);
        match turn.commit(books, convert::outcome(outcome)).await {
            Ok(Some(moved)) => {
                self.after = Some(moved.after);
                if inner.lists_change() {
                    let kinds = || workflow.lists_differ(moved.before, moved.after);
                    for kind in kinds() {
                        wire::list_changed(&mut self.said.before, kind);
                    }
                    if let Some(instance) = &self.instance {
                        instance.tell_others(&self.line.inbox, kinds());
                    }
                }
            }
            Ok(None) => tracing::error!(name = self.name, "a call held the turn of another"),
            Err(error) => {
                self.reply = None;
                self.no = Some(unsaved(error));
            }
        }
    }

    fn respond(&mut self) {
        let answer = match self.reply.take() {
            Some(Ok(reply)) => convert::replied(reply, self.place(), self.version),
            Some(Err(failure)) => convert::failed(self.kind, &failure, self.place(), self.version),
            // The step could not be saved, so what the handler said does not hold.
            None => {
                let no = self.no.take();
                let no = no.unwrap_or_else(|| Refusal::new(Code::InternalError).into());
                convert::refused(self.kind, no, self.place(), self.version)
            }
        };
        self.answer(answer);
    }

    fn answer(&mut self, answer: Answer) {
        let line = self.said.answer.insert(Vec::new());
        wire::answer(line, &self.line.id, answer);
    }

    fn place(&self) -> Option<serde_json::Value> {
        let workflow = self.inner.workflow.as_ref()?;
        let instance = self.instance.as_ref()?;
        if self.purpose == Purpose::Complete {
            return None;
        }
        let at = self.after.unwrap_or_else(|| instance.position());
        Some(convert::place(instance.id(), workflow, at))
    }
}

impl Waiting {
    /// What it waits for. Dropping the future loses nothing.
    async fn next(&mut self) -> Came {
        match self {
            Self::Nothing => std::future::pending().await,
            Self::Judged(judged) => match judged.take() {
                Some(judged) => Came::Judgement(judged),
                None => std::future::pending().await,
            },
            Self::Turn(turn) => Came::Turn(turn.await),
            Self::Handler(handler) => Came::Finished(handler.await),
        }
    }
}

/// What a connection tells a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signal {
    /// The client takes it back.
    pub(crate) cancel: bool,
    /// The server ends and waits no longer.
    pub(crate) shutdown: bool,
}

/// What a call hears of its connection: each thing once, the earlier first.
#[derive(Debug)]
pub(crate) struct Signals {
    signals: watch::Receiver<Signal>,
    heard: Signal,
}

impl Signals {
    pub(crate) fn new(signals: watch::Receiver<Signal>) -> Self {
        Self {
            signals,
            heard: Signal::default(),
        }
    }

    /// What has been said and not been heard.
    fn ready(&mut self) -> Option<Input> {
        let now = *self.signals.borrow_and_update();
        if now.cancel && !self.heard.cancel {
            self.heard.cancel = true;
            return Some(Input::Cancel);
        }
        if now.shutdown && !self.heard.shutdown {
            self.heard.shutdown = true;
            return Some(Input::Shutdown);
        }
        None
    }

    /// Dropping the future loses nothing.
    async fn next(&mut self) -> Input {
        loop {
            if let Some(input) = self.ready() {
                return input;
            }
            if self.signals.changed().await.is_err() {
                // The connection is gone, and with it whoever could say anything.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Lets go of what belongs to a handler, whose own clean-up may panic.
fn quietly(let_go: impl FnOnce()) {
    if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(let_go)) {
        // A payload whose clean-up panics as well is left alone.
        std::mem::forget(again);
    }
}

fn unsaved(error: KeepError) -> No {
    if matches!(error, KeepError::RunningElsewhere) {
        return Refusal::new(Code::InstanceBusy).into();
    }
    tracing::error!(
        error = &error as &dyn std::error::Error,
        "an instance could not be saved"
    );
    Refusal::new(Code::InternalError)
        .because("the step could not be saved")
        .into()
}
