//! Turns: whoever has one may move the instance.
//!
//! The end of a call, the passing of time and whatever an operator decides move an instance here; the
//! plain end of a call that did not have to wait does so in `at_once.rs`.

use super::{
    Books, Instance, KeepError, Seen,
    alarms::Arranged,
    approving::Asking,
    asking::Asker,
    keeping::Writing,
    stored::{Made, Running, Unclear},
};
use crate::{
    baton::Baton,
    effect::{Done, SetOff},
    journal::{Ended, Entry, What},
    principal::Principal,
    route::lock,
};
use interlock_proto::Time;
use interlock_store::Version;
use interlock_workflow::{
    Artifact, Binding, BindingId, End, Facts, Instance as Run, Outcome, Pass, Position, StateId,
    Step, Trace, Workflow,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// How many steps an instance takes at once to catch up with time. If there are more, others get
/// a chance in between.
const MOST_STEPS: usize = 64;

/// Somebody's turn, before anything is written about it: the moment to judge the call again.
#[derive(Debug)]
pub(crate) struct Held {
    pub(super) instance: Arc<Instance>,
    pub(super) has_turn: bool,
}

/// What came of an attempt to write a turn down.
pub(crate) enum Marked {
    /// The turn is written down.
    Yes(Turn),
    /// Somebody else had written; what they wrote has been read, so judge again.
    Stale(Held),
}

/// What a step did.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    pub(crate) before: Position,
    pub(crate) after: Position,
    /// The instance after it, if a state that it came to tells the model something.
    run: Option<Arc<Run>>,
    /// The states that it came to: where the edge leads, and where it began again after an end.
    entered: [Option<StateId>; 2],
    /// What it remembered when it ended, if it has begun again and anybody wants to know.
    memory: Option<Box<Map<String, Value>>>,
    /// What it sets off, which whoever has the turn runs.
    pub(crate) set_off: Option<Box<SetOff>>,
    /// The question that it leads to, as it is written down.
    pub(super) asks: Option<Box<Running>>,
}

/// What the end of a call comes to, before it is written down.
pub(super) struct Ending<'a> {
    pub(super) moved: Moved,
    pub(super) writing: Writing<'a>,
    /// The client's model is asked next.
    pub(super) asks: bool,
}

impl Moved {
    /// From here to there, and nothing follows.
    pub(super) const fn plainly(before: Position, after: Position) -> Self {
        Self {
            before,
            after,
            run: None,
            entered: [None; 2],
            memory: None,
            set_off: None,
            asks: None,
        }
    }

    /// Adds what the states that it came to tell the model.
    pub(crate) fn instruct(
        &self,
        workflow: &Workflow,
        principal: &Principal,
        told: &mut Vec<String>,
    ) {
        let Some(run) = &self.run else {
            return;
        };
        let entered = self.entered.iter().flatten();
        let texts =
            entered.filter_map(|state| Some((*state, workflow.state(*state).instructions()?)));
        for (state, text) in texts {
            let is_left = state != self.after.state;
            let memory = self.memory.as_deref().filter(|_| is_left);
            told.push(text.fill(&Facts {
                args: &Value::Null,
                result: None,
                ctx: memory.unwrap_or_else(|| run.memory()),
                principal: &principal.facts(),
                state: workflow.state_name(state),
                visits: run.visits(state).max(1),
            }));
        }
    }
}

impl Instance {
    /// Hands the turn on, which only whoever has it may do. Whoever looked after what is due may have
    /// found the instance taken, and is told that it is free again: in this order, or nobody would
    /// hear of it.
    pub(super) fn hand_on(self: &Arc<Self>, seen: &mut Seen) -> Option<Arranged> {
        seen.attended = false;
        Baton::hand_on(self);
        seen.rearm()
    }
}

impl Held {
    /// Of an instance whose turn has just been taken.
    pub(super) const fn new(instance: Arc<Instance>) -> Self {
        let has_turn = true;
        Self { instance, has_turn }
    }

    /// Gives the turn back of an instance that could not be looked after: somebody tries again, but
    /// not before then.
    pub(super) fn give_up(mut self, again: u64) {
        self.has_turn = false;
        self.instance.hand_on(&mut lock(&self.instance.seen));
        self.instance.arm_at(again);
    }

    /// The instance as it is, now that nobody else here can move it.
    ///
    /// What should have happened before happens first: if a call was dropped while it ran, nobody
    /// knows what it did, and if the time in a state is up, that state is left.
    pub(crate) async fn catch_up(&self, mut books: Books<'_>) -> Result<Arc<Run>, KeepError> {
        for _ in 0..MOST_STEPS {
            let (lost, elsewhere, run) = {
                let seen = lock(&self.instance.seen);
                (
                    seen.lost.clone(),
                    seen.elsewhere.clone(),
                    Arc::clone(seen.known.run()),
                )
            };
            let taken = if let Some(elsewhere) = elsewhere {
                if books.now.0 < elsewhere.until {
                    self.instance.reload(&books).await?;
                    if lock(&self.instance.seen).elsewhere.is_some() {
                        return Err(KeepError::RunningElsewhere);
                    }
                    continue;
                }
                self.lose(&books, &run, &elsewhere).await
            } else if let Some(lost) = lost {
                self.lose(&books, &run, &lost).await
            } else if let Some(step) = books.workflow.expire(&run, books.now.0) {
                let timer = |trace| Entry::new(books.now.0, None, What::Timer { trace });
                self.take(&books, &run, step, timer).await.map(Some)
            } else {
                return Ok(run);
            };
            match taken {
                Ok(Some(moved)) => {
                    self.settled(books, moved).await;
                    books = books.later();
                }
                Ok(None) => {}
                Err(error) if error.is_conflict() => self.instance.reload(&books).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(self.instance.run())
    }

    /// Does what follows a step that nobody called for: tells every client, and runs its effects.
    pub(super) async fn settled(&self, books: Books<'_>, moved: Moved) {
        let (before, after) = (moved.before, moved.after);
        self.instance.tell_all(books.workflow, before, after);
        if let Some(set_off) = moved.set_off
            && let Some(moved) = self.perform(books, *set_off).await
        {
            let (before, after) = (moved.before, moved.after);
            self.instance.tell_all(books.workflow, before, after);
        }
    }

    /// Nobody knows what a call did, and that is what is written down.
    async fn lose(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        lost: &Running,
    ) -> Result<Option<Moved>, KeepError> {
        if lost.question.is_some() {
            return self.unanswered(books, run, lost).await;
        }
        match books.workflow.admit(run.position(), lost.kind, &lost.name) {
            Ok(Pass::Bound(binding)) => {
                let end = (binding, Outcome::Unknown, None);
                self.end(books, run, lost, end, None).await.map(Some)
            }
            // It could not have moved anything.
            Ok(Pass::Always) | Err(_) => {
                self.clear(books, run, lost, None).await?;
                Ok(None)
            }
        }
    }

    /// Writes down that a call does not run any more, and what the journal has to say about it.
    pub(super) async fn clear(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        running: &Running,
        what: Option<Entry>,
    ) -> Result<(), KeepError> {
        let writing = Writing {
            what: what.map(|entry| entry.told()),
            ..Writing::unmoved(run, running.call)
        };
        self.instance.write(books, writing).await
    }

    /// Writes down an instance of which nothing is written yet.
    pub(crate) async fn begin(&self, books: Books<'_>) -> Result<(), KeepError> {
        let (run, calls, is_written) = {
            let seen = lock(&self.instance.seen);
            (
                Arc::clone(seen.known.run()),
                seen.calls,
                seen.version.is_some(),
            )
        };
        if is_written {
            return Ok(());
        }
        let writing = Writing::unmoved(&run, calls);
        match self.instance.write(&books, writing).await {
            Err(error) if error.is_conflict() => self.instance.reload(&books).await,
            done @ (Ok(()) | Err(_)) => done,
        }
    }

    /// Writes "running call N" of the instance as it was judged, which must be over by then, and
    /// that a person agreed to it if one did.
    pub(crate) async fn mark(
        self,
        books: Books<'_>,
        (run, binding): (Arc<Run>, &Binding),
        (made, agreed): (Option<&Arc<Made>>, Option<Box<What>>),
        until: Time,
    ) -> Result<Marked, KeepError> {
        let running = self.marking(self.next_call(), binding, made, until);
        let writing = Writing {
            running: Some(&running),
            what: agreed.map(|what| Entry::new(books.now.0, Some(running.call), *what).told()),
            asking: Asking::Void,
            ..Writing::unmoved(&run, running.call)
        };
        match self.instance.write(&books, writing).await {
            Ok(()) => Ok(Marked::Yes(self.into_turn(running, binding, true))),
            Err(error) if error.is_conflict() => {
                self.instance.reload(&books).await?;
                Ok(Marked::Stale(self))
            }
            Err(error) => Err(error),
        }
    }

    /// The turn of a call that begins.
    pub(super) fn into_turn(self, running: Running, binding: &Binding, is_written: bool) -> Turn {
        let version = || lock(&self.instance.seen).version;
        Turn {
            version: is_written.then(version).flatten(),
            held: self,
            reads_result: binding.reads_result(),
            bound: Some(binding.id()),
            running: Some(running),
            is_written,
            is_open: false,
        }
    }

    /// Which call the next one is.
    pub(super) fn next_call(&self) -> u64 {
        lock(&self.instance.seen).next_call()
    }

    /// What is written when a call begins.
    pub(super) fn marking(
        &self,
        call: u64,
        binding: &Binding,
        made: Option<&Arc<Made>>,
        until: Time,
    ) -> Running {
        Running {
            call,
            kind: binding.artifact().kind,
            name: binding.shared_name(),
            until: until.0,
            server: self.instance.alarms.server(),
            made: made.cloned(),
            question: None,
        }
    }

    /// Takes a step of the instance as it is.
    pub(super) async fn take(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        step: Step<'_>,
        entry: impl FnOnce(Trace) -> Entry + Send,
    ) -> Result<Moved, KeepError> {
        self.take_asking(books, run, step, entry, None).await
    }

    /// As [`take`](Self::take), by a call whose client can be asked what the state asks that it
    /// comes to. That somebody is being asked is part of the same commit.
    pub(super) async fn take_asking(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        step: Step<'_>,
        entry: impl FnOnce(Trace) -> Entry + Send,
        asker: Option<(Asker<'_>, &Running)>,
    ) -> Result<Moved, KeepError> {
        let step = self.as_kept(step);
        let entry = entry(step.trace(books.workflow));
        let (mut moved, after) = self.moved(books, run, &step, entry.call);
        let after = (after, step.enters);
        let asks = asker.filter(|_| step.asks);
        let asks = asks.map(|(asker, of)| asker.question(books, of, step.effects));
        self.put_down(books, (run, after), entry, asks.as_ref())
            .await?;
        moved.asks = asks.map(Box::new);
        Ok(moved)
    }

    /// The step as it is for this instance: a handle never means another run.
    fn as_kept<'w>(&self, step: Step<'w>) -> Step<'w> {
        match self.instance.is_leased() {
            true => step.finishing(),
            false => step,
        }
    }

    /// What a step of this call does to the instance if it is written down, and how that stands
    /// then.
    fn moved(
        &self,
        books: &Books<'_>,
        run: &Run,
        step: &Step<'_>,
        call: Option<u64>,
    ) -> (Moved, Arc<Run>) {
        let mut after = run.clone();
        after.apply(books.workflow, step, books.now.0);
        let after = Arc::new(after);
        let leaves = step.enters || step.terminal;
        let anew = step.enters && step.after.state != step.to;
        let entered = [leaves.then_some(step.to), anew.then_some(step.after.state)];
        let tells = |state: StateId| books.workflow.state(state).instructions().is_some();
        let sets_off = books.effects.is_some() && !step.effects.is_empty();
        let moved = Moved {
            before: run.position(),
            after: after.position(),
            run: (entered.into_iter().flatten().any(tells)).then(|| Arc::clone(&after)),
            entered,
            memory: (anew && tells(step.to)).then(|| Box::new(remembered(run, step))),
            set_off: sets_off.then(|| {
                Box::new(SetOff {
                    names: step.effects.to_vec(),
                    done: self.done(books.workflow, run, step),
                    call,
                })
            }),
            asks: None,
        };
        (moved, after)
    }

    /// Puts the instance where it is to be, and whether it comes there with that: how it stands and its
    /// journal entry, in one commit.
    pub(crate) async fn put(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        (after, enters): (Run, bool),
        entry: Entry,
    ) -> Result<Moved, KeepError> {
        let at = after.position();
        let after = (Arc::new(after), enters);
        self.put_down(books, (run, after), entry, None).await?;
        Ok(Moved::plainly(run.position(), at))
    }

    async fn put_down(
        &self,
        books: &Books<'_>,
        (run, (after, enters)): (&Arc<Run>, (Arc<Run>, bool)),
        entry: Entry,
        asks: Option<&Running>,
    ) -> Result<(), KeepError> {
        let calls = entry.call;
        let calls = calls.unwrap_or_else(|| lock(&self.instance.seen).calls);
        let writing = Writing {
            known: run,
            run: after,
            enters,
            calls,
            running: asks,
            what: Some(entry.told()),
            asking: Asking::Void,
        };
        self.instance.write(books, writing).await
    }

    /// A step as its effects see it, as far as it is not the end of a call.
    fn done(&self, workflow: &Workflow, run: &Run, step: &Step<'_>) -> Done {
        Done {
            instance: Arc::clone(self.instance.id()),
            from: workflow.state_name(step.from).to_owned(),
            to: workflow.state_name(step.to).to_owned(),
            ended: step.terminal,
            call: None,
            outcome: None,
            args: Value::Null,
            result: None,
            memory: remembered(run, step),
            principal: Principal::anonymous(),
        }
    }

    async fn end(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        running: &Running,
        (binding, outcome, result): (&Binding, Outcome, Option<&Value>),
        asker: Option<Asker<'_>>,
    ) -> Result<Moved, KeepError> {
        let end = (binding, outcome, result);
        let Ending {
            mut moved,
            writing,
            asks,
        } = self.ending(books, run, running, end);
        let effects = moved.set_off.as_ref().map(|set_off| &*set_off.names);
        let question = |asker: Asker<'_>| asker.question(books, running, effects.unwrap_or(&[]));
        let asks = asker.filter(|_| asks).map(question);
        let writing = Writing {
            running: asks.as_ref(),
            ..writing
        };
        self.instance.write(books, writing).await?;
        moved.asks = asks.map(Box::new);
        Ok(moved)
    }

    /// What the end of a call does to the instance, and what is written about it.
    pub(super) fn ending<'a>(
        &self,
        books: &Books<'_>,
        run: &'a Arc<Run>,
        running: &Running,
        (binding, outcome, result): (&Binding, Outcome, Option<&Value>),
    ) -> Ending<'a> {
        let Made { args, principal } = running.made();
        let end = End {
            outcome,
            result,
            args,
            principal,
        };
        if outcome == Outcome::Unknown
            && let Some(unclear) = Unclear::of(binding)
        {
            lock(&self.instance.seen).known.set_unclear(Some(unclear));
        }
        let step = books.workflow.step(run, binding, &end);
        let step = self.as_kept(step);
        let (mut moved, after) = self.moved(books, run, &step, Some(running.call));
        if let Some(set_off) = &mut moved.set_off {
            let artifact = Artifact::new(running.kind, &*running.name);
            set_off.done.of_call(artifact, outcome, args, principal);
        }
        let ended = Ended {
            at: books.now.0,
            call: running.call,
            kind: running.kind,
            name: &running.name,
            outcome,
        };
        let writing = Writing {
            known: run,
            run: after,
            enters: step.enters,
            calls: running.call,
            running: None,
            what: Some(ended.told(books.workflow, &step)),
            asking: Asking::Void,
        };
        Ending {
            moved,
            writing,
            asks: step.asks,
        }
    }
}

/// What an instance remembers before it begins again.
fn remembered(run: &Run, step: &Step<'_>) -> Map<String, Value> {
    let mut memory = run.memory().clone();
    for (key, value) in &step.set {
        match value {
            Some(value) => memory.insert((*key).to_owned(), value.clone()),
            None => memory.shift_remove(*key),
        };
    }
    memory
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.has_turn {
            return;
        }
        let arranged = self.instance.hand_on(&mut lock(&self.instance.seen));
        if let Some(arranged) = arranged {
            self.instance.arrange(arranged);
        }
    }
}

/// Somebody's turn. Whoever holds it may move the instance, once.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(super) held: Held,
    pub(super) reads_result: bool,
    /// By which binding it runs.
    pub(super) bound: Option<BindingId>,
    /// Taken by the commit, unless that leads to a question.
    pub(super) running: Option<Running>,
    /// The client has been told to come back with the answer to the question.
    pub(super) is_open: bool,
    /// The record says that it runs.
    pub(super) is_written: bool,
    /// Which version of the record that is.
    pub(super) version: Option<Version>,
}

impl Turn {
    /// How often the instance has changed, this call included.
    pub(crate) fn edition(&self) -> u64 {
        self.held.instance.edition()
    }

    /// The call is written down to its end, but for what is asked then.
    pub(super) fn goes_on_with(&mut self, asks: Option<Box<Running>>) {
        self.running = asks.map(|running| *running);
        self.version = lock(&self.held.instance.seen).version;
    }

    /// Whether the record says that the call runs.
    pub(crate) const fn is_written(&self) -> bool {
        self.is_written
    }

    /// Whether the step depends on what the call came to.
    pub(crate) const fn reads_result(&self) -> bool {
        self.reads_result
    }

    /// Takes the step for this end of the call; the turn is kept until it is dropped. `None` if the
    /// binding is not where it was, which holding the turn rules out.
    pub(crate) async fn commit(
        &mut self,
        books: Books<'_>,
        outcome: Outcome,
        result: Option<&Value>,
        asker: Option<Asker<'_>>,
    ) -> Result<Option<Moved>, KeepError> {
        // It stays where it is until the store has answered: if nobody waits for that, nobody knows
        // what became of the call.
        let Some(running) = &self.running else {
            return Ok(None);
        };
        let run = self.held.instance.run();
        let binding = books
            .workflow
            .admit(run.position(), running.kind, &running.name);
        let mut committed = match binding {
            Ok(Pass::Bound(binding)) => {
                let end = (binding, outcome, result);
                let ended = self.held.end(&books, &run, running, end, asker);
                ended.await.map(Some)
            }
            Ok(Pass::Always) | Err(_) => Ok(None),
        };
        // If it failed, what became of the call is not known.
        if let Ok(moved) = &mut committed {
            self.goes_on_with(moved.as_mut().and_then(|moved| moved.asks.take()));
        }
        committed
    }

    /// Runs what the step has set off. The step that a failure leads to, if one does: then nobody
    /// is asked what the state asks that was left by it.
    pub(crate) async fn perform(&mut self, books: Books<'_>, set_off: SetOff) -> Option<Moved> {
        let moved = self.held.perform(books, set_off).await;
        if moved.is_some() {
            self.running = None;
        }
        moved
    }

    /// Gives the turn back: the call never began, or has paused, of which the journal is told.
    pub(crate) async fn release(
        mut self,
        books: Books<'_>,
        paused: Option<What>,
    ) -> Result<(), KeepError> {
        if self.is_open {
            // Its client may come back another time.
            return Ok(());
        }
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        let run = self.held.instance.run();
        let paused = paused.map(|what| Entry::new(books.now.0, Some(running.call), what));
        self.held.clear(&books, &run, &running, paused).await
    }
}

impl Drop for Turn {
    /// A turn that ends without a commit was torn down, or its commit failed, and what the call did
    /// is not known; unless somebody has written since, who knew.
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        let mut seen = lock(&self.held.instance.seen);
        // Before it is written down that it runs, only the record can have been written.
        if self.is_written && seen.version != self.version {
            return;
        }
        if self.is_open {
            seen.elsewhere = Some(running);
        } else {
            seen.lost = Some(running);
        }
    }
}
