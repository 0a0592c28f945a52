//! Ids that cannot be guessed, and the instances that are in memory.

use super::*;
use crate::testing::{World, flow, refuse};
use std::{collections::HashSet, time::Duration};

#[test]
fn an_id_is_random_safe_in_urls_and_of_its_principal() {
    let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
    let ids: HashSet<_> = (0..1_000).map(|_| mint(&alice).unwrap()).collect();
    assert_eq!(ids.len(), 1_000);
    for id in &ids {
        let safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        assert!(id.bytes().all(safe), "{id}");
        assert!(may_be_of(&alice, id), "{id}");
        assert!(!may_be_of(&bob, id), "{id}");
        assert!(!may_be_of(&Principal::anonymous(), id), "{id}");
    }
}

#[test]
fn a_principal_called_anonymous_does_not_share_handles_with_nobody() {
    let (called, nobody) = (Principal::new("anonymous"), Principal::anonymous());
    assert!(!may_be_of(&nobody, &mint(&called).unwrap()));
    assert!(!may_be_of(&called, &mint(&nobody).unwrap()));
}

#[test]
fn what_is_no_id_is_of_nobody() {
    let nobody = Principal::anonymous();
    let id = mint(&nobody).unwrap();
    for wrong in [
        String::new(),
        PREFIX.to_owned(),
        prefix(&nobody),
        id[..id.len() - 1].to_owned(),
        format!("{id}x"),
        format!("{}\n", &id[..id.len() - 1]),
        id.to_uppercase(),
        "global:desk".to_owned(),
    ] {
        assert!(!may_be_of(&nobody, &wrong), "{wrong:?}");
    }
}

fn new(process: &Arc<Shared>, id: &str) -> Arc<Instance> {
    Instance::new(process, id.into(), None)
}

#[test]
fn instances_of_one_id_are_one_while_it_goes_on() {
    let process = World::durable(flow()).process();
    let registry = &process.registry;
    let first = registry.share(new(&process, "i"));
    assert!(Arc::ptr_eq(&registry.share(new(&process, "i")), &first));
    assert!(registry.get("j").is_none());
    lock(&first.state).ended = true;
    let second = registry.share(new(&process, "i"));
    assert!(!Arc::ptr_eq(&first, &second));
    // The first one does not take the second along.
    drop(first);
    let found = registry.get("i").unwrap();
    assert!(Arc::ptr_eq(&found, &second));
    drop((found, second));
    assert!(lock(&registry.live).is_empty());
}

#[test]
fn an_instance_behind_a_handle_is_not_taken_for_one_without() {
    let process = World::durable(flow()).process();
    let shared = process.shared_instance("i");
    let lease = Lease::new(Principal::anonymous(), Duration::ZERO);
    let leased = process.leased_instance("i", lease);
    assert!(leased.is_leased() && !shared.is_leased());
}

/// Only instances that are not in use leave memory, and not before their entries are stored.
#[test]
fn of_too_many_instances_those_go_that_were_not_used_for_longest() {
    let process = World::durable(flow()).process();
    let registry = &process.registry;
    let keep = |number: usize| {
        let now = Time(number as u64);
        registry.keep(new(&process, &number.to_string()), now)
    };
    let used = keep(0);
    refuse(&keep(1));
    for number in 2..MOST_RECENT {
        drop(keep(number));
    }
    assert!(
        registry.recent("2", Time(u64::MAX)).is_some(),
        "it is used once more"
    );
    drop(keep(MOST_RECENT));
    assert_eq!(lock(&registry.recent).len(), MOST_RECENT / 2 + 1);
    let mut is_kept = |number: usize| lock(&registry.recent).contains_key(&*number.to_string());
    let kept = [0, 1, 2, 3, MOST_RECENT / 2, MOST_RECENT - 1, MOST_RECENT];
    assert_eq!(
        kept.map(&mut is_kept),
        [true, true, true, false, false, true, true]
    );
    drop(used);
    registry.clear();
    assert!(lock(&registry.recent).is_empty());
}

#[test]
fn handles_are_looked_after_eight_times_as_often_as_they_expire() {
    let world = World::durable(flow());
    let pause = |idle| {
        let limits = crate::engine::Limits {
            handle_idle: idle,
            ..Default::default()
        };
        world
            .process_with(|builder| builder.limits(limits))
            .sweep_pause()
    };
    assert_eq!(pause(Duration::from_secs(80)), 10_000);
    assert_eq!(pause(Duration::ZERO), 1_000);
    assert_eq!(pause(Duration::MAX), 3_600_000);
}
