//! A machine under examination: the functions that ship, under rules of the test's choosing.
//!
//! [`Life::play`] asserts what holds for every step of every machine; properties and models add
//! what holds for one of them.

use interlock_proto::{
    AskId, CallId, Code, Refusal, RequestId, Time, Version,
    connection::{self, Connection, Key, Lane},
    elicitation::{self, Answer, Elicitation},
    era::{Capability, Method},
    invocation::{self, Invocation},
    machine::{Machine, Step},
    negotiation::{self, Negotiation},
    session::{self, Session},
    subscription::{self, Subscription},
    task::{self, Finish, Task},
};
use std::{collections::BTreeSet, fmt::Debug};

pub(crate) type StateOf<S> = <<S as Subject>::M as Machine>::State;
pub(crate) type LedgerOf<S> = <<S as Subject>::M as Machine>::Ledger;
pub(crate) type InputOf<S> = <<S as Subject>::M as Machine>::Input;
pub(crate) type EffectOf<S> = <<S as Subject>::M as Machine>::Effect;
pub(crate) type Stepped<S> = Result<Step<StateOf<S>, EffectOf<S>>, Refusal>;

/// A machine together with its rules.
pub(crate) trait Subject: Clone + Debug {
    type M: Machine;

    fn first(&self, now: Time) -> StateOf<Self>;

    fn step(
        &self,
        state: &StateOf<Self>,
        ledger: &LedgerOf<Self>,
        input: InputOf<Self>,
        now: Time,
    ) -> Stepped<Self>;

    fn wake_at(&self, state: &StateOf<Self>, ledger: &LedgerOf<Self>) -> Option<Time>;

    /// Everything that can happen to it, with data enough to make a difference.
    fn inputs(&self) -> Vec<InputOf<Self>>;

    fn tick() -> InputOf<Self>;

    /// Whether a peer learns of this effect.
    fn is_seen(effect: &EffectOf<Self>) -> bool;

    /// Whether this effect writes something down.
    fn is_saved(effect: &EffectOf<Self>) -> bool;

    /// Whether the same input twice is two things that happened, rather than one told twice.
    fn is_new_each_time(input: &InputOf<Self>) -> bool;

    /// Whether nothing can change any more.
    fn is_over(state: &StateOf<Self>) -> bool;

    /// Whether this state is left by whatever happens next, a tick before its time included.
    fn is_left_by_anything(_state: &StateOf<Self>) -> bool {
        false
    }
}

/// One machine from its beginning on.
#[derive(Clone, Debug)]
pub(crate) struct Life<S: Subject> {
    pub(crate) subject: S,
    pub(crate) state: StateOf<S>,
    pub(crate) ledger: LedgerOf<S>,
    pub(crate) now: Time,
}

impl<S: Subject> Life<S> {
    pub(crate) fn new(subject: S) -> Self {
        let state = subject.first(Time(0));
        Self {
            subject,
            state,
            ledger: LedgerOf::<S>::default(),
            now: Time(0),
        }
    }

    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.subject.wake_at(&self.state, &self.ledger)
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.state == other.state && self.ledger == other.ledger
    }

    /// Lets something happen, and checks what holds whatever happens.
    #[track_caller]
    pub(crate) fn play(&mut self, input: InputOf<S>) -> Result<Vec<EffectOf<S>>, Code> {
        let step = match self
            .subject
            .step(&self.state, &self.ledger, input, self.now)
        {
            Ok(step) => step,
            Err(refusal) => {
                let number = refusal.code().number();
                assert!((1001..=1089).contains(&number), "{refusal:?}");
                return Err(refusal.code());
            }
        };
        if S::is_over(&self.state) {
            assert_eq!(step.state, self.state, "it was over");
        }
        let saved = step.effects.iter().rposition(S::is_saved);
        let seen = step.effects.iter().position(S::is_seen);
        if let (Some(saved), Some(seen)) = (saved, seen) {
            assert!(saved < seen, "seen before it is saved: {:?}", step.effects);
        }
        S::M::apply(&mut self.ledger, &step.effects, self.now);
        self.state = step.state;
        Ok(step.effects.to_vec())
    }

    /// A duplicate is told to nobody and written down by nobody a second time.
    #[track_caller]
    pub(crate) fn check_duplicate(&self, input: &InputOf<S>) {
        let mut life = self.clone();
        if S::is_new_each_time(input) || life.play(input.clone()).is_err() {
            return;
        }
        for effect in life.play(input.clone()).unwrap_or_default() {
            assert!(
                !S::is_seen(&effect) && !S::is_saved(&effect),
                "{input:?} twice orders {effect:?} twice, from {:?}",
                self.state
            );
        }
    }

    /// No tick before its time does anything; the one at its time does, and the next lies later.
    #[track_caller]
    pub(crate) fn check_clock(&self) {
        let at = |now: Time| {
            let mut life = Self {
                now,
                ..self.clone()
            };
            let effects = life.play(S::tick()).unwrap();
            (life, effects)
        };
        let wake_at = self.wake_at();
        if !S::is_left_by_anything(&self.state) {
            let far = Time(u64::MAX / 2);
            let early = wake_at.map_or(far, |Time(at)| Time(at.saturating_sub(1)));
            for now in [self.now, early] {
                if wake_at.is_some_and(|due| now >= due) {
                    continue;
                }
                let (after, effects) = at(now);
                assert!(after.is_same_as(self), "a tick at {now:?} moved {self:?}");
                assert_eq!(effects, [], "a tick at {now:?} in {self:?}");
            }
        }
        if let Some(due) = wake_at {
            let now = self.now.max(due);
            let (after, _) = at(now);
            assert!(!after.is_same_as(self), "a busy loop at {now:?}: {self:?}");
            let next = after.wake_at();
            assert!(next.is_none_or(|next| next > now), "{self:?}, {after:?}");
        }
    }
}

pub(crate) fn handshake(id: i64) -> Key {
    Key {
        id: id.into(),
        lane: Lane::Handshake,
    }
}

pub(crate) fn stateless(id: i64, call: u64) -> Key {
    Key {
        id: id.into(),
        lane: Lane::Stateless(CallId(call)),
    }
}

impl Subject for connection::Rules {
    type M = Connection;

    fn first(&self, now: Time) -> connection::State {
        self.first(now)
    }

    fn step(
        &self,
        state: &connection::State,
        ledger: &connection::Ledger,
        input: connection::Input,
        now: Time,
    ) -> Stepped<Self> {
        connection::step(self, state, ledger, input, now)
    }

    fn wake_at(&self, state: &connection::State, ledger: &connection::Ledger) -> Option<Time> {
        state.wake_at(self, ledger)
    }

    fn inputs(&self) -> Vec<connection::Input> {
        use connection::Input;
        let keys = || {
            let text = Key {
                id: "1".into(),
                lane: Lane::Handshake,
            };
            let numbered = (1..=3).map(handshake);
            let modern = [stateless(1, 1), stateless(1, 2), stateless(2, 3)];
            numbered.chain(modern).chain([text])
        };
        let ids = || [RequestId::from(1), 2.into(), 3.into(), "1".into()];
        let mut inputs = vec![
            Input::Tick,
            Input::Ready,
            Input::Notification,
            Input::Drain,
            Input::Silent,
            Input::Gone,
            Input::Response(None),
        ];
        for version in [Version::V2025_03_26, Version::V2025_11_25] {
            inputs.extend(ids().map(|id| Input::Initialize {
                id,
                version: Ok(version),
            }));
        }
        inputs.push(Input::Initialize {
            id: 1.into(),
            version: Err(Refusal::new(Code::InvalidProtocolVersion)),
        });
        inputs.extend(ids().map(|id| Input::Ping { id }));
        inputs.extend(ids().map(Some).into_iter().chain([None]).map(|id| {
            let refusal = Refusal::new(Code::ProtocolError);
            Input::Malformed { id, refusal }
        }));
        inputs.extend(ids().map(|id| Input::Cancelled { id }));
        inputs.extend(keys().map(Input::Request));
        inputs.extend(keys().map(Input::Settled));
        for ask in [AskId(1), AskId(2)] {
            inputs.extend([Input::Ask(ask), Input::Response(Some(ask))]);
        }
        for uri in ["a", "b"] {
            inputs.push(Input::Subscribed(uri.to_owned()));
            inputs.push(Input::Unsubscribed(uri.to_owned()));
        }
        inputs
    }

    fn tick() -> connection::Input {
        connection::Input::Tick
    }

    fn is_seen(effect: &connection::Effect) -> bool {
        use connection::{Effect, Peer};
        match effect {
            Effect::Negotiate(..)
            | Effect::Serve(_)
            | Effect::SendAsk(_)
            | Effect::Abandon(_, Peer::Present) => true,
            Effect::Activate
            | Effect::Cancel(_)
            | Effect::Settle(_)
            | Effect::Forget(_)
            | Effect::Subscribe(_)
            | Effect::Unsubscribe(_)
            | Effect::Ignore(_)
            | Effect::Abandon(_, Peer::Gone)
            | Effect::AbandonAsk(_)
            | Effect::Close => false,
        }
    }

    fn is_saved(_effect: &connection::Effect) -> bool {
        false
    }

    fn is_new_each_time(_input: &connection::Input) -> bool {
        false
    }

    fn is_over(state: &connection::State) -> bool {
        *state == connection::State::Closed
    }
}

/// The negotiation machine, which has no rules to choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms;

impl Subject for Terms {
    type M = Negotiation;

    fn first(&self, now: Time) -> negotiation::State {
        Negotiation::first(now)
    }

    fn step(
        &self,
        state: &negotiation::State,
        (): &(),
        input: negotiation::Input,
        now: Time,
    ) -> Stepped<Self> {
        negotiation::step(&negotiation::Rules::default(), state, input, now)
    }

    fn wake_at(&self, state: &negotiation::State, (): &()) -> Option<Time> {
        state.wake_at()
    }

    fn inputs(&self) -> Vec<negotiation::Input> {
        use negotiation::Input;
        let offer = |version, name: &str| {
            Input::Offer(negotiation::Offer {
                version,
                client: BTreeSet::from([Capability::Roots]),
                unsupported: vec!["magic".into()],
                client_name: name.into(),
            })
        };
        let mut inputs = vec![
            Input::Tick,
            Input::Ready,
            Input::Have(BTreeSet::new()),
            Input::Have(BTreeSet::from([Capability::Tools])),
            offer(Version::V2024_11_05, "me"),
            offer(Version::V2025_11_25, "you"),
        ];
        inputs.extend(Method::ALL.iter().copied().map(Input::Call));
        inputs
    }

    fn tick() -> negotiation::Input {
        negotiation::Input::Tick
    }

    fn is_seen(effect: &negotiation::Effect) -> bool {
        use negotiation::Effect;
        match effect {
            Effect::Answer(_) | Effect::Serve(_) | Effect::Fail(_) => true,
            Effect::Gather | Effect::Changed(_) => false,
        }
    }

    fn is_saved(_effect: &negotiation::Effect) -> bool {
        false
    }

    fn is_new_each_time(input: &negotiation::Input) -> bool {
        matches!(input, negotiation::Input::Call(_))
    }

    fn is_over(_state: &negotiation::State) -> bool {
        false
    }
}

impl Subject for invocation::Times {
    type M = Invocation;

    fn first(&self, now: Time) -> invocation::State {
        Invocation::first(now)
    }

    fn step(
        &self,
        state: &invocation::State,
        (): &(),
        input: invocation::Input,
        now: Time,
    ) -> Stepped<Self> {
        Ok(invocation::step(state, input, now))
    }

    fn wake_at(&self, state: &invocation::State, (): &()) -> Option<Time> {
        state.wake_at()
    }

    fn inputs(&self) -> Vec<invocation::Input> {
        use invocation::{Finish, Input};
        vec![
            Input::Tick,
            Input::Call {
                queue: self.queue,
                grace: self.grace,
            },
            Input::Turn {
                execution: self.execution,
            },
            Input::Refused(Refusal::new(Code::NotInState)),
            Input::Wait,
            Input::Resume,
            Input::Asked,
            Input::Progress,
            Input::Finished(Finish::Success),
            Input::Finished(Finish::Error),
            Input::Panicked,
            Input::Stopped,
            Input::Cancel,
            Input::Shutdown,
            Input::Settled,
        ]
    }

    fn tick() -> invocation::Input {
        invocation::Input::Tick
    }

    fn is_seen(effect: &invocation::Effect) -> bool {
        use invocation::Effect;
        match effect {
            Effect::Forward | Effect::Respond | Effect::Ask | Effect::Refuse(_) => true,
            Effect::Enqueue
            | Effect::LeaveQueue
            | Effect::Start
            | Effect::AskToStop
            | Effect::TearDown
            | Effect::Commit(_)
            | Effect::Suppress => false,
        }
    }

    fn is_saved(effect: &invocation::Effect) -> bool {
        matches!(effect, invocation::Effect::Commit(_))
    }

    fn is_new_each_time(input: &invocation::Input) -> bool {
        matches!(input, invocation::Input::Progress)
    }

    fn is_over(_state: &invocation::State) -> bool {
        false
    }
}

impl Subject for session::Rules {
    type M = Session;

    fn first(&self, now: Time) -> session::State {
        self.first(now)
    }

    fn step(
        &self,
        state: &session::State,
        ledger: &session::Ledger,
        input: session::Input,
        now: Time,
    ) -> Stepped<Self> {
        session::step(self, state, ledger, input, now)
    }

    fn wake_at(&self, state: &session::State, ledger: &session::Ledger) -> Option<Time> {
        state.wake_at(self, ledger)
    }

    fn inputs(&self) -> Vec<session::Input> {
        Session::samples()
    }

    fn tick() -> session::Input {
        session::Input::Tick
    }

    fn is_seen(_effect: &session::Effect) -> bool {
        false
    }

    fn is_saved(effect: &session::Effect) -> bool {
        use session::Effect;
        match effect {
            Effect::Save | Effect::Delete => true,
            Effect::Load | Effect::Serve | Effect::Release | Effect::Unload | Effect::Record(_) => {
                false
            }
        }
    }

    fn is_new_each_time(input: &session::Input) -> bool {
        use session::Input;
        match input {
            Input::Begin(_) | Input::End | Input::Write | Input::Read => true,
            Input::Destroy(_) | Input::GiveWay | Input::Cleaned | Input::Tick => false,
        }
    }

    fn is_over(state: &session::State) -> bool {
        *state == session::State::Destroyed
    }
}

impl Subject for subscription::Rules {
    type M = Subscription;

    fn first(&self, now: Time) -> subscription::State {
        Subscription::first(now)
    }

    fn step(
        &self,
        state: &subscription::State,
        (): &(),
        input: subscription::Input,
        now: Time,
    ) -> Stepped<Self> {
        subscription::step(self, state, input, now)
    }

    fn wake_at(&self, state: &subscription::State, (): &()) -> Option<Time> {
        state.wake_at()
    }

    fn inputs(&self) -> Vec<subscription::Input> {
        Subscription::samples()
    }

    fn tick() -> subscription::Input {
        subscription::Input::Tick
    }

    fn is_seen(effect: &subscription::Effect) -> bool {
        matches!(effect, subscription::Effect::Notify(_))
    }

    fn is_saved(_effect: &subscription::Effect) -> bool {
        false
    }

    fn is_new_each_time(input: &subscription::Input) -> bool {
        matches!(input, subscription::Input::Updated)
    }

    fn is_over(_state: &subscription::State) -> bool {
        false
    }

    fn is_left_by_anything(state: &subscription::State) -> bool {
        *state == subscription::State::Unsubscribing
    }
}

impl Subject for task::Rules {
    type M = Task;

    fn first(&self, now: Time) -> task::State {
        self.first(None, now)
    }

    fn step(&self, state: &task::State, (): &(), input: task::Input, now: Time) -> Stepped<Self> {
        task::step(self, state, input, now)
    }

    fn wake_at(&self, state: &task::State, (): &()) -> Option<Time> {
        state.wake_at()
    }

    fn inputs(&self) -> Vec<task::Input> {
        Task::samples()
    }

    fn tick() -> task::Input {
        task::Input::Tick
    }

    fn is_seen(effect: &task::Effect) -> bool {
        matches!(effect, task::Effect::Notify(_))
    }

    fn is_saved(effect: &task::Effect) -> bool {
        matches!(effect, task::Effect::Save)
    }

    fn is_new_each_time(input: &task::Input) -> bool {
        matches!(input, task::Input::Finished(Finish::Transient))
    }

    fn is_over(state: &task::State) -> bool {
        *state == task::State::Expired
    }
}

impl Subject for elicitation::Rules {
    type M = Elicitation;

    fn first(&self, now: Time) -> elicitation::State {
        self.first(now)
    }

    fn step(
        &self,
        state: &elicitation::State,
        (): &(),
        input: elicitation::Input,
        now: Time,
    ) -> Stepped<Self> {
        elicitation::step(self, state, input, now)
    }

    fn wake_at(&self, state: &elicitation::State, (): &()) -> Option<Time> {
        state.wake_at()
    }

    fn inputs(&self) -> Vec<elicitation::Input> {
        use elicitation::{Input, Who};
        let mut inputs = Elicitation::samples();
        inputs.push(Input::Complete(Who::Asked, Answer(3)));
        inputs
    }

    fn tick() -> elicitation::Input {
        elicitation::Input::Tick
    }

    fn is_seen(effect: &elicitation::Effect) -> bool {
        matches!(effect, elicitation::Effect::Tell(_))
    }

    fn is_saved(effect: &elicitation::Effect) -> bool {
        matches!(effect, elicitation::Effect::Save)
    }

    fn is_new_each_time(_input: &elicitation::Input) -> bool {
        false
    }

    fn is_over(state: &elicitation::State) -> bool {
        *state == elicitation::State::CleanedUp
    }
}
