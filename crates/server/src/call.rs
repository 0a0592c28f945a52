//! One call: the loop around the invocation machine.
//!
//! It waits for one thing, lets the machine decide, and does what the machine orders. Committing
//! comes before telling others, telling others before answering. What the handler says before its
//! result goes through here, too, so that it comes in order and nothing comes after the end.

use crate::{
    ask::AskError,
    caller::{Caller, Way},
    clock,
    context::{Context, Place, Shared},
    convert::{self, Answer, No, Stamp},
    failure::Failure,
    handler::{Prepared, Reply},
    instance::{Held, Instance, KeepError, Marked, Turn},
    note::{News, Note},
    peer::Peer,
    route::{Route, Tone},
    server::Inner,
    signal::Signals,
    voice::{Asking, Progress, Voice, Word},
    wire::{self, Transition},
};
use futures_util::{FutureExt, future::BoxFuture};
use interlock_proto::{
    AskId, Code, Refusal, RequestId,
    invocation::{self, Effect, Finish, Input, Invocation, Outcome, State},
    machine::Machine,
};
use interlock_workflow::{Kind, Pass, Position};
use std::{
    collections::{BTreeMap, VecDeque},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// A call that has been admitted.
pub(crate) struct Start {
    pub(crate) purpose: Purpose,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) timeout: Option<Duration>,
    /// How many calls of its tool may run at once.
    pub(crate) places: Option<Arc<Semaphore>>,
    pub(crate) handler: Prepared,
    pub(crate) instance: Option<Arc<Instance>>,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To use what is called: the gate decides, and its end may move the instance.
    Use,
    /// To suggest how what is called could be used: nobody decides, and nothing moves.
    Complete,
}

/// Where a call's messages go, who made it, and where it hears from its connection.
pub(crate) struct Line {
    pub(crate) id: RequestId,
    pub(crate) route: Route,
    pub(crate) caller: Arc<Caller>,
    pub(crate) signals: Signals,
}

/// The answer to a call: a whole line.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) tone: Tone,
    pub(crate) line: Vec<u8>,
}

/// Runs the call to its end. Nothing is said if the client took the call back.
pub(crate) async fn run(inner: Arc<Inner>, start: Start, line: Line) -> Option<Said> {
    Running::new(inner, start, line).run().await
}

struct Running {
    inner: Arc<Inner>,
    purpose: Purpose,
    kind: Kind,
    name: String,
    timeout: Option<Duration>,
    places: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
    /// The instance's turn, until it is written down.
    held: Option<Held>,
    handler: Option<Prepared>,
    instance: Option<Arc<Instance>>,
    line: Line,
    waiting: Waiting,
    /// The handler is done, but not everything it said before has been passed on.
    came: Option<Came>,
    voice: Arc<Voice>,
    words: VecDeque<Word>,
    /// The last progress that was told, and one that is to be told.
    reached: Option<f64>,
    progress: Option<Progress>,
    /// What the client is being asked, by the handler's numbers.
    asks: BTreeMap<u64, AskId>,
    /// What the client has to come back with.
    questions: Vec<Asking>,
    stop: watch::Sender<bool>,
    turn: Option<Turn>,
    /// Where the instance stood after this call had moved it; others may have moved it since.
    after: Option<Position>,
    reply: Option<Result<Reply, Failure>>,
    no: Option<No>,
    said: Option<Said>,
}

/// How often a call tries to write down that it runs, if others write in between.
const ATTEMPTS: usize = 16;

/// What the call waits for.
enum Waiting {
    Nothing,
    /// For nothing: it need not take turns, and this is what became of it.
    Judged(Option<Result<Duration, No>>),
    /// For a place among the calls of its tool.
    Place(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
    Turn(BoxFuture<'static, Option<Held>>),
    Handler(BoxFuture<'static, Finished>),
}

/// Whether a call may run, as things stand.
enum Judged {
    /// So it is, and for how long it may run.
    Now(Result<Duration, No>),
    /// That shows when its turn has come, for which it waits here.
    InTurn(Waiting),
}

/// What a handler returned, or that it panicked.
type Finished = std::thread::Result<Result<Reply, Failure>>;

/// What it waited for.
enum Came {
    Judgement(Result<Duration, No>),
    Place(Option<OwnedSemaphorePermit>),
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
            places: start.places,
            permit: None,
            held: None,
            handler: Some(start.handler),
            instance: start.instance,
            line,
            waiting: Waiting::Nothing,
            came: None,
            voice: Arc::default(),
            words: VecDeque::new(),
            reached: None,
            progress: None,
            asks: BTreeMap::new(),
            questions: Vec::new(),
            stop: watch::Sender::new(false),
            turn: None,
            after: None,
            reply: None,
            no: None,
            said: None,
        }
    }

    async fn run(mut self) -> Option<Said> {
        let times = self.inner.times;
        let mut state = State::Idle;
        let mut input = Input::Call {
            queue: times.queue,
            grace: times.grace,
        };
        loop {
            let event = Invocation::input_name(&input);
            let step = invocation::step(&state, input, self.inner.clock.now());
            Transition::new::<Invocation>(&state, event, &step.state).trace();
            state = step.state;
            for effect in step.effects {
                self.perform(effect).await;
            }
            input = match state {
                State::Result(_) => Input::Settled,
                State::Idle => return self.said.take(),
                State::Pending { .. } => self.next_while_pending(&state).await,
                State::Executing { .. } => self.next_while_executing(&state).await,
            };
        }
    }

    /// A call that was taken back while it waited must not begin, even if its turn has come.
    async fn next_while_pending(&mut self, state: &State) -> Input {
        loop {
            let came = tokio::select! {
                biased;
                signal = self.line.signals.next() => return signal,
                came = self.waiting.next() => came,
                () = clock::sleep_until(&*self.inner.clock, state.wake_at()) => return Input::Tick,
            };
            let Some(input) = self.input(came).await else {
                continue;
            };
            // It may have been taken back while the store was asked.
            return self.line.signals.ready().unwrap_or(input);
        }
    }

    /// What a handler has done is done, even if nobody wants it any more.
    async fn next_while_executing(&mut self, state: &State) -> Input {
        loop {
            // Whatever is said waits for room, and the handler waits with it.
            while !self.words.is_empty() {
                tokio::select! {
                    biased;
                    () = self.line.route.room() => {}
                    signal = self.line.signals.next() => return signal,
                    () = clock::sleep_until(&*self.inner.clock, state.wake_at()) => {
                        return Input::Tick;
                    }
                }
                let word = self.words.pop_front();
                if let Some(input) = word.and_then(|word| self.hear(word)) {
                    return input;
                }
            }
            if !self.questions.is_empty() {
                return Input::Asked;
            }
            if let Some(came) = self.came.take()
                && let Some(input) = self.input(came).await
            {
                return input;
            }
            // Whoever speaks without end keeps nobody else from being heard, nor other tasks from
            // their share.
            tokio::task::consume_budget().await;
            if let Some(input) = self.urgent(state) {
                return input;
            }
            let voice = &*self.voice;
            tokio::select! {
                biased;
                came = self.waiting.next() => {
                    self.came = Some(came);
                    self.words.append(&mut self.voice.take());
                }
                words = voice.next() => self.words = words,
                signal = self.line.signals.next() => return signal,
                () = clock::sleep_until(&*self.inner.clock, state.wake_at()) => return Input::Tick,
            }
        }
    }

    /// What the machine has to know before anybody speaks on.
    fn urgent(&mut self, state: &State) -> Option<Input> {
        let is_late = |due| self.inner.clock.now() >= due;
        let tick = || state.wake_at().is_some_and(is_late).then_some(Input::Tick);
        self.line.signals.ready().or_else(tick)
    }

    /// What the handler said, and what that means to the machine.
    fn hear(&mut self, word: Word) -> Option<Input> {
        match word {
            Word::Progress(progress) => {
                let further = self
                    .reached
                    .is_none_or(|reached| progress.progress > reached);
                if !further {
                    return None;
                }
                self.progress = Some(progress);
                Some(Input::Progress)
            }
            Word::Log(log) => {
                self.line.route.say(|out| wire::log(out, &log));
                None
            }
            Word::Ask(asking) => self.ask(asking),
            Word::HangUp => {
                self.line.route.hang_up();
                None
            }
            Word::Settled(number) => {
                self.questions.retain(|asking| asking.number != number);
                let ask = self.asks.remove(&number)?;
                if let Way::Session(peer) = &self.line.caller.way {
                    peer.withdraw(ask, &self.line.route);
                }
                self.asks.is_empty().then_some(Input::Resume)
            }
        }
    }

    fn ask(&mut self, asking: Asking) -> Option<Input> {
        match &self.line.caller.way {
            Way::Alone { .. } => {
                self.questions.push(asking);
                None
            }
            Way::Session(peer) => {
                let Asking {
                    number,
                    question,
                    answer,
                    ..
                } = asking;
                match peer.ask(&question, answer, &self.line.route) {
                    Ok(ask) => {
                        let first = self.asks.is_empty();
                        self.asks.insert(number, ask);
                        first.then_some(Input::Wait)
                    }
                    Err((refusal, answer)) => {
                        let _ = answer.send(Err(AskError::NotNow(refusal)));
                        None
                    }
                }
            }
        }
    }

    /// What came, as the machine hears it; nothing if it only led to something else to wait for.
    async fn input(&mut self, came: Came) -> Option<Input> {
        self.waiting = Waiting::Nothing;
        let judged = match came {
            Came::Finished(finished) => return Some(self.finished(finished)),
            Came::Judgement(judged) => judged,
            Came::Turn(Some(held)) => {
                if let Some(place) = self.place_among_others() {
                    self.held = Some(held);
                    self.waiting = place;
                    return None;
                }
                self.take_turn(held).await
            }
            Came::Place(permit) => {
                self.permit = permit;
                if let Some(held) = self.held.take() {
                    self.take_turn(held).await
                } else {
                    match self.judge() {
                        Judged::Now(judged) => judged,
                        // It waited for the place alone, and now needs its turn first.
                        Judged::InTurn(turn) => {
                            self.permit = None;
                            self.waiting = turn;
                            return None;
                        }
                    }
                }
            }
            Came::Turn(None) => Err(Refusal::new(Code::InstanceBusy).into()),
        };
        Some(match judged {
            Ok(execution) => Input::Turn { execution },
            Err(no) => {
                let refusal = no.refusal.clone();
                self.no = Some(no);
                Input::Refused(refusal)
            }
        })
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
            Ok(reply) if reply.is_error() => Input::Finished(Finish::Error),
            Ok(_) => Input::Finished(Finish::Success),
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
            Effect::Ask => self.respond_with_questions(),
            Effect::Refuse(refusal) => {
                let gate = self.no.take().and_then(|no| no.gate);
                self.refuse(No { refusal, gate });
            }
            Effect::Forward => self.forward(),
            Effect::Suppress => {}
        }
    }

    fn forward(&mut self) {
        if let Some((progress, token)) =
            self.progress.take().zip(self.line.caller.progress.as_ref())
        {
            self.reached = Some(progress.progress);
            self.line
                .route
                .say(|out| wire::progress(out, token, &progress));
        }
    }

    /// First the turn, then the place: whoever waits for its own instance must not keep a place
    /// from others.
    fn enqueue(&self) -> Waiting {
        match self.judge() {
            Judged::InTurn(turn) => turn,
            Judged::Now(Ok(execution)) => self
                .place_among_others()
                .unwrap_or(Waiting::Judged(Some(Ok(execution)))),
            Judged::Now(no) => Waiting::Judged(Some(no)),
        }
    }

    /// Where it waits for a place among the calls of its tool, if there are only so many.
    fn place_among_others(&self) -> Option<Waiting> {
        let places = Arc::clone(self.places.as_ref()?);
        let place = places.acquire_owned().map(Result::ok);
        Some(Waiting::Place(place.boxed()))
    }

    /// A call that can move its instance waits for its turn; any other runs beside it.
    fn judge(&self) -> Judged {
        let Some((workflow, instance)) = self.inner.workflow.as_ref().zip(self.instance.as_ref())
        else {
            return Judged::Now(Ok(self.execution(None)));
        };
        if self.purpose == Purpose::Complete {
            return Judged::Now(Ok(self.execution(None)));
        }
        match workflow.admit(instance.position(), self.kind, &self.name) {
            Ok(Pass::Bound(binding)) if binding.moves() => {
                let turn = Arc::clone(instance).turn(workflow.settings().busy);
                Judged::InTurn(Waiting::Turn(turn.boxed()))
            }
            Ok(Pass::Bound(binding)) => Judged::Now(Ok(self.execution(binding.deadline()))),
            Ok(Pass::Always) => Judged::Now(Ok(self.execution(None))),
            Err(refused) => Judged::Now(Err(refused.into())),
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
        self.held = None;
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
        let place = place.map(|(workflow, instance)| Place {
            instance: Arc::clone(instance.id()),
            state: workflow.state_name(instance.position().state).to_owned(),
        });
        let context = Context::new(Shared {
            inner: Arc::clone(&self.inner),
            caller: Arc::clone(&self.line.caller),
            place,
            stop: self.stop.subscribe(),
            voice: Arc::clone(&self.voice),
            app: self.inner.lifespan.app(),
        });
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
                    // Whoever took the call back may not listen to it any more.
                    let listens = !self.line.signals.has_heard_cancel();
                    for kind in kinds().filter(|_| listens) {
                        let note = Note {
                            news: News::List(kind.into()),
                            subscription: None,
                        };
                        self.line.route.insist(|out| note.write(out));
                    }
                    if let Some(instance) = &self.instance {
                        let caller = self.peer().filter(|_| listens);
                        instance.tell_others(caller, kinds().collect::<Vec<_>>().into_iter());
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

    fn peer(&self) -> Option<&Arc<Peer>> {
        match &self.line.caller.way {
            Way::Session(peer) => Some(peer),
            Way::Alone { .. } => None,
        }
    }

    fn respond(&mut self) {
        let answer = match self.reply.take() {
            Some(Ok(reply)) => convert::replied(reply, self.stamp()),
            Some(Err(failure)) => convert::failed(self.kind, &failure, self.stamp()),
            // The step could not be saved, so what the handler said does not hold.
            None => {
                let no = self.no.take();
                let no = no.unwrap_or_else(|| Refusal::new(Code::InternalError).into());
                return self.refuse(no);
            }
        };
        self.answer(answer);
    }

    fn stamp(&self) -> Stamp<'_> {
        self.inner.stamp(self.line.caller.version, self.place())
    }

    fn respond_with_questions(&mut self) {
        let questions = std::mem::take(&mut self.questions);
        let Way::Alone { round, .. } = &self.line.caller.way else {
            return;
        };
        let (now, patience) = (self.inner.clock.now(), self.inner.ask_timeout);
        match round.ask(&self.inner.sealer, &questions, now, patience) {
            Ok(mut result) => {
                result["_meta"] = self.stamp().meta().into();
                self.answer(Answer::Asks(result));
            }
            Err(refusal) => self.refuse(refusal.into()),
        }
    }

    fn refuse(&mut self, no: No) {
        let answer = convert::refused(self.kind, no, self.stamp());
        self.answer(answer);
    }

    fn answer(&mut self, answer: Answer) {
        let mut line = Vec::new();
        let tone = wire::answer(&mut line, &self.line.id, answer);
        self.said = Some(Said { tone, line });
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

impl Drop for Running {
    /// However the loop ends, nobody listens to the handler any more.
    fn drop(&mut self) {
        self.voice.end();
        if let Way::Session(peer) = &self.line.caller.way {
            for ask in self.asks.values() {
                peer.withdraw(*ask, &self.line.route);
            }
        }
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
            Self::Place(place) => Came::Place(place.await),
            Self::Turn(turn) => Came::Turn(turn.await),
            Self::Handler(handler) => Came::Finished(handler.await),
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
