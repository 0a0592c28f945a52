//! How a call takes its turn at its instance, and a place among the calls of its tool.

use super::{
    Purpose, Running, Sought,
    consent::{Agreed, Request},
    waiting::{Judged, Waiting},
};
use crate::{
    caller::Way,
    context::Belongs,
    convert::{self, No},
    instance::{Held, Instance, KeepError, Made, Marked, Moved},
    journal::What,
    methods::Wanted,
    note::{News, Note},
    peer::Peer,
};
use futures_util::FutureExt;
use interlock_proto::{
    Code, Refusal, Time,
    invocation::{End, Outcome, State},
    refusal::shortened,
};
use interlock_workflow::{Binding, BindingId, Busy, Pass, Position, Refused, Workflow};
use std::{sync::Arc, time::Duration};

/// Why a call that has its turn does not begin.
pub(super) enum Halt {
    No(No),
    /// Its client is to be asked first.
    Ask(Box<Request>),
}

impl From<No> for Halt {
    fn from(no: No) -> Self {
        Self::No(no)
    }
}

/// How often a call tries to write down that it runs, if others write in between.
const ATTEMPTS: usize = 16;

impl Running {
    /// First the turn, then the place: whoever waits for its own instance must not keep a place
    /// from others.
    pub(super) fn enqueue(&mut self) -> Waiting {
        if let Some(Sought { source, .. }) = self.sought.as_deref() {
            let (inner, source) = (Arc::clone(self.inner()), source.clone());
            let principal = self.shared.caller.principal.clone();
            let found = async move { inner.find_source(&source, &principal).await };
            return Waiting::Instance(found.boxed());
        }
        match self.judge() {
            Judged::InTurn(turn) => turn,
            Judged::Now(Ok(let_in)) => {
                let execution = self.runs(let_in);
                let place = self.place_among_others();
                place.unwrap_or(Waiting::Judged(Some(Ok(execution))))
            }
            Judged::Now(Err(no)) => Waiting::Judged(Some(Err(no))),
        }
    }

    /// The instance is found, or not: only now can the call be judged.
    pub(super) fn found(&mut self, found: Result<Arc<Instance>, No>) -> Result<(), No> {
        let sought = self.sought.take();
        let instance = found?;
        self.shared().belongs = Belongs::To(Arc::clone(&instance));
        if self.shared.caller.is_back() {
            return self.take_up(&instance);
        }
        if let Some(sought) = sought {
            let prepare = sought.prepare;
            let (inner, principal) = (self.shared.caller.inner(), &self.shared.caller.principal);
            let wanted = Wanted::new(self.kind, self.name.clone());
            let let_in = inner.examine(Some(&instance), principal, &wanted, prepare)?;
            self.handler = Some(let_in.handler);
            self.made = let_in.made;
            self.bound = let_in.bound;
        }
        Ok(())
    }

    /// Where it waits for a place among the calls of its tool, if there are only so many.
    pub(super) fn place_among_others(&self) -> Option<Waiting> {
        let places = Arc::clone(self.places.as_ref()?);
        let place = places.acquire_owned().map(Result::ok);
        Some(Waiting::Place(place.boxed()))
    }

    /// The call runs beside others, by that binding if it is part of the workflow. For how long it may.
    pub(super) fn runs(&mut self, (execution, bound): (Duration, Option<BindingId>)) -> Duration {
        self.bound = bound;
        execution
    }

    /// A call that can move its instance waits for its turn; any other runs beside it.
    pub(super) fn judge(&self) -> Judged {
        let Some(workflow) = &self.inner().workflow else {
            return Judged::Now(Ok((self.execution(None), None)));
        };
        let instance = match (&self.shared.belongs, self.shared.instance()) {
            (_, Some(instance)) => instance,
            (Belongs::ToNone, None) => return Judged::Now(Ok((self.execution(None), None))),
            // Whatever cannot be judged does not run.
            (Belongs::ToSession | Belongs::To(_), None) => {
                return Judged::Now(Err(Refusal::new(Code::InternalError).into()));
            }
        };
        if self.purpose == Purpose::Complete {
            return Judged::Now(Ok((self.execution(None), None)));
        }
        if self.unfinished().is_some() {
            // Whoever comes back has been let in before, and has only its turn to wait for.
            let turn = Arc::clone(instance).turn(Busy::Wait);
            return Judged::InTurn(Waiting::Turn(turn.boxed()));
        }
        let bound = self.bound.map(|bound| workflow.binding(bound));
        // Whoever finds the turn free need not be judged before it has it, unless it might have to
        // wait with it in hand.
        if bound.is_some_and(Binding::moves)
            && self.places.is_none()
            && let Some(held) = instance.turn_at_once()
        {
            return Judged::InTurn(Waiting::Held(Some(held)));
        }
        let at = instance.position();
        let bound = bound.filter(|binding| binding.is_at(at));
        if let Some(binding) = bound.filter(|it| !it.moves() && !it.is_conditional()) {
            let execution = self.execution(binding.deadline());
            return Judged::Now(Ok((execution, Some(binding.id()))));
        }
        let in_turn = || match instance.turn_at_once() {
            Some(held) => Waiting::Held(Some(held)),
            None => {
                let turn = Arc::clone(instance).turn(workflow.settings().busy);
                Waiting::Turn(turn.boxed())
            }
        };
        let call = Made::call(self.made.as_deref(), self.kind, &self.name);
        let bound = match bound {
            Some(binding) => Ok(Pass::Bound(binding)),
            None => workflow.admit(at, self.kind, &self.name),
        };
        let judged = match &bound {
            Ok(Pass::Bound(binding)) if binding.is_conditional() && !binding.moves() => {
                instance.judge(workflow, &call)
            }
            Ok(Pass::Bound(_) | Pass::Always) | Err(_) => bound,
        };
        match judged {
            Ok(Pass::Bound(binding)) if binding.moves() => Judged::InTurn(in_turn()),
            Ok(Pass::Bound(binding)) => {
                let execution = self.execution(binding.deadline());
                Judged::Now(Ok((execution, Some(binding.id()))))
            }
            Ok(Pass::Always) => Judged::Now(Ok((self.execution(None), None))),
            Err(refused) => Judged::Now(Err(self.inner().refused(instance, refused))),
        }
    }

    /// What the call was let in by, if that still counts.
    pub(super) fn bound_at<'w>(&self, workflow: &'w Workflow, at: Position) -> Option<&'w Binding> {
        let binding = workflow.binding(self.bound?);
        binding.is_at(at).then_some(binding)
    }

    /// Judges the call again on the state that is found now, and writes down that it runs.
    pub(super) async fn take_turn(&mut self, mut held: Held) -> Result<Duration, Halt> {
        let inner = Arc::clone(self.inner());
        let Some(workflow) = &inner.workflow else {
            return Ok(self.execution(None));
        };
        if self.unfinished().is_some() {
            return Ok(self.resume(held, workflow).await?);
        }
        // Whoever wrote in between got on, so this ends unless the store is broken.
        for _ in 0..ATTEMPTS {
            let run = held.catch_up(inner.books(workflow)).await;
            let run = run.map_err(|error| self.unsaved(error))?;
            let call = Made::call(self.made.as_deref(), self.kind, &self.name);
            let binding = match workflow.judge(&run, &call) {
                Ok(Pass::Always) => {
                    self.bound = None;
                    return Ok(self.execution(None));
                }
                Ok(Pass::Bound(binding)) if !binding.moves() => {
                    self.bound = Some(binding.id());
                    return Ok(self.execution(binding.deadline()));
                }
                Ok(Pass::Bound(binding)) => binding,
                Err(refused) => return Err(self.refused(refused).into()),
            };
            let agreed = match self.agreed(workflow, &held, (&run, binding)).await? {
                Agreed::Yes(agreed) => agreed,
                Agreed::Stale => continue,
            };
            let execution = self.execution(binding.deadline());
            let until = inner.must_be_over(inner.clock.now(), execution);
            let made = (self.made.as_ref(), agreed);
            let books = inner.books(workflow);
            let marked = held.mark(books, (run, binding), made, until).await;
            match marked.map_err(|error| self.unsaved(error))? {
                Marked::Yes(turn) => {
                    if let Some(approval) = binding.approval() {
                        self.used(approval, turn.edition(), books.now);
                    }
                    self.turn = Some(turn);
                    return Ok(execution);
                }
                Marked::Stale(again) => held = again,
            }
        }
        Err(self.busy().into())
    }

    /// The handler takes its time: whoever looks at the instance is to see that it runs. If that
    /// takes waiting, [`write_turn_down`](Self::write_turn_down) does it.
    pub(super) fn write_turn_down_at_once(&mut self) {
        let inner = self.shared.caller.inner();
        if let (State::Executing { .. }, Some(turn), Some(workflow)) =
            (&self.state, &mut self.turn, &inner.workflow)
        {
            turn.write_down_at_once(&inner.books(workflow));
        }
    }

    pub(super) async fn write_turn_down(&mut self) {
        let inner = self.shared.caller.inner();
        if let (State::Executing { .. }, Some(turn), Some(workflow)) =
            (&self.state, &mut self.turn, &inner.workflow)
        {
            turn.write_down(&inner.books(workflow)).await;
        }
    }

    /// Somebody else holds the instance.
    pub(super) fn busy(&self) -> No {
        let refusal = Refusal::new(Code::InstanceBusy);
        if let Some(instance) = self.shared.instance() {
            let said = (Code::InstanceBusy.number(), refusal.message());
            instance.refused(self.inner().clock.now(), self.kind, &self.name, said);
        }
        refusal.into()
    }

    /// Another server runs a call, or has died while it did. Nobody can tell, but for how long it
    /// matters.
    fn busy_elsewhere(&self) -> No {
        let no = self.busy();
        let until = self.shared.instance().and_then(|one| one.busy_until());
        let Some(until) = until else {
            return no;
        };
        let left = self.inner().clock.now().until(until);
        let refusal = no.refusal.because(format!(
            "Another server runs a call of this workflow, or has died while it did. It is over in \
             {} seconds at the latest: try again then.",
            left.as_millis().div_ceil(1_000)
        ));
        refusal.into()
    }

    fn refused(&self, refused: Refused<'_>) -> No {
        match self.shared.instance() {
            Some(instance) => self.inner().refused(instance, refused),
            None => refused.into(),
        }
    }

    pub(super) fn unsaved(&self, error: KeepError) -> No {
        match error {
            KeepError::RunningElsewhere => self.busy_elsewhere(),
            error @ (KeepError::Store(_)
            | KeepError::Foreign(_)
            | KeepError::Format(_)
            | KeepError::Unreadable(_)) => unsaved(&error),
        }
    }

    /// The call waits for nothing any more, and has no turn to give back.
    pub(super) fn leave_at_once(&mut self) {
        self.waiting = Waiting::Nothing;
        self.held = None;
        let paused = self.paused().filter(|_| self.bound.is_some());
        if let Some((instance, paused)) = self.shared.instance().zip(paused) {
            instance.paused(self.inner().clock.now(), paused);
        }
    }

    pub(super) async fn leave_queue(&mut self) {
        let inner = Arc::clone(self.inner());
        let Some((turn, workflow)) = self.turn.take().zip(inner.workflow.as_ref()) else {
            return self.leave_at_once();
        };
        self.waiting = Waiting::Nothing;
        let paused = self.paused();
        if let Err(error) = turn.release(inner.books(workflow), paused).await {
            unsaved(&error);
        }
    }

    /// What the journal is told if its handler began, and was over because it asked its client
    /// something.
    fn paused(&self) -> Option<What> {
        let has_begun = self.handler.is_none();
        let has_paused = has_begun && self.state == State::Result(End::Asked);
        has_paused.then(|| What::Paused {
            kind: self.kind,
            name: shortened(&self.name),
        })
    }

    pub(super) fn execution(&self, deadline: Option<Duration>) -> Duration {
        deadline
            .or(self.timeout)
            .unwrap_or(self.inner().times.execution)
    }

    pub(super) async fn commit(&mut self, outcome: Outcome) {
        let inner = Arc::clone(self.inner());
        let Some((mut turn, workflow)) = self.turn.take().zip(inner.workflow.as_ref()) else {
            return self.ran(outcome, inner.clock.now());
        };
        self.be_warned(outcome);
        let outcome = convert::outcome(outcome);
        if turn.is_open() {
            return self.go_on(workflow, turn, outcome).await;
        }
        let books = inner.books(workflow);
        let reply = self.reply.as_ref().filter(|_| turn.reads_result());
        let result = reply.and_then(|reply| convert::result(self.kind, reply));
        let committed = turn.commit(books, outcome, result.as_ref(), Some(self.asker()));
        match committed.await {
            Ok(Some(moved)) => {
                let result = |call: &Self| convert::result(call.kind, call.reply.as_ref()?);
                self.follow(workflow, &mut turn, moved, result).await;
                self.ask_model(workflow, turn, 0).await;
            }
            Ok(None) => tracing::error!(name = &*self.name, "a call held the turn of another"),
            Err(error) => self.lost_step(error),
        }
    }

    /// The journal is told that the call has ended, which could not move its instance.
    pub(super) fn ran(&self, outcome: Outcome, now: Time) {
        let inner = self.inner();
        if let (Some(workflow), Some(instance), Some(bound)) =
            (&inner.workflow, self.shared.instance(), self.bound)
        {
            let books = inner.books_at(workflow, now);
            instance.ran(&books, bound, convert::outcome(outcome));
        }
    }

    /// The journal is told that the call did not run, for reasons that are not the gate's.
    pub(super) fn note_refusal(&self, refusal: &Refusal) {
        if let (Some(instance), Some(_)) = (self.shared.instance(), self.bound) {
            let said = (refusal.code().number(), refusal.message());
            instance.refused(self.inner().clock.now(), self.kind, &self.name, said);
        }
    }

    /// The journal is told that the call was taken back before it ran.
    pub(super) fn note_taken_back(&self) {
        if let (Some(instance), Some(_)) = (self.shared.instance(), self.bound) {
            instance.taken_back(self.inner().clock.now(), self.kind, &self.name);
        }
    }

    /// What its handler said does not hold, as its step could not be saved.
    pub(super) fn lost_step(&mut self, error: KeepError) {
        self.reply = None;
        let refusal = self.unsaved(error).refusal;
        let refusal = refusal
            .because("the step could not be saved, and what was called may have taken effect");
        self.no = Some(refusal.into());
    }

    /// The instance has moved: what that means to the caller, and what everybody hears of it.
    pub(super) fn moved(&mut self, moved: &Moved) {
        self.after = Some(moved.after);
        let caller = &self.shared.caller;
        let Some(workflow) = &caller.inner().workflow else {
            return;
        };
        moved.instruct(workflow, &caller.principal, &mut self.told);
        if !caller.inner().lists_change() {
            return;
        }
        let kinds = || workflow.lists_differ(moved.before, moved.after);
        // Whoever took the call back may not listen to it any more, and the lists of whoever stands
        // alone never change.
        let listens = self.peer().is_some() && !self.signals.has_heard_cancel();
        for kind in kinds().filter(|_| listens) {
            let note = Note {
                news: News::List(kind.into()),
                subscription: None,
            };
            self.route.insist(|out| note.write(out));
        }
        if let Some(instance) = self.shared.instance() {
            let caller = self.peer().filter(|_| listens);
            instance.tell_others(caller, kinds().collect::<Vec<_>>().into_iter());
        }
    }

    fn peer(&self) -> Option<&Arc<Peer>> {
        match &self.shared.caller.way {
            Way::Session(peer) => Some(peer),
            Way::Alone { .. } => None,
        }
    }
}

fn unsaved(error: &KeepError) -> No {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "an instance could not be saved"
    );
    Refusal::new(Code::InternalError)
        .because("the step could not be saved")
        .into()
}
