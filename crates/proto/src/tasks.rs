//! The tasks of a server: whose they are, how many there may be, in which order they are listed.
//!
//! Everything is asked for by owner. A task of somebody else is no task at all.

use crate::{
    Code, Refusal, Time,
    machine::{Effects, Step},
    task::{self, Effect, Input, Rules, State},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// How many ids are tried before a task is refused.
const ATTEMPTS: usize = 3;
/// How many tasks one page holds at most.
const MOST: usize = 100;

/// The name of a task: random, made by the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub Arc<str>);

/// Whose a task is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub Arc<str>);

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    /// Its name.
    pub id: TaskId,
    /// Where it is in its life.
    pub state: State,
    /// When it was made.
    pub created: Time,
    /// When it last changed.
    pub updated: Time,
}

/// All tasks.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    /// Where each task stands in its owner's shelf.
    by_id: HashMap<TaskId, (Owner, u64)>,
    /// Each owner's tasks, in the order of their making.
    by_owner: HashMap<Owner, BTreeMap<u64, Kept>>,
    next: u64,
}

/// A page of tasks, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The tasks.
    pub tasks: Vec<&'a Kept>,
    /// How to ask for the next page; only there if something is left.
    pub next: Option<String>,
}

impl Tasks {
    /// Makes a task. Of the ids offered, the first that is free is taken; three are tried.
    ///
    /// ```
    /// use interlock_proto::{Time, task::Rules, tasks::{Owner, TaskId, Tasks}};
    ///
    /// let mut tasks = Tasks::default();
    /// let me = Owner("me".into());
    /// let id = tasks.create(&Rules::default(), &me, [TaskId("a".into())], None, Time(0))?;
    /// assert_eq!(tasks.list(&me, None, 10)?.tasks[0].id, id);
    /// # Ok::<(), interlock_proto::Refusal>(())
    /// ```
    ///
    /// # Errors
    ///
    /// 1060 if the owner has too many unfinished tasks, 1079 if no id was free.
    pub fn create(
        &mut self,
        rules: &Rules,
        owner: &Owner,
        ids: impl IntoIterator<Item = TaskId>,
        ttl: Option<Duration>,
        now: Time,
    ) -> Result<TaskId, Refusal> {
        if self.unfinished(owner) >= rules.max_unfinished {
            return Err(Refusal::new(Code::ConcurrentLimitExceeded)
                .because("too many tasks are unfinished"));
        }
        let free = ids
            .into_iter()
            .take(ATTEMPTS)
            .find(|id| !self.by_id.contains_key(id));
        let id = free.ok_or_else(|| {
            Refusal::new(Code::InternalError).because("no id was free for the task")
        })?;
        let seq = self.next;
        self.next += 1;
        let kept = Kept {
            id: id.clone(),
            state: rules.first(ttl, now),
            created: now,
            updated: now,
        };
        self.by_id.insert(id.clone(), (owner.clone(), seq));
        self.by_owner
            .entry(owner.clone())
            .or_default()
            .insert(seq, kept);
        Ok(id)
    }

    /// How many of an owner's tasks are unfinished.
    #[must_use]
    pub fn unfinished(&self, owner: &Owner) -> usize {
        self.by_owner.get(owner).map_or(0, |shelf| {
            shelf
                .values()
                .filter(|kept| kept.state.is_unfinished())
                .count()
        })
    }

    /// An owner's task.
    ///
    /// # Errors
    ///
    /// −32602 if the owner has no such task.
    pub fn find(&self, owner: &Owner, id: &TaskId) -> Result<&Kept, Refusal> {
        self.by_id
            .get(id)
            .filter(|(whose, _)| whose == owner)
            .and_then(|(_, seq)| self.by_owner.get(owner)?.get(seq))
            .ok_or_else(unknown)
    }

    /// Lets something happen to an owner's task, and gives what is to be done.
    ///
    /// # Errors
    ///
    /// −32602 if the owner has no such task, and whatever the task itself refuses.
    pub fn step(
        &mut self,
        rules: &Rules,
        owner: &Owner,
        id: &TaskId,
        input: Input,
        now: Time,
    ) -> Result<Effects<Effect>, Refusal> {
        let kept = self.find(owner, id)?;
        let Step { state, effects } = task::step(rules, &kept.state, input, now)?;
        let Some((_, seq)) = self.by_id.get(id) else {
            return Err(unknown());
        };
        let Some(shelf) = self.by_owner.get_mut(owner) else {
            return Err(unknown());
        };
        if state == State::Expired {
            shelf.remove(seq);
            if shelf.is_empty() {
                self.by_owner.remove(owner);
            }
            self.by_id.remove(id);
        } else if let Some(kept) = shelf.get_mut(seq)
            && kept.state != state
        {
            kept.state = state;
            kept.updated = now;
        }
        Ok(effects)
    }

    /// A page of an owner's tasks, the newest first: what comes after the cursor, at most 100.
    ///
    /// A cursor stands for a place in the order, so it stays good when the task it was made at is
    /// gone, and tasks that are made meanwhile do not shift the pages.
    ///
    /// # Errors
    ///
    /// −32602 for a cursor that we did not make.
    pub fn list(
        &self,
        owner: &Owner,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<'_>, Refusal> {
        let before = match cursor {
            Some(cursor) => read_cursor(cursor)?,
            None => u64::MAX,
        };
        let limit = limit.clamp(1, MOST);
        let shelf = self.by_owner.get(owner);
        let mut rest = shelf
            .into_iter()
            .flat_map(|shelf| shelf.range(..before).rev());
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let next = rest
            .next()
            .and(page.last())
            .map(|(seq, _)| format!("{seq:016x}"));
        let tasks = page.into_iter().map(|(_, kept)| kept).collect();
        Ok(Page { tasks, next })
    }
}

fn read_cursor(cursor: &str) -> Result<u64, Refusal> {
    let wrong = || Refusal::new(Code::InvalidParams).because("there is no page with this cursor");
    if cursor.len() != 16 || !cursor.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    u64::from_str_radix(cursor, 16).map_err(|_| wrong())
}

fn unknown() -> Refusal {
    Refusal::new(Code::InvalidParams).because("there is no such task")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Finish;

    fn owner(name: &str) -> Owner {
        Owner(name.into())
    }

    fn id(name: &str) -> TaskId {
        TaskId(name.into())
    }

    fn rules(max_unfinished: usize) -> Rules {
        Rules {
            max_unfinished,
            ..Rules::default()
        }
    }

    fn ids(page: &Page<'_>) -> Vec<String> {
        page.tasks
            .iter()
            .map(|kept| kept.id.0.to_string())
            .collect()
    }

    #[test]
    fn the_limit_counts_what_is_unfinished_of_one_owner() {
        let rules = rules(1);
        let (me, you) = (owner("me"), owner("you"));
        let mut tasks = Tasks::default();
        let create = |tasks: &mut Tasks, who: &Owner, name: &str| {
            tasks
                .create(&rules, who, [id(name)], None, Time(0))
                .map_err(|refusal| refusal.code())
        };
        create(&mut tasks, &me, "a").unwrap();
        assert_eq!(
            create(&mut tasks, &me, "b"),
            Err(Code::ConcurrentLimitExceeded)
        );
        create(&mut tasks, &you, "c").unwrap();
        for input in [Input::Start, Input::Finished(Finish::Success)] {
            tasks.step(&rules, &me, &id("a"), input, Time(1)).unwrap();
        }
        assert_eq!(create(&mut tasks, &me, "b"), Ok(id("b")));
    }

    #[test]
    fn an_id_that_is_taken_is_tried_again_three_times() {
        let rules = rules(10);
        let me = owner("me");
        let mut tasks = Tasks::default();
        let offer = |names: &[&str]| names.iter().map(|name| id(name)).collect::<Vec<_>>();
        let mut create = |names: &[&str]| {
            tasks
                .create(&rules, &me, offer(names), None, Time(0))
                .map_err(|refusal| refusal.code())
        };
        create(&["a"]).unwrap();
        assert_eq!(create(&["a", "a", "b"]), Ok(id("b")));
        assert_eq!(create(&["a", "a", "a", "c"]), Err(Code::InternalError));
        assert_eq!(create(&[]), Err(Code::InternalError));
    }

    #[test]
    fn a_task_of_somebody_else_is_no_task() {
        let rules = rules(10);
        let (me, you) = (owner("me"), owner("you"));
        let mut tasks = Tasks::default();
        tasks.create(&rules, &me, [id("a")], None, Time(0)).unwrap();
        assert!(tasks.find(&you, &id("a")).is_err());
        assert!(
            tasks
                .step(&rules, &you, &id("a"), Input::Cancel, Time(1))
                .is_err()
        );
        assert!(tasks.list(&you, None, 10).unwrap().tasks.is_empty());
        assert_eq!(tasks.unfinished(&me), 1);
    }

    #[test]
    fn pages_are_newest_first_and_do_not_shift() {
        let rules = rules(10);
        let me = owner("me");
        let mut tasks = Tasks::default();
        for name in ["a", "b", "c", "d", "e"] {
            tasks
                .create(&rules, &me, [id(name)], None, Time(0))
                .unwrap();
        }
        let first = tasks.list(&me, None, 2).unwrap();
        assert_eq!(ids(&first), ["e", "d"]);
        let cursor = first.next.unwrap();
        tasks.create(&rules, &me, [id("f")], None, Time(1)).unwrap();
        let gone = Time(u64::MAX);
        tasks
            .step(&rules, &me, &id("d"), Input::Tick, gone)
            .unwrap();
        let second = tasks.list(&me, Some(&cursor), 2).unwrap();
        assert_eq!(ids(&second), ["c", "b"]);
        let third = tasks.list(&me, second.next.as_deref(), 2).unwrap();
        assert_eq!(ids(&third), ["a"]);
        assert_eq!(third.next, None);
    }

    #[test]
    fn a_full_last_page_has_no_cursor() {
        let rules = rules(10);
        let me = owner("me");
        let mut tasks = Tasks::default();
        for name in ["a", "b"] {
            tasks
                .create(&rules, &me, [id(name)], None, Time(0))
                .unwrap();
        }
        assert_eq!(tasks.list(&me, None, 2).unwrap().next, None);
        assert!(tasks.list(&me, None, 1).unwrap().next.is_some());
    }

    #[test]
    fn a_page_holds_a_hundred_at_most_and_one_at_least() {
        let rules = rules(1_000);
        let me = owner("me");
        let mut tasks = Tasks::default();
        for n in 0..101 {
            let id = id(&n.to_string());
            tasks.create(&rules, &me, [id], None, Time(0)).unwrap();
        }
        assert_eq!(tasks.list(&me, None, usize::MAX).unwrap().tasks.len(), 100);
        assert_eq!(tasks.list(&me, None, 0).unwrap().tasks.len(), 1);
    }

    #[test]
    fn a_cursor_of_somebody_elses_making_is_refused() {
        let tasks = Tasks::default();
        for cursor in [
            "",
            "x",
            "00000000000000g0",
            "+000000000000001",
            "0",
            &"0".repeat(17),
        ] {
            let refusal = tasks.list(&owner("me"), Some(cursor), 1).unwrap_err();
            assert_eq!(refusal.code(), Code::InvalidParams, "{cursor}");
        }
    }

    #[test]
    fn what_is_deleted_leaves_nothing_behind() {
        let rules = rules(10);
        let me = owner("me");
        let mut tasks = Tasks::default();
        tasks.create(&rules, &me, [id("a")], None, Time(0)).unwrap();
        let effects = tasks
            .step(&rules, &me, &id("a"), Input::Tick, Time(u64::MAX))
            .unwrap();
        assert_eq!(effects, [Effect::Delete]);
        assert!(tasks.by_id.is_empty() && tasks.by_owner.is_empty());
    }

    #[test]
    fn only_a_change_counts_as_one() {
        let rules = rules(10);
        let me = owner("me");
        let mut tasks = Tasks::default();
        tasks.create(&rules, &me, [id("a")], None, Time(0)).unwrap();
        tasks
            .step(&rules, &me, &id("a"), Input::Tick, Time(5))
            .unwrap();
        assert_eq!(tasks.find(&me, &id("a")).unwrap().updated, Time(0));
        tasks
            .step(&rules, &me, &id("a"), Input::Start, Time(7))
            .unwrap();
        let kept = tasks.find(&me, &id("a")).unwrap();
        assert_eq!((kept.created, kept.updated), (Time(0), Time(7)));
    }
}
