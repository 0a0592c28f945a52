//! One call, from admission to its answer.
//!
//! This room drives the invocation machine: it waits for one thing, lets the machine decide and does
//! what the machine orders. It knows the core, the call's context and the engine. It never parses a
//! request and never writes to a connection except through the call's route.
//!
//! | File | Step |
//! |---|---|
//! | `admission.rs` | 1 admit, 2 check: what the state binds, then the arguments; no guards |
//! | `reserve.rs` | 2 check guards before a wait; 4 reserve: a turn at the instance, where the engine judges again, and a place among the calls of the tool |
//! | `approval.rs` | 3 approve: the engine asks for it while it reserves; here the client is asked, and the reservation tried again |
//! | `execute.rs`, `outgoing.rs` | 5 run the handler, and pass on what it says before its result (the handler itself checks its output schema: `api/tool.rs`) |
//! | `commit.rs` | 6 commit, 7 notify and run effects |
//! | `sampling.rs`, `sampling_rules.rs` | 7 what the new state asks the client's model |
//! | `respond.rs` | 8 respond: decides the answer; `run` returns it |
//! | `../session/requests.rs` `send_answer` | 9 write the answer (`../wire`), and settle the request under the session's lock; over HTTP without a session, `../transport/http/stateless.rs` does |
//! | `../outbound` | 10 queue the bytes on the call's route, from which the transport takes them |
//! | `machine.rs` | the invocation machine's state, and what it has ordered |
//! | `launch.rs` | the first poll, in place |

pub(crate) mod admission;
mod approval;
mod commit;
mod execute;
pub(crate) mod launch;
mod machine;
mod outgoing;
mod reserve;
mod respond;
pub(crate) mod sampling;
pub(crate) mod sampling_rules;

use crate::{
    api::{HandlerCall, Place, Places},
    call::{
        admission::Examine,
        approval::Approving,
        machine::Machine,
        outgoing::Conversation,
        respond::{Advice, Results},
    },
    context::{
        Belongs, Shared,
        cancellation::Signals,
        client::{Caller, Way},
        client_link::ClientLink,
        multi_round::Unfinished,
    },
    core::Core,
    outbound::Route,
    wire::{refusal::CallRefusal, result::Answer},
};
use futures_util::poll;
use interlock_engine::{CallFacts, CallInput, Instance, Reservation, Source, sleep_until};
use interlock_proto::{
    Time,
    invocation::{Effect, Input, State},
};
use interlock_workflow::{BindingId, Kind};
use std::{
    borrow::Cow,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

/// What is called, and with what.
pub(crate) struct Start {
    pub(crate) purpose: Purpose,
    pub(crate) kind: Kind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) timeout: Option<Duration>,
    /// It has one of them while it runs.
    pub(crate) places: Option<Places>,
    /// None until its instance is found.
    pub(crate) handler: Option<HandlerCall>,
    /// Its input, if a guard, an approval or an effect reads it.
    pub(crate) input: Option<Arc<CallInput>>,
    /// The binding that admitted it, if it is part of the workflow.
    pub(crate) binding: Option<BindingId>,
    pub(crate) belongs: Belongs,
    /// How its instance is found, if that takes a look into the store.
    pub(crate) sought: Option<Box<Sought>>,
}

/// An instance that has to be found before its call can be admitted.
pub(crate) struct Sought {
    pub(crate) source: Source,
    /// Takes the arguments, once the gate has admitted the call.
    pub(crate) prepare: Examine,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To use what is called: the gate decides, and its end may move the instance.
    Use,
    /// To suggest how an argument could be completed: the gate hides what cannot be used now, and
    /// nothing moves.
    Complete,
}

/// Who makes a call, and where its messages go.
pub(crate) struct CallOrigin {
    pub(crate) core: Arc<Core>,
    pub(crate) route: Route,
    pub(crate) caller: Caller,
    pub(crate) signals: Signals,
    /// When the call came.
    pub(crate) at: Time,
}

/// A call on its way.
pub(crate) struct Call {
    core: Arc<Core>,
    start: Start,
    /// What its handler sees, too.
    shared: Arc<Shared>,
    route: Route,
    signals: Signals,
    machine: Machine,
    /// When the call came, until its first wait; then when the last wait ended.
    now: Time,
    place: Option<Place>,
    reservation: Option<Reservation>,
    /// What its handler says before its result, if it says anything.
    conversation: Option<Box<Conversation>>,
    /// A person's yes, if it needs one.
    approving: Option<Box<Approving>>,
    advice: Advice,
    results: Results,
}

/// Why a call does not reach its handler.
enum Stop {
    /// It is refused.
    Refused(Box<CallRefusal>),
    /// Its client has to come back with an answer.
    ComeBack,
    /// The machine has ended it: it was cancelled, waited too long, or the server ends.
    Ended,
}

impl From<CallRefusal> for Stop {
    fn from(no: CallRefusal) -> Self {
        Self::Refused(Box::new(no))
    }
}

impl Call {
    pub(crate) fn new(mut start: Start, origin: CallOrigin) -> Self {
        let belongs = std::mem::replace(&mut start.belongs, Belongs::ToNone);
        let app = origin.core.lifespan.app();
        Self {
            shared: Arc::new(Shared::new(origin.caller, belongs, app)),
            core: origin.core,
            start,
            route: origin.route,
            signals: origin.signals,
            machine: Machine::default(),
            now: origin.at,
            place: None,
            reservation: None,
            conversation: None,
            approving: None,
            advice: Advice::default(),
            results: Results::default(),
        }
    }

    /// One call, from admission to its answer. `None`: its client cancelled it.
    ///
    /// Every `.await` is a place where the call may become a task. A refusal leaves the first part by
    /// `?`; the machine then orders how the call ends.
    async fn run(&mut self) -> Option<Answer> {
        let (queue, grace) = (self.core.times.queue, self.core.times.grace);
        self.step(Input::Call { queue, grace });
        match self.reach_handler().await {
            Ok(execution) => {
                self.step(Input::Turn { execution });
                // 5. Run the handler, with its deadline.
                execute::run(self).await;
            }
            Err(Stop::Refused(no)) => {
                let refusal = no.refusal.clone();
                self.results.refusal = Some(no);
                self.step(Input::Refused(refusal));
            }
            Err(Stop::ComeBack) => self.step(Input::Asked),
            Err(Stop::Ended) => {}
        }
        self.conclude().await;
        let is_wanted = !self.signals.is_cancelled();
        self.results.answer.take().filter(|_| is_wanted)
    }

    /// Everything before the handler. How long the handler may run.
    async fn reach_handler(&mut self) -> Result<Duration, Stop> {
        // 1. Admit, 2. check: what came with its instance was admitted and checked by dispatch.
        reserve::find_instance(self).await?;
        loop {
            // 4. Reserve the instance, judged on the state that is found then.
            match reserve::reserve(self).await? {
                reserve::Next::Run(execution) => return Ok(execution),
                // 3. Approve: without the turn, for a person takes their time. Then try again.
                reserve::Next::AskPerson(question) => {
                    Box::pin(approval::ask_client(self, question)).await?
                }
            }
        }
    }

    /// Does what the machine orders at the end of the call.
    async fn conclude(&mut self) {
        loop {
            while let Some(order) = self.machine.next_order() {
                match order {
                    // 6. Commit the step. 7. Notify, run effects, ask what the new state asks.
                    Effect::Commit(outcome) => commit::commit(self, outcome).await,
                    // 8. Respond.
                    Effect::Respond => respond::respond(self),
                    Effect::Refuse(refusal) => respond::refuse_ended(self, refusal),
                    Effect::Ask => respond::with_questions(self),
                    Effect::Suppress => respond::suppress(self),
                    // The call never began, or its handler has paused.
                    Effect::LeaveQueue => reserve::release(self).await,
                    // There is no handler any more that could be started or stopped.
                    Effect::Enqueue
                    | Effect::Start
                    | Effect::Forward
                    | Effect::AskToStop
                    | Effect::TearDown => {}
                }
            }
            if *self.machine.state() == State::Idle {
                return;
            }
            self.step(Input::Settled);
        }
    }

    fn step(&mut self, input: Input) {
        self.machine.step(input, self.now);
    }

    /// Waits for something before the handler runs, unless the machine ends the wait. A call that
    /// was cancelled while it waited does not begin, even if its turn has come.
    async fn wait_for<T: Send>(&mut self, work: impl Future<Output = T> + Send) -> Result<T, Stop> {
        let mut work = pin!(work);
        match poll!(&mut work) {
            Poll::Ready(done) => Ok(done),
            Poll::Pending => Box::pin(self.wait_for_pending(work)).await,
        }
    }

    async fn wait_for_pending<T>(
        &mut self,
        mut work: Pin<&mut (impl Future<Output = T> + Send)>,
    ) -> Result<T, Stop> {
        let clock = Arc::clone(&self.core.clock);
        loop {
            let wake_at = self.machine.state().wake_at();
            let input = tokio::select! {
                biased;
                signal = self.signals.next() => signal,
                done = &mut work => {
                    self.now = clock.now();
                    return Ok(done);
                }
                () = sleep_until(&*clock, wake_at) => Input::Tick,
            };
            self.now = clock.now();
            self.step(input);
            self.check_pending()?;
        }
    }

    /// Hears whether the call was cancelled while the store was asked.
    fn check_signals(&mut self) -> Result<(), Stop> {
        match self.signals.ready() {
            Some(input) => {
                self.step(input);
                self.check_pending()
            }
            None => Ok(()),
        }
    }

    const fn check_pending(&self) -> Result<(), Stop> {
        match self.machine.state() {
            State::Pending { .. } => Ok(()),
            State::Idle | State::Executing { .. } | State::Result(_) => Err(Stop::Ended),
        }
    }

    /// The call, as the engine judges it.
    fn facts(&self) -> CallFacts<'_> {
        let times = &self.core.times;
        CallFacts {
            kind: self.start.kind,
            name: &self.start.name,
            input: self.start.input.as_ref(),
            binding: self.start.binding,
            principal: &self.shared.caller.principal,
            now: Some(self.now),
            time: self.execution(None),
            grace: times
                .grace
                .saturating_add(self.core.environment.ask_timeout),
        }
    }

    fn execution(&self, deadline: Option<Duration>) -> Duration {
        let own = deadline.or(self.start.timeout);
        own.unwrap_or(self.core.times.execution)
    }

    fn instance(&self) -> Option<&Arc<Instance>> {
        self.shared.instance()
    }

    /// Journals something about a call that is part of the workflow.
    fn note(&self, note: impl FnOnce(&Arc<Instance>, Kind, &str)) {
        if let (Some(instance), Some(_)) = (self.instance(), self.start.binding) {
            note(instance, self.start.kind, &self.start.name);
        }
    }

    fn link(&self) -> Option<&Arc<dyn ClientLink>> {
        match &self.shared.caller.way {
            Way::Session(link) => Some(link),
            Way::Alone { .. } => None,
        }
    }

    /// What is left of the call, if its client has come back with an answer for the state's question.
    fn unfinished(&self) -> Option<&Unfinished> {
        match &self.shared.caller.way {
            Way::Alone { round, .. } => round.unfinished(),
            Way::Session(_) => None,
        }
    }

    fn shared_mut(&mut self) -> &mut Shared {
        let shared = Arc::get_mut(&mut self.shared);
        shared.expect("only the call has it before its handler does")
    }

    fn approving(&mut self) -> &mut Approving {
        self.approving.get_or_insert_default()
    }

    fn conversation(&mut self) -> &mut Conversation {
        self.conversation.get_or_insert_default()
    }
}

impl Drop for Call {
    /// However the call ends, its handler is not listened to any more, and its questions are
    /// withdrawn.
    fn drop(&mut self) {
        if Arc::strong_count(&self.shared) > 1 {
            self.shared.channel.close();
        }
        let questions = self.conversation.as_ref();
        if let (Some(questions), Some(link)) = (questions, self.link()) {
            for ask in questions.asks.values() {
                link.withdraw(*ask, &self.route);
            }
        }
    }
}
