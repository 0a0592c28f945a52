//! What holds whatever happens, tried with random inputs at random times.
//!
//! 256 cases each; `PROPTEST_CASES=10000 cargo test -p interlock-proto properties` tries more.

mod connection;
mod elicitation;
mod frames;
mod invocation;
mod negotiation;
mod session;
mod subscription;
mod task;
mod tasks;

use crate::subject::{EffectOf, InputOf, Life, Subject};
use interlock_proto::{Code, Time};
use proptest::prelude::*;
use std::time::Duration;

/// What happened, and how long after what happened before.
type Story<I> = Vec<(u64, I)>;

/// One thing that happened, and what came of it.
struct Moment<'a, S: Subject> {
    before: &'a Life<S>,
    input: &'a InputOf<S>,
    outcome: &'a Result<Vec<EffectOf<S>>, Code>,
    after: &'a Life<S>,
}

/// Plays a story, checks what holds for every machine, and lets `watch` check what holds for this.
fn live<S: Subject>(
    subject: S,
    story: Story<InputOf<S>>,
    mut watch: impl FnMut(Moment<'_, S>),
) -> Life<S> {
    let mut life = Life::new(subject);
    life.check_clock();
    for (pause, input) in story {
        life.now = life.now + Duration::from_millis(pause);
        life.check_clock();
        life.check_duplicate(&input);
        let before = life.clone();
        let outcome = life.play(input.clone());
        if outcome.is_err() {
            assert!(life.is_same_as(&before), "a refusal changed something");
        }
        watch(Moment {
            before: &before,
            input: &input,
            outcome: &outcome,
            after: &life,
        });
        life.check_clock();
    }
    life
}

/// Plays a story whose times are anything, the end of time included.
fn survive<S: Subject>(subject: S, story: Story<InputOf<S>>) {
    let mut life = Life::new(subject);
    for (pause, input) in story {
        life.now = Time(life.now.0.saturating_add(pause));
        // Neither outcome matters: it came back, and `play` has checked it.
        let _ = life.play(input);
    }
}

/// A story of these inputs, for deadlines of about `unit` times a hundred milliseconds.
fn story<I: Clone + std::fmt::Debug + 'static>(
    inputs: Vec<I>,
    unit: u64,
) -> impl Strategy<Value = Story<I>> {
    let pause = prop_oneof![
        4 => Just(0),
        4 => 1..=10_u64,
        3 => 11..=120_u64,
        1 => Just(99_u64),
        1 => Just(100_u64),
        1 => 1_000..100_000_u64,
    ];
    let moment = (
        pause.prop_map(move |pause| pause * unit),
        prop::sample::select(inputs),
    );
    prop::collection::vec(moment, 0..50)
}

/// As a story, with steps of any length.
fn wild_story<I: Clone + std::fmt::Debug + 'static>(
    inputs: Vec<I>,
) -> impl Strategy<Value = Story<I>> {
    prop::collection::vec((any::<u64>(), prop::sample::select(inputs)), 0..20)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
