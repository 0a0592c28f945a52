//! Sessions: an owner, a stranger, two requests at once, three clocks.

use super::{Exhaustive, Modelled, Moment, Notes, always, check, millis, sometimes};
use interlock_proto::{
    Code, Time,
    session::{Effect, Input, Ledger, Rules, State, Who, Why},
};
use stateright::Property;
use std::time::Duration;

const RULES: Rules = Rules {
    unused: millis(10),
    idle: millis(10),
    life: millis(40),
    max_running: 2,
};

impl Modelled for Rules {
    type Memory = ();
    const TIMES: &'static [u64] = &[0, 9, 10, 19, 20, 30, 39, 40, 50];
    const LONGEST: Duration = millis(40);

    fn must_end(state: &State, ledger: &Ledger) -> bool {
        match state {
            State::Created { .. } | State::Idle { .. } => true,
            State::Active { .. } => ledger.running() == 0,
            State::Cleanup | State::Destroyed => false,
        }
    }

    fn judge(notes: &mut Notes<()>, moment: &Moment<'_, Self>) {
        let (before, after) = (&moment.before.state, &moment.after.state);
        let running = moment.before.ledger.running();
        let destroyed = matches!(moment.input, Input::Destroy(Who::Owner));
        let served = moment.orders(|effect| *effect == Effect::Serve);
        let over = matches!(before, State::Cleanup | State::Destroyed);
        notes.deny(
            "only its owner ends it while requests run",
            running > 0
                && matches!(before, State::Active { .. })
                && !matches!(after, State::Active { .. })
                && !destroyed,
        );
        notes.deny(
            "a stranger changes nothing",
            matches!(
                moment.input,
                Input::Begin(Who::Stranger) | Input::Destroy(Who::Stranger)
            ) && *moment.outcome != Err(Code::SessionInvalid),
        );
        notes.deny(
            "every request fails once it has ended",
            over && matches!(moment.input, Input::Begin(_) | Input::Read | Input::Write)
                && moment.outcome.is_ok(),
        );
        notes.deny(
            "one in use gives way to nothing",
            matches!(moment.input, Input::GiveWay)
                && matches!(before, State::Active { .. })
                && before != after,
        );
        notes.deny(
            "nothing is served after its life",
            served && moment.after.now >= Time(40),
        );
        notes.deny(
            "it is saved before it leaves memory",
            matches!(after, State::Idle { .. })
                && before != after
                && moment.effects() != [Effect::Save, Effect::Unload],
        );
        notes.deny(
            "no more requests run than may",
            moment.after.ledger.running() > RULES.max_running,
        );
        notes.deny(
            "it is deleted when it ends",
            *after == State::Cleanup
                && before != after
                && !moment.orders(|effect| *effect == Effect::Delete),
        );
        let ended = |why| moment.effects().contains(&Effect::Record(why));
        for (example, is_one) in [
            ("nobody ever uses it", ended(Why::Unused)),
            ("its life is over", ended(Why::Expired)),
            ("it gives way to another", ended(Why::GaveWay)),
            (
                "it is destroyed while a request runs",
                ended(Why::Destroyed) && running > 0,
            ),
            (
                "it comes back from the store",
                moment.effects() == [Effect::Load, Effect::Serve],
            ),
            (
                "too many requests run",
                *moment.outcome == Err(Code::QueueCapExceeded),
            ),
            ("it is gone", *after == State::Destroyed && before != after),
        ] {
            notes.show(example, is_one);
        }
    }

    fn properties() -> Vec<Property<Exhaustive<Self>>> {
        vec![
            always!("only its owner ends it while requests run"),
            always!("a stranger changes nothing"),
            always!("every request fails once it has ended"),
            always!("one in use gives way to nothing"),
            always!("nothing is served after its life"),
            always!("it is saved before it leaves memory"),
            always!("no more requests run than may"),
            always!("it is deleted when it ends"),
            sometimes!("nobody ever uses it"),
            sometimes!("its life is over"),
            sometimes!("it gives way to another"),
            sometimes!("it is destroyed while a request runs"),
            sometimes!("it comes back from the store"),
            sometimes!("too many requests run"),
            sometimes!("it is gone"),
        ]
    }
}

#[test]
fn every_session() {
    check(RULES, 250);
}
