//! One call: the loop around the invocation machine.
//!
//! It waits for one thing, lets the machine decide, and does what the machine orders. Committing
//! comes before telling others, telling others before answering.

use crate::{
    builder::CheckedTool,
    clock,
    context::{Context, Place},
    convert::{self, Answer, No},
    handler::{Failure, Prompt, Reply, Resource, Work},
    instance::{Inbox, Instance, Turn},
    methods::Queue,
    model::JsonObject,
    server::Inner,
};
use futures_util::{FutureExt, future::BoxFuture};
use interlock_proto::{
    Code, Refusal, RequestId, Version, frame,
    invocation::{self, Effect, Finish, Input, Invocation, Outcome, State},
    machine::Machine,
};
use interlock_store::StoreError;
use interlock_workflow::{Kind, Pass, Position};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::watch;

/// A call that has been admitted.
pub(crate) struct Start {
    pub(crate) target: Target,
    pub(crate) arguments: JsonObject,
    pub(crate) turn: Queue,
    pub(crate) instance: Option<Arc<Instance>>,
    pub(crate) version: Version,
}

/// What is called.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tool(Arc<CheckedTool>),
    Resource(Arc<Resource>),
    Prompt(Arc<Prompt>),
}

impl Target {
    const fn kind(&self) -> Kind {
        match self {
            Self::Tool(_) => Kind::Tool,
            Self::Resource(_) => Kind::Resource,
            Self::Prompt(_) => Kind::Prompt,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.tool.model.name,
            Self::Resource(resource) => &resource.model.uri,
            Self::Prompt(prompt) => &prompt.model.name,
        }
    }

    fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Tool(tool) => tool.tool.timeout,
            Self::Resource(_) | Self::Prompt(_) => None,
        }
    }

    fn start(&self, arguments: JsonObject, context: Context) -> Work {
        match self {
            Self::Tool(tool) => tool.tool.start(arguments, context),
            Self::Resource(resource) => resource.start(context),
            Self::Prompt(prompt) => prompt.start(arguments, context),
        }
    }
}

/// What a connection tells a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Nothing.
    Go,
    /// The client takes it back.
    Cancel,
    /// The server ends and waits no longer.
    Shutdown,
}

/// Where a call's messages go, and where it hears from its connection.
pub(crate) struct Line {
    pub(crate) id: RequestId,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) signals: watch::Receiver<Signal>,
}

/// Runs the call to its end. What it has to say to its client are whole lines, in order.
pub(crate) async fn run(inner: Arc<Inner>, start: Start, line: Line) -> Vec<u8> {
    Running::new(inner, start, line).run().await
}

struct Running {
    inner: Arc<Inner>,
    start: Start,
    line: Line,
    waiting: Waiting,
    stop: watch::Sender<bool>,
    turn: Option<Turn>,
    /// Where the instance stood after this call had moved it; others may have moved it since.
    after: Option<Position>,
    reply: Option<Result<Reply, Failure>>,
    no: Option<No>,
    out: Vec<u8>,
}

/// What the call waits for.
enum Waiting {
    Nothing,
    Turn(BoxFuture<'static, Result<Admitted, No>>),
    Handler(BoxFuture<'static, std::thread::Result<Result<Reply, Failure>>>),
}

/// A call whose turn it is.
struct Admitted {
    turn: Option<Turn>,
    deadline: Option<Duration>,
}

impl Running {
    fn new(inner: Arc<Inner>, start: Start, line: Line) -> Self {
        Self {
            inner,
            start,
            line,
            waiting: Waiting::Nothing,
            stop: watch::Sender::new(false),
            turn: None,
            after: None,
            reply: None,
            no: None,
            out: Vec::new(),
        }
    }

    async fn run(mut self) -> Vec<u8> {
        let times = self.inner.times;
        let mut state = State::Idle;
        let mut input = Input::Call {
            queue: times.queue,
            grace: times.grace,
        };
        loop {
            let event = Invocation::input_name(&input);
            let step = invocation::step(&state, input, self.inner.clock.now());
            trace::<Invocation>(&state, event, &step.state);
            state = step.state;
            for effect in step.effects {
                self.perform(effect).await;
            }
            input = match state {
                State::Result(_) => Input::Settled,
                State::Idle => return self.out,
                State::Pending { .. } | State::Executing { .. } => self.next(&state).await,
            };
        }
    }

    /// Waits for one thing.
    async fn next(&mut self, state: &State) -> Input {
        tokio::select! {
            biased;
            input = self.waiting.next(&mut self.turn, &mut self.reply, &mut self.no, self.inner.times.execution) => input,
            signal = signalled(&mut self.line.signals) => signal,
            () = clock::sleep_until(&*self.inner.clock, state.wake_at()) => Input::Tick,
        }
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Enqueue => self.waiting = Waiting::Turn(self.enqueue().boxed()),
            Effect::LeaveQueue | Effect::TearDown => self.waiting = Waiting::Nothing,
            Effect::Start => self.waiting = Waiting::Handler(self.handler().boxed()),
            Effect::AskToStop => {
                self.stop.send_replace(true);
            }
            Effect::Commit(outcome) => self.commit(outcome).await,
            Effect::Respond => self.respond(),
            Effect::Refuse(refusal) => {
                let gate = self.no.take().and_then(|no| no.gate);
                self.refuse(No { refusal, gate });
            }
            // Progress has no way out of a handler yet, so there is nothing to forward.
            Effect::Suppress | Effect::Forward => {}
        }
    }

    /// Waits for its turn and judges the call again on the state that is found then.
    fn enqueue(&self) -> impl Future<Output = Result<Admitted, No>> + Send + use<> {
        let inner = Arc::clone(&self.inner);
        let target = self.start.target.clone();
        let instance = self.start.instance.clone();
        let queue = self.start.turn;
        async move {
            let mut admitted = Admitted {
                turn: None,
                deadline: target.timeout(),
            };
            let Some((workflow, instance)) = inner.workflow.as_ref().zip(instance) else {
                return Ok(admitted);
            };
            let admit = |position| workflow.admit(position, target.kind(), target.name());
            if queue == Queue::Beside {
                if let Pass::Bound(binding) = admit(instance.position())? {
                    admitted.deadline = binding.deadline().or(admitted.deadline);
                }
                return Ok(admitted);
            }
            let Some(turn) = instance.turn(workflow.settings().busy).await else {
                return Err(Refusal::new(Code::InstanceBusy).into());
            };
            if let Pass::Bound(binding) = admit(turn.position())? {
                admitted.deadline = binding.deadline().or(admitted.deadline);
                let turn = turn.mark(inner.books(workflow)).await.map_err(unsaved)?;
                admitted.turn = Some(turn);
            }
            Ok(admitted)
        }
    }

    /// The handler, in a box that panics do not leave.
    fn handler(
        &mut self,
    ) -> impl Future<Output = std::thread::Result<Result<Reply, Failure>>> + Send + use<> {
        let place = self
            .inner
            .workflow
            .as_ref()
            .zip(self.start.instance.as_ref());
        let place = place.map(|(workflow, instance)| {
            Arc::new(Place {
                instance: Arc::clone(instance.id()),
                state: workflow.state_name(instance.position().state).to_owned(),
            })
        });
        let context = Context::new(place, self.stop.subscribe());
        let arguments = std::mem::take(&mut self.start.arguments);
        let target = self.start.target.clone();
        AssertUnwindSafe(async move { target.start(arguments, context).await }).catch_unwind()
    }

    async fn commit(&mut self, outcome: Outcome) {
        let Some((turn, workflow)) = self.turn.take().zip(self.inner.workflow.as_ref()) else {
            return;
        };
        let Some(instance) = &self.start.instance else {
            return;
        };
        let target = &self.start.target;
        // The turn is ours, so the instance stands where the call was admitted.
        let Ok(Pass::Bound(binding)) =
            workflow.admit(instance.position(), target.kind(), target.name())
        else {
            return;
        };
        let books = self.inner.books(workflow);
        match turn.commit(books, binding, convert::outcome(outcome)).await {
            Ok(moved) => {
                self.after = Some(moved.after);
                if self.inner.lists_change() {
                    let kinds = || workflow.lists_differ(moved.before, moved.after);
                    for kind in kinds() {
                        write_list_changed(&mut self.out, kind);
                    }
                    instance.tell_others(&self.line.inbox, kinds());
                }
            }
            Err(error) => {
                self.reply = None;
                self.no = Some(unsaved(error));
            }
        }
    }

    fn respond(&mut self) {
        let place = self.place();
        let version = self.start.version;
        let kind = self.start.target.kind();
        let answer = match self.reply.take() {
            Some(Ok(reply)) => convert::replied(reply, place, version),
            Some(Err(failure)) => convert::failed(kind, &failure, place, version),
            // The step could not be saved, so what the handler said does not hold.
            None => {
                let no = self
                    .no
                    .take()
                    .unwrap_or_else(|| Refusal::new(Code::InternalError).into());
                convert::refused(kind, no, place, version)
            }
        };
        write_answer(&mut self.out, &self.line.id, answer);
    }

    fn refuse(&mut self, no: No) {
        let kind = self.start.target.kind();
        let answer = convert::refused(kind, no, self.place(), self.start.version);
        write_answer(&mut self.out, &self.line.id, answer);
    }

    fn place(&self) -> Option<serde_json::Value> {
        let workflow = self.inner.workflow.as_ref()?;
        let instance = self.start.instance.as_ref()?;
        let at = self.after.unwrap_or_else(|| instance.position());
        Some(convert::place(instance.id(), workflow, at))
    }
}

impl Waiting {
    /// What it waited for, as the machine hears it. Dropping the future loses nothing.
    async fn next(
        &mut self,
        turn: &mut Option<Turn>,
        reply: &mut Option<Result<Reply, Failure>>,
        no: &mut Option<No>,
        execution: Duration,
    ) -> Input {
        match self {
            Self::Nothing => std::future::pending().await,
            Self::Turn(queued) => {
                let admitted = queued.await;
                *self = Self::Nothing;
                match admitted {
                    Ok(admitted) => {
                        *turn = admitted.turn;
                        let execution = admitted.deadline.unwrap_or(execution);
                        Input::Turn { execution }
                    }
                    Err(refused) => {
                        let refusal = refused.refusal.clone();
                        *no = Some(refused);
                        Input::Refused(refusal)
                    }
                }
            }
            Self::Handler(handler) => {
                let ended = handler.await;
                *self = Self::Nothing;
                let Ok(result) = ended else {
                    return Input::Panicked;
                };
                let input = match &result {
                    Ok(Reply::Tool(result)) if result.is_error() => Input::Finished(Finish::Error),
                    Ok(_) => Input::Finished(Finish::Success),
                    Err(failure) if failure.is_stopped() => Input::Stopped,
                    Err(_) => Input::Finished(Finish::Error),
                };
                *reply = Some(result);
                input
            }
        }
    }
}

async fn signalled(signals: &mut watch::Receiver<Signal>) -> Input {
    loop {
        if signals.changed().await.is_err() {
            // The connection is gone, and with it whoever could say anything.
            std::future::pending::<()>().await;
        }
        match *signals.borrow_and_update() {
            Signal::Go => {}
            Signal::Cancel => return Input::Cancel,
            Signal::Shutdown => return Input::Shutdown,
        }
    }
}

fn unsaved(error: StoreError) -> No {
    tracing::error!(%error, "an instance could not be saved");
    Refusal::new(Code::InternalError)
        .because("the step could not be saved")
        .into()
}

/// Appends an answer as a line.
pub(crate) fn write_answer(out: &mut Vec<u8>, id: &RequestId, answer: Answer) {
    let written = match answer {
        Answer::Result(reply) => frame::write_result(out, id, &reply),
        Answer::Error(error) => frame::write_raw_error(out, id, &error),
    };
    if let Err(error) = written {
        tracing::error!(%error, "a result is not representable");
        let refusal = Refusal::new(Code::InternalError).because("the result is not representable");
        frame::write_error(out, &frame::ErrorId::Known(id.clone()), &refusal);
    }
    out.push(b'\n');
}

/// Appends a list-changed notification as a line.
pub(crate) fn write_list_changed(out: &mut Vec<u8>, kind: Kind) {
    let method = match kind {
        Kind::Tool => "notifications/tools/list_changed",
        Kind::Resource => "notifications/resources/list_changed",
        Kind::Prompt => "notifications/prompts/list_changed",
    };
    frame::write_notification(out, method, None::<&()>).expect("it holds only its name");
    out.push(b'\n');
}

/// Every transition is traced.
pub(crate) fn trace<M: Machine>(from: &M::State, event: &str, to: &M::State) {
    tracing::debug!(
        machine = M::NAME,
        from = M::state_name(from),
        event,
        to = M::state_name(to),
    );
}
