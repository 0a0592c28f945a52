//! What is known of an instance, behind its lock.

use crate::{
    approval_asking::Asked,
    approval_rules::ApprovalRequest,
    commit::Change,
    journal::unstored::Unstored,
    record::{Running, Written},
    snapshot::Known,
};
use interlock_proto::Time;
use interlock_store::Version;
use interlock_workflow::Instance as Run;
use std::sync::Arc;

/// What is known of an instance.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) known: Known,
    pub(crate) stored: Stored,
    pub(crate) occupancy: Occupancy,
    pub(crate) journal: Unstored,
    /// How many calls have had their turn.
    pub(crate) calls: u64,
    /// Another number after each change. It begins with one that no other process begins with, so
    /// that a yes that was given for one edition holds for no other.
    pub(crate) edition: u64,
    /// What operators are asked about calls of this edition.
    pub(crate) asked: Vec<ApprovalRequest>,
    /// When the timers look after it.
    pub(crate) armed: Option<u64>,
    /// It has been forgotten with its session.
    pub(crate) ended: bool,
}

/// The record in the store.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// None if there is no record yet.
    pub(crate) version: Option<Version>,
    /// How many changes the record does not have. Only instances that live in this process alone get
    /// ahead of their record.
    missing: u64,
}

impl Stored {
    /// Whether the record says less than what is known here.
    pub(crate) const fn is_behind(&self) -> bool {
        self.missing > 0
    }

    /// A change was committed to memory alone.
    pub(crate) const fn miss(&mut self) {
        self.missing += 1;
    }

    /// How many changes a record has that is written now and that the last one did not have.
    pub(crate) const fn missing(&self) -> u64 {
        self.missing
    }

    /// The record is written, with so many changes. Those that were made during the write are missing.
    pub(crate) const fn written(&mut self, version: Option<Version>, changes: u64) {
        self.version = version;
        self.missing = self.missing.saturating_sub(changes);
    }

    /// The record need not follow any more.
    pub(crate) const fn forget(&mut self) {
        self.missing = 0;
    }
}

/// Who has the instance.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    /// The call that has the turn here.
    pub(crate) running: Option<Arc<Running>>,
    /// A call that had the turn here and was dropped. What it did is not known.
    pub(crate) lost: Option<Arc<Running>>,
    /// A call that another process wrote down and has not ended, or one whose client has to come back.
    pub(crate) elsewhere: Option<Arc<Running>>,
    /// The turn is held by a timer, not by a call.
    pub(crate) attended: bool,
}

impl Occupancy {
    const fn is_settled(&self) -> bool {
        self.lost.is_none() && self.elsewhere.is_none()
    }
}

impl State {
    pub(crate) fn new(run: Run, began: Time, edition: u64) -> Self {
        Self {
            known: Known::new(run),
            stored: Stored::default(),
            occupancy: Occupancy::default(),
            journal: Unstored::new(began.0),
            calls: 0,
            edition,
            asked: Vec::new(),
            armed: None,
            ended: false,
        }
    }

    pub(crate) const fn run(&self) -> &Arc<Run> {
        self.known.run()
    }

    /// Whether no earlier call is open and no timer is due.
    pub(crate) fn is_up_to_date(&self, now: Time) -> bool {
        let due = self.run().due();
        self.occupancy.is_settled() && due.is_none_or(|due| now.0 < due)
    }

    /// The edition and the open questions once this is committed.
    pub(crate) fn after(&self, asked: &Asked) -> (u64, Vec<ApprovalRequest>) {
        match asked {
            Asked::Stays => (self.edition, self.asked.clone()),
            Asked::Void => (self.edition.wrapping_add(1), Vec::new()),
            Asked::Is(asked) => (self.edition, asked.clone()),
        }
    }

    /// The number of the last call, once it is committed that this one runs.
    pub(crate) fn calls_after(&self, running: Option<&Running>) -> u64 {
        running.map_or(self.calls, |running| running.call)
    }

    /// The change is committed.
    pub(crate) fn apply(&mut self, change: Change<'_>) {
        (self.edition, self.asked) = self.after(&change.asked);
        self.calls = self.calls_after(change.running.as_deref());
        self.occupancy.running = change.running;
        self.occupancy.lost = None;
        self.occupancy.elsewhere = None;
        self.known.set_run(change.run);
    }

    /// Takes over what another process has written, or this one before it gave up waiting.
    pub(crate) fn take_over(&mut self, run: Run, found: Written, version: Version, node: u64) {
        self.known.set_run(Arc::new(run));
        self.stored.version = Some(version);
        self.calls = found.calls;
        (self.edition, self.asked) = (found.edition, found.asked);
        self.journal.came_back();
        self.known.set_unclear(found.unclear);
        self.occupancy.running = None;
        // A call whose client has to come back is run by no process until then.
        let is_ours = |running: &Running| running.node == node && running.ticket().is_none();
        (self.occupancy.lost, self.occupancy.elsewhere) = match found.running {
            Some(running) if is_ours(&running) => (Some(running), None),
            running => (None, running),
        };
    }

    /// When the instance moves by itself.
    pub(crate) fn wakes_at(&self) -> Option<u64> {
        if self.ended {
            return None;
        }
        if self.occupancy.lost.is_some() {
            return Some(0);
        }
        if let Some(elsewhere) = &self.occupancy.elsewhere {
            return Some(elsewhere.until);
        }
        let run = self.run();
        run.due().filter(|_| run.held().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, MINUTE, NOW};
    use interlock_workflow::{Kind, Workflow, end};

    fn flow() -> Workflow {
        Workflow::builder("w")
            .state("a", |s| {
                let s = s.initial().tool("go", |t| t.success(end("a")));
                s.after(MINUTE, end("a"))
            })
            .build()
            .unwrap()
    }

    fn state() -> State {
        State::new(flow().start(NOW.0), NOW, 7)
    }

    fn running(node: u64) -> Running {
        testing::running((1, node), (Kind::Tool, "go"))
    }

    const DUE: u64 = NOW.0 + 60_000;

    #[test]
    fn a_record_misses_what_was_changed_since_it_was_drafted() {
        let mut stored = Stored::default();
        assert!(!stored.is_behind());
        stored.miss();
        stored.miss();
        let changes = stored.missing();
        assert_eq!(changes, 2);
        stored.miss();
        stored.written(Some(Version(3)), changes);
        assert_eq!((stored.version, stored.missing()), (Some(Version(3)), 1));
        assert!(stored.is_behind());
        stored.written(Some(Version(4)), 1);
        assert!(!stored.is_behind());
        stored.miss();
        stored.forget();
        assert!(!stored.is_behind());
    }

    #[test]
    fn an_instance_is_up_to_date_if_no_call_is_open_and_nothing_is_due() {
        let mut state = state();
        assert!(state.is_up_to_date(Time(DUE - 1)));
        assert!(!state.is_up_to_date(Time(DUE)));
        state.occupancy.running = Some(Arc::new(running(7)));
        assert!(state.is_up_to_date(NOW), "it is the one that looks");
        state.occupancy.lost = state.occupancy.running.take();
        assert!(!state.is_up_to_date(NOW));
        state.occupancy.elsewhere = state.occupancy.lost.take();
        assert!(!state.is_up_to_date(NOW));
    }

    #[test]
    fn an_instance_wakes_for_lost_calls_then_for_those_elsewhere_then_for_its_timer() {
        let mut state = state();
        assert_eq!(state.wakes_at(), Some(DUE));
        state.occupancy.elsewhere = Some(Arc::new(running(8)));
        assert_eq!(state.wakes_at(), Some(5_000));
        state.occupancy.lost = Some(Arc::new(running(7)));
        assert_eq!(state.wakes_at(), Some(0));
        state.ended = true;
        assert_eq!(state.wakes_at(), None);
    }

    #[test]
    fn a_change_makes_questions_void_unless_it_is_about_them() {
        let mut state = state();
        let asked: ApprovalRequest = serde_json::from_value(serde_json::json!({
            "id": "1f",
            "artifact": { "kind": "tool", "name": "go" },
            "question": "Go?",
            "principal": null,
            "at": 1,
            "standing": { "pending": { "until": 2 } },
            "holds": 1,
        }))
        .unwrap();
        assert_eq!(state.after(&Asked::Stays), (7, Vec::new()));
        let all = vec![asked];
        assert_eq!(state.after(&Asked::Is(all.clone())), (7, all.clone()));
        state.asked.clone_from(&all);
        assert_eq!(state.after(&Asked::Stays), (7, all));
        assert_eq!(state.after(&Asked::Void), (8, Vec::new()));
    }

    /// Takes over a record of version 4 that says so.
    fn take_over(state: &mut State, running: Option<Running>) {
        let flow = flow();
        let run = flow.start(NOW.0 + 1);
        let found = Written {
            calls: 3,
            running: running.map(Arc::new),
            edition: 9,
            ..Written::new(&flow, &run, None)
        };
        state.take_over(run, found, Version(4), 7);
    }

    #[test]
    fn a_call_that_is_stored_is_lost_here_if_this_process_ran_it() {
        let mut state = state();
        take_over(&mut state, Some(running(7)));
        assert!(state.occupancy.lost.is_some() && state.occupancy.elsewhere.is_none());
        assert_eq!((state.calls, state.edition), (3, 9));
        assert_eq!(state.stored.version, Some(Version(4)));
        assert_eq!(state.run().due(), Some(DUE + 1));
        take_over(&mut state, Some(running(8)));
        assert!(state.occupancy.lost.is_none() && state.occupancy.elsewhere.is_some());
        take_over(&mut state, None);
        assert!(state.occupancy.lost.is_none() && state.occupancy.elsewhere.is_none());
    }

    /// No process runs a call whose client has to come back.
    #[test]
    fn a_call_whose_client_comes_back_is_lost_by_no_process() {
        let mut asked = running(7);
        asked.question = Some(Box::new(crate::record::Question {
            principal: serde_json::Value::Null,
            ticket: Some("t".to_owned()),
        }));
        let mut state = state();
        take_over(&mut state, Some(asked));
        assert!(state.occupancy.lost.is_none() && state.occupancy.elsewhere.is_some());
    }
}
