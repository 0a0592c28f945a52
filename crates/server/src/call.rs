//! One call: the loop around the invocation machine.
//!
//! It waits for one thing, lets the machine decide, and does what the machine orders. Committing
//! comes before telling others, telling others before answering. What the handler says before its
//! result goes through here, too, so that it comes in order and nothing comes after the end.
//!
//! Most calls need not wait for anything, and run to their end where they came in. A call becomes
//! a future only when it has to wait.

mod at_once;
mod consent;
mod dialogue;
mod sampling;
mod turn;
mod waiting;
mod warning;

use crate::{
    caller::{Caller, Way},
    clock,
    context::{Belongs, Context, Shared},
    convert::{self, Answer, No, Stamp},
    failure::Failure,
    handle::Source,
    handler::{Prepared, Reply},
    instance::{Brief, Held, Made, Turn},
    methods::Examine,
    route::Route,
    sampling::Said,
    server::Inner,
    signal::Signals,
    standing::Standing,
    wire::Transition,
};
use consent::Approving;
use dialogue::Dialogue;
use interlock_proto::{
    Code, Refusal, Time,
    invocation::{self, Effect, End, Finish, Input, Invocation, State},
    machine::Orders,
};
use interlock_workflow::{BindingId, Kind, Position};
use std::{borrow::Cow, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turn::Halt;
use waiting::{Came, Finished, Handler, Judged, Waiting};

/// A call that has been admitted.
pub(crate) struct Start {
    pub(crate) purpose: Purpose,
    pub(crate) kind: Kind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) timeout: Option<Duration>,
    /// How many calls of its tool may run at once.
    pub(crate) places: Option<Arc<Semaphore>>,
    /// None as long as its instance is sought.
    pub(crate) handler: Option<Prepared>,
    /// With what it was made, if anybody will ask for it.
    pub(crate) made: Option<Arc<Made>>,
    /// What it was let in by, if it is part of the workflow.
    pub(crate) bound: Option<BindingId>,
    pub(crate) belongs: Belongs,
    /// How its instance is found, if that takes a look into the store.
    pub(crate) sought: Option<Box<Sought>>,
}

/// An instance that has to be found before a call of it can be judged.
pub(crate) struct Sought {
    pub(crate) source: Source,
    /// Takes the arguments, once the gate has let the call in.
    pub(crate) prepare: Examine,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To use what is called: the gate decides, and its end may move the instance.
    Use,
    /// To suggest how what is called could be used: nobody decides, and nothing moves.
    Complete,
}

/// Where a call's messages go, and who made it.
pub(crate) struct Line {
    pub(crate) route: Route,
    pub(crate) caller: Caller,
    /// When the call came.
    pub(crate) at: Time,
}

/// A call on its way.
pub(crate) struct Running {
    /// What its handler knows, too.
    shared: Arc<Shared>,
    route: Route,
    signals: Signals,
    at: Time,
    purpose: Purpose,
    kind: Kind,
    name: Cow<'static, str>,
    timeout: Option<Duration>,
    places: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
    made: Option<Arc<Made>>,
    bound: Option<BindingId>,
    sought: Option<Box<Sought>>,
    /// The instance's turn, until it is written down.
    held: Option<Held>,
    turn: Option<Turn>,
    /// The same, of a call that has not had to wait so far.
    brief: Option<Brief>,
    /// Where the instance stood after this call had moved it; others may have moved it since.
    after: Option<Position>,
    /// What the states that it came to tell the model.
    told: Vec<String>,
    /// What it has to know of an earlier call.
    warning: Option<String>,
    state: State,
    /// What the machine has ordered and nobody has done yet.
    orders: Orders<Effect>,
    handler: Option<Prepared>,
    waiting: Waiting,
    /// The handler is done, but not everything it said before has been passed on.
    came: Option<Box<Came>>,
    /// What its handler says before its result, if it says anything.
    dialogue: Option<Box<Dialogue>>,
    /// A person's yes, if it needs one.
    approving: Option<Box<Approving>>,
    reply: Option<Result<Reply, Failure>>,
    no: Option<No>,
    /// What was to be said before its client was told to come back with an answer.
    kept: Option<Box<Said>>,
    said: Option<Answer>,
}

impl Running {
    pub(crate) fn new(start: Start, line: Line) -> Self {
        Self {
            shared: Arc::new(Shared::new(line.caller, start.belongs)),
            route: line.route,
            signals: Signals::default(),
            at: line.at,
            purpose: start.purpose,
            kind: start.kind,
            name: start.name,
            timeout: start.timeout,
            places: start.places,
            permit: None,
            made: start.made,
            bound: start.bound,
            sought: start.sought,
            held: None,
            turn: None,
            brief: None,
            after: None,
            told: Vec::new(),
            warning: None,
            state: State::Idle,
            orders: Orders::default(),
            handler: start.handler,
            waiting: Waiting::Nothing,
            came: None,
            dialogue: None,
            approving: None,
            reply: None,
            no: None,
            kept: None,
            said: None,
        }
    }

    /// Begins the call, and runs it for as long as it need not wait. Whether it has ended; else
    /// [`run`](Self::run) goes on with it.
    pub(crate) fn begin(&mut self) -> bool {
        let times = self.inner().times;
        let mut input = Input::Call {
            queue: times.queue,
            grace: times.grace,
        };
        loop {
            // A handler that need not wait is done when it is done, however long that took.
            self.step(input, self.at);
            if !self.obey_at_once() {
                return false;
            }
            let ready = match self.state {
                State::Idle => return true,
                State::Result(_) => Some(Input::Settled),
                State::Pending { .. } => self.judged_already(),
                State::Executing { .. } => self.finished_already(),
            };
            input = match ready {
                Some(input) => input,
                None => return false,
            };
        }
    }

    /// What is said in the end. Nothing is said if the client took the call back.
    pub(crate) fn said(&mut self) -> Option<Answer> {
        let is_wanted = !self.signals.has_heard_cancel();
        self.said.take().filter(|_| is_wanted)
    }

    /// Lets go of whatever is its handler's.
    pub(crate) fn let_go(&mut self) {
        self.waiting = Waiting::Nothing;
        self.handler = None;
        self.came = None;
        self.reply = None;
    }

    /// Whether the call waits for others, so that it matters when it gets in line, or has what they
    /// wait for and something to do at once.
    pub(crate) fn stands_in_line(&self) -> bool {
        match self.waiting {
            Waiting::Instance(_) | Waiting::Place(_) | Waiting::Turn(_) | Waiting::Held(_) => true,
            Waiting::Nothing => self.turn.is_some(),
            Waiting::Handler(_) => self.turn.as_ref().is_some_and(|turn| !turn.is_written()),
            Waiting::Judged(_) | Waiting::Consent(_) => false,
        }
    }

    /// The call has to wait. This is where it hears from its connection.
    pub(crate) fn settle_in(&mut self, signals: Signals) {
        self.signals = signals;
        self.take_sight();
        self.lengthen();
        self.write_turn_down_at_once();
    }

    /// Runs the call to its end, and says what is said then.
    pub(crate) async fn run(mut self) -> Option<Answer> {
        self.write_turn_down().await;
        loop {
            while let Some(effect) = self.orders.next() {
                match effect {
                    Effect::Commit(outcome) => self.commit(outcome).await,
                    Effect::LeaveQueue => self.leave_queue().await,
                    Effect::Start => {
                        self.waiting = self.start();
                        self.take_sight();
                    }
                    effect @ (Effect::Enqueue
                    | Effect::Forward
                    | Effect::AskToStop
                    | Effect::TearDown
                    | Effect::Respond
                    | Effect::Ask
                    | Effect::Refuse(_)
                    | Effect::Suppress) => self.perform(effect),
                }
            }
            let input = match self.state {
                State::Result(_) => Input::Settled,
                State::Idle => return self.said(),
                State::Pending { .. } => self.next_while_pending().await,
                State::Executing { .. } => self.next_while_executing().await,
            };
            self.step(input, self.inner().clock.now());
        }
    }

    fn step(&mut self, input: Input, now: Time) {
        let transition = Transition::by::<Invocation>(&self.state, &input);
        let step = invocation::step(&self.state, input, now);
        transition.to::<Invocation>(&step.state).trace();
        self.state = step.state;
        self.orders = step.effects.into_iter();
    }

    /// Does what the machine has ordered, up to what has to wait for the store. Whether it did all.
    fn obey_at_once(&mut self) -> bool {
        while let Some(next) = self.orders.peek() {
            let must_wait = if let Effect::Commit(outcome) = *next {
                !self.end_at_once(outcome)
            } else {
                matches!(next, Effect::LeaveQueue) && self.has_turn()
            };
            if must_wait {
                return false;
            }
            if let Some(effect) = self.orders.next() {
                self.perform(effect);
            }
        }
        true
    }

    const fn has_turn(&self) -> bool {
        self.turn.is_some() || self.brief.is_some()
    }

    fn judged_already(&mut self) -> Option<Input> {
        match self.waiting.ready() {
            Some(Came::Judgement(judged)) => Some(self.judged(judged)),
            Some(Came::Turn(Some(held))) => match self.turn_at_once(held) {
                Ok(judged) => Some(self.judged(judged)),
                Err(held) => {
                    self.waiting = Waiting::Held(Some(held));
                    None
                }
            },
            Some(
                Came::Instance(_)
                | Came::Place(_)
                | Came::Turn(None)
                | Came::Consent(_)
                | Came::Finished(_),
            )
            | None => None,
        }
    }

    fn finished_already(&mut self) -> Option<Input> {
        let Waiting::Handler(handler) = &mut self.waiting else {
            return None;
        };
        let finished = handler.finished()?;
        if self.shared.voice.is_silent() {
            self.waiting = Waiting::Nothing;
            if Arc::strong_count(&self.shared) > 1 {
                // What the handler leaves behind may look later.
                self.take_sight();
            }
            return Some(self.finished(finished));
        }
        let words = self.shared.voice.take();
        self.dialogue().words = words;
        self.came = Some(Box::new(Came::Finished(finished)));
        None
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.shared.caller.inner()
    }

    /// A call that was taken back while it waited must not begin, even if its turn has come.
    async fn next_while_pending(&mut self) -> Input {
        loop {
            let came = tokio::select! {
                biased;
                signal = self.signals.next() => return signal,
                came = self.waiting.next() => came,
                () = clock::sleep_until(&*self.shared.caller.inner().clock, self.state.wake_at()) => return Input::Tick,
            };
            let Some(input) = self.input(came).await else {
                continue;
            };
            // It may have been taken back while the store was asked.
            return self.signals.ready().unwrap_or(input);
        }
    }

    /// What a handler has done is done, even if nobody wants it any more.
    async fn next_while_executing(&mut self) -> Input {
        loop {
            // Whatever is said waits for room, and the handler waits with it.
            while self.is_left(|said| !said.words.is_empty()) {
                tokio::select! {
                    biased;
                    () = self.route.room() => {}
                    signal = self.signals.next() => return signal,
                    () = clock::sleep_until(&*self.shared.caller.inner().clock, self.state.wake_at()) => {
                        return Input::Tick;
                    }
                }
                let word = self.dialogue().words.pop_front();
                if let Some(input) = word.and_then(|word| self.hear(word)) {
                    return input;
                }
            }
            if self.is_left(|said| !said.questions.is_empty()) {
                return Input::Asked;
            }
            if let Some(came) = self.came.take()
                && let Some(input) = self.input(*came).await
            {
                return input;
            }
            // Whoever speaks without end keeps nobody else from being heard, nor other tasks from
            // their share.
            tokio::task::consume_budget().await;
            if let Some(input) = self.urgent() {
                return input;
            }
            let voice = &self.shared.voice;
            tokio::select! {
                biased;
                came = self.waiting.next() => {
                    self.came = Some(Box::new(came));
                    let mut words = self.shared.voice.take();
                    if !words.is_empty() {
                        self.dialogue().words.append(&mut words);
                    }
                }
                words = voice.next() => self.dialogue().words = words,
                signal = self.signals.next() => return signal,
                () = clock::sleep_until(&*self.shared.caller.inner().clock, self.state.wake_at()) => return Input::Tick,
            }
        }
    }

    /// What the machine has to know before anybody speaks on.
    fn urgent(&mut self) -> Option<Input> {
        let clock = &*self.shared.caller.inner().clock;
        let is_late = |due| clock.now() >= due;
        let tick = || {
            self.state
                .wake_at()
                .is_some_and(is_late)
                .then_some(Input::Tick)
        };
        self.signals.ready().or_else(tick)
    }

    /// What came, as the machine hears it; nothing if it only led to something else to wait for.
    async fn input(&mut self, came: Came) -> Option<Input> {
        self.waiting = Waiting::Nothing;
        let taken = match came {
            Came::Finished(finished) => return Some(self.finished(finished)),
            Came::Judgement(judged) => judged.map_err(Halt::from),
            Came::Instance(found) => match self.found(found) {
                Ok(()) => {
                    self.waiting = self.enqueue();
                    return None;
                }
                Err(no) => Err(no.into()),
            },
            Came::Turn(Some(held)) => {
                if let Some(place) = self.place_among_others() {
                    self.held = Some(held);
                    self.waiting = place;
                    return None;
                }
                self.take_turn(held).await
            }
            Came::Consent(answer) => match self.answered(answer).await {
                Ok(()) => {
                    self.waiting = self.enqueue();
                    return Some(Input::Resume);
                }
                Err(no) => Err(no.into()),
            },
            Came::Place(permit) => {
                self.permit = permit;
                if let Some(held) = self.held.take() {
                    self.take_turn(held).await
                } else {
                    match self.judge() {
                        Judged::Now(Ok(let_in)) => Ok(self.runs(let_in)),
                        Judged::Now(Err(no)) => Err(no.into()),
                        // It waited for the place alone, and now needs its turn first.
                        Judged::InTurn(turn) => {
                            self.permit = None;
                            self.waiting = turn;
                            return None;
                        }
                    }
                }
            }
            Came::Turn(None) => Err(self.busy().into()),
        };
        Some(match taken {
            Ok(execution) => self.judged(Ok(execution)),
            Err(Halt::No(no)) => self.judged(Err(no)),
            Err(Halt::Ask(request)) => self.ask_client(*request),
        })
    }

    fn judged(&mut self, judged: Result<Duration, No>) -> Input {
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
            Ok(result) => self.reply.insert(result),
            Err(payload) => {
                quietly(|| drop(payload));
                return Input::Panicked;
            }
        };
        match result {
            Ok(reply) => {
                reply.disown();
                Input::Finished(if reply.is_error() {
                    Finish::Error
                } else {
                    Finish::Success
                })
            }
            Err(failure) if failure.is_stopped() => Input::Stopped,
            Err(_) => Input::Finished(Finish::Error),
        }
    }

    /// Does what the machine orders, but for the commit, which [`end_at_once`](Self::end_at_once) or
    /// [`commit`](Self::commit) has done.
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Enqueue => self.waiting = self.enqueue(),
            Effect::LeaveQueue => self.leave_at_once(),
            Effect::Start => self.waiting = self.start(),
            Effect::AskToStop => self.shared.voice.stop(),
            Effect::TearDown => {
                self.shared.voice.stop();
                quietly(|| self.waiting = Waiting::Nothing);
            }
            Effect::Commit(_) => {}
            Effect::Respond => self.respond(),
            Effect::Ask => self.respond_with_questions(),
            Effect::Refuse(refusal) => {
                let no = self.no.take();
                if no.is_none() && self.state == State::Result(End::NotRun) {
                    self.note_refusal(&refusal);
                }
                let gate = no.and_then(|no| no.gate);
                self.refuse(No { refusal, gate });
            }
            Effect::Forward => self.forward(),
            Effect::Suppress => {
                if self.state == State::Result(End::NotRun) {
                    self.note_taken_back();
                }
            }
        }
    }

    fn start(&mut self) -> Waiting {
        let Some(handler) = self.handler.take() else {
            return Waiting::Nothing;
        };
        let context = Context::new(Arc::clone(&self.shared));
        Waiting::Handler(Handler::new(handler, context))
    }

    /// What its handler sees of the instance is what it was when the handler began, or soon after:
    /// most handlers are done before anybody else could have moved it, and few look at all.
    fn take_sight(&self) {
        if matches!(self.state, State::Executing { .. }) {
            self.shared.sight();
        }
    }

    fn shared(&mut self) -> &mut Shared {
        let shared = Arc::get_mut(&mut self.shared);
        shared.expect("nobody else has it before its handler does")
    }

    fn respond(&mut self) {
        if self.said.is_some() {
            // Its client has to come back first.
            return;
        }
        if let Some(said) = self.kept.take() {
            return self.respond_as_kept(*said);
        }
        let answer = match self.reply.take() {
            Some(Ok(mut reply)) => {
                self.warn_in(&mut reply);
                convert::replied(reply, self.stamp())
            }
            Some(Err(failure)) => match self.warned_failure(&failure) {
                Some(reply) => convert::replied(reply, self.stamp()),
                None => convert::failed(self.kind, &failure, self.stamp()),
            },
            // The step could not be saved, so what the handler said does not hold.
            None => {
                let no = self.no.take();
                let no = no.unwrap_or_else(|| Refusal::new(Code::InternalError).into());
                return self.refuse(no);
            }
        };
        self.said = Some(answer);
    }

    fn stamp(&self) -> Stamp<'_> {
        self.inner().stamp(self.shared.caller.version, self.place())
    }

    fn respond_with_questions(&mut self) {
        let questions = std::mem::take(&mut self.dialogue().questions);
        let Way::Alone { round, .. } = &self.shared.caller.way else {
            return;
        };
        let (now, patience) = (self.inner().clock.now(), self.inner().ask_timeout);
        let approving = self.approving.as_deref();
        let sealed = approving.and_then(|approving| approving.sealed.clone());
        // Who comes back too late for a person's yes is told so, and not that the seal is broken.
        let until = sealed.as_ref().map_or(now, |sealed| Time(sealed.until));
        let expires = now.max(until) + patience;
        match round.ask(
            &self.shared.caller.inner().sealer,
            &questions,
            sealed,
            expires,
        ) {
            Ok(mut result) => {
                result["_meta"] = self.stamp().meta().into();
                self.said = Some(Answer::Asks(result));
            }
            Err(refusal) => self.refuse(refusal.into()),
        }
    }

    fn refuse(&mut self, no: No) {
        if self.said.is_some() {
            return;
        }
        let no = self.warned_no(no);
        let is_about_state =
            no.refusal.code() == Code::InvalidParams && self.unfinished().is_some();
        let answer = if is_about_state {
            no.into()
        } else {
            convert::refused(self.kind, no, self.stamp())
        };
        self.said = Some(answer);
    }

    fn place(&self) -> Option<Standing<'_>> {
        let workflow = self.inner().workflow.as_ref()?;
        let instance = self.shared.instance().or(self.shared.found.get())?;
        if self.purpose == Purpose::Complete {
            return None;
        }
        let at = self.after.unwrap_or_else(|| instance.position());
        Some(Standing {
            instance: instance.named(),
            is_sessions: matches!(self.shared.belongs, Belongs::ToSession),
            workflow,
            at,
            told: &self.told,
        })
    }
}

impl Drop for Running {
    /// However the loop ends, nobody listens to the handler any more, if anything is left of it.
    fn drop(&mut self) {
        if Arc::strong_count(&self.shared) > 1 {
            self.shared.voice.end();
        }
        self.lengthen();
        if let Way::Session(peer) = &self.shared.caller.way {
            let asks = self.dialogue.iter().flat_map(|said| said.asks.values());
            for ask in asks {
                peer.withdraw(*ask, &self.route);
            }
        }
    }
}

/// Lets go of what belongs to a handler, whose own clean-up may panic.
pub(crate) fn quietly(let_go: impl FnOnce()) {
    if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(let_go)) {
        // A payload whose clean-up panics as well is left alone.
        std::mem::forget(again);
    }
}
