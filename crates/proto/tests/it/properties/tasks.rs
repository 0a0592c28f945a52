//! The collection of tasks, against a list that is kept by hand.

use super::millis;
use crate::subject::Subject;
use interlock_proto::{
    Code, Time,
    task::{Input, Rules},
    tasks::{Owner, TaskId, Tasks},
};
use proptest::prelude::*;
use std::ops::Range;

const RULES: Rules = Rules {
    retries: 1,
    ttl: Some(millis(100)),
    poll_interval: millis(10),
    max_unfinished: 3,
};

#[derive(Clone, Debug)]
enum Act {
    Create {
        owner: Owner,
        ids: Vec<TaskId>,
    },
    Step {
        owner: Owner,
        id: TaskId,
        input: Input,
    },
    Wait(u64),
}

fn owner() -> impl Strategy<Value = Owner> {
    prop::sample::select(vec!["me", "you"]).prop_map(|name| Owner(name.into()))
}

fn id(among: Range<u8>) -> impl Strategy<Value = TaskId> {
    among.prop_map(|n| TaskId(n.to_string().into()))
}

/// Some acts; tasks are made with these ids.
fn acts(most: usize, ids: Range<u8>) -> impl Strategy<Value = Vec<Act>> {
    let create = (owner(), prop::collection::vec(id(ids), 0..5))
        .prop_map(|(owner, ids)| Act::Create { owner, ids });
    let step = (owner(), id(0..24), prop::sample::select(RULES.inputs()))
        .prop_map(|(owner, id, input)| Act::Step { owner, id, input });
    let wait = (0..40_u64).prop_map(Act::Wait);
    let act = prop_oneof![3 => create, 4 => step, 1 => wait];
    prop::collection::vec(act, 0..most)
}

/// The tasks, and who made which of them, oldest first.
#[derive(Default)]
struct World {
    tasks: Tasks,
    made: Vec<(Owner, TaskId)>,
    now: Time,
}

impl World {
    fn act(&mut self, act: Act) {
        match act {
            Act::Wait(pause) => self.now = self.now + millis(pause),
            Act::Create { owner, ids } => self.create(&owner, &ids),
            Act::Step { owner, id, input } => self.step(&owner, &id, input),
        }
        for owner in ["me", "you"].map(|name| Owner(name.into())) {
            assert!(self.tasks.unfinished(&owner) <= RULES.max_unfinished);
            for limit in [1, 2, 100] {
                assert_eq!(self.pages(&owner, limit), self.newest_first(&owner));
            }
        }
    }

    fn create(&mut self, owner: &Owner, ids: &[TaskId]) {
        let full = self.tasks.unfinished(owner) >= RULES.max_unfinished;
        let taken = |id: &&TaskId| self.made.iter().any(|(_, made)| made == *id);
        let free = ids.iter().take(3).find(|id| !taken(id)).cloned();
        let made = self
            .tasks
            .create(&RULES, owner, ids.iter().cloned(), None, self.now)
            .map_err(|refusal| refusal.code());
        match made {
            Ok(id) => {
                assert!(!full);
                assert_eq!(Some(&id), free.as_ref());
                self.made.push((owner.clone(), id));
            }
            Err(Code::ConcurrentLimitExceeded) => assert!(full),
            Err(code) => assert_eq!((code, free, full), (Code::InternalError, None, false)),
        }
    }

    fn step(&mut self, owner: &Owner, id: &TaskId, input: Input) {
        let before = self.tasks.find(owner, id).cloned();
        let known = self.made.contains(&(owner.clone(), id.clone()));
        assert_eq!(
            before.is_ok(),
            known,
            "found ⇔ made by this owner and not deleted"
        );
        let outcome = self.tasks.step(&RULES, owner, id, input, self.now);
        if !known {
            assert_eq!(outcome.unwrap_err().code(), Code::InvalidParams);
        } else if outcome.is_err() {
            assert_eq!(self.tasks.find(owner, id).cloned(), before);
        } else if self.tasks.find(owner, id).is_err() {
            self.made.retain(|(_, made)| made != id);
        }
    }

    fn newest_first(&self, owner: &Owner) -> Vec<TaskId> {
        let own = self.made.iter().rev().filter(|(whose, _)| whose == owner);
        own.map(|(_, id)| id.clone()).collect()
    }

    fn pages(&self, owner: &Owner, limit: usize) -> Vec<TaskId> {
        let mut ids = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.tasks.list(owner, cursor.as_deref(), limit).unwrap();
            assert!(page.tasks.len() <= limit);
            assert!(page.next.is_none() || page.tasks.len() == limit);
            ids.extend(page.tasks.iter().map(|kept| kept.id.clone()));
            match page.next {
                Some(next) => cursor = Some(next),
                None => return ids,
            }
        }
    }
}

proptest! {
    #[test]
    fn limits_ids_owners_and_pages_hold(acts in acts(40, 0..12)) {
        let mut world = World::default();
        for act in acts {
            world.act(act);
        }
    }

    #[test]
    fn a_cursor_stays_good_whatever_happens_meanwhile(
        before in acts(40, 0..12),
        meanwhile in acts(20, 12..24),
        limit in 1..3_usize,
    ) {
        let me = Owner("me".into());
        let mut world = World::default();
        for act in before {
            world.act(act);
        }
        let page = world.tasks.list(&me, None, limit).unwrap();
        let Some(cursor) = page.next else { return Ok(()) };
        let older = world.newest_first(&me).split_off(page.tasks.len());
        for act in meanwhile {
            world.act(act);
        }
        let mut rest = Vec::new();
        let mut next = Some(cursor);
        while let Some(cursor) = next {
            let page = world.tasks.list(&me, Some(&cursor), limit).unwrap();
            rest.extend(page.tasks.iter().map(|kept| kept.id.clone()));
            next = page.next;
        }
        // What is left of the older ones comes, in its order, and nothing that was made since.
        let left = older.into_iter().filter(|id| world.tasks.find(&me, id).is_ok());
        assert_eq!(rest, left.collect::<Vec<_>>());
    }

    #[test]
    fn a_cursor_is_ours_or_refused(cursor in ".{0,20}") {
        let tasks = Tasks::default();
        let ours = cursor.len() == 16 && cursor.bytes().all(|byte| byte.is_ascii_hexdigit());
        let listed = tasks.list(&Owner("me".into()), Some(&cursor), 1);
        assert_eq!(listed.is_ok(), ours);
    }
}
