//! The declared edges are those that `step` has, and the diagrams in the docs show them.
//!
//! `UPDATE_DIAGRAMS=1 cargo test -p interlock-proto` rewrites the files.

use interlock_proto::{
    Time,
    connection::Connection,
    elicitation::Elicitation,
    invocation::Invocation,
    machine::{Machine, mermaid, walk},
    negotiation::Negotiation,
    session::Session,
    subscription::Subscription,
    task::Task,
};
use std::{collections::BTreeSet, path::Path};

/// Before and after every deadline there is by default, the second round included.
pub(crate) const TIMES: [Time; 4] = [Time(0), Time(1_000_000), Time(3_000_000), Time(200_000_000)];

#[track_caller]
fn check<M: Machine>() {
    let found = walk::<M>(&TIMES);
    let declared: BTreeSet<_> = M::EDGES.iter().copied().collect();
    assert_eq!(found, declared, "{}: found on the left", M::NAME);

    let drawn = mermaid::<M>(&found);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/diagrams")
        .join(M::NAME)
        .with_extension("mmd");
    if std::env::var_os("UPDATE_DIAGRAMS").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored,
        drawn,
        "{} is out of date: run UPDATE_DIAGRAMS=1 cargo test -p interlock-proto",
        path.display()
    );
}

#[test]
fn the_connection_diagram_is_current() {
    check::<Connection>();
}

#[test]
fn the_negotiation_diagram_is_current() {
    check::<Negotiation>();
}

#[test]
fn the_invocation_diagram_is_current() {
    check::<Invocation>();
}

#[test]
fn the_session_diagram_is_current() {
    check::<Session>();
}

#[test]
fn the_subscription_diagram_is_current() {
    check::<Subscription>();
}

#[test]
fn the_task_diagram_is_current() {
    check::<Task>();
}

#[test]
fn the_elicitation_diagram_is_current() {
    check::<Elicitation>();
}
