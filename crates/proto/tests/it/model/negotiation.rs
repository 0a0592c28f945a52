//! Negotiations: two offers, two sets of capabilities, one clock.

use super::{Exhaustive, Modelled, Moment, Notes, always, check, sometimes};
use crate::subject::{Subject, Terms};
use interlock_proto::{
    Code,
    era::Method,
    negotiation::{Effect, Input, State},
};
use stateright::Property;
use std::time::Duration;

impl Modelled for Terms {
    type Memory = ();
    const TIMES: &'static [u64] = &[0, 4_999, 5_000, 9_999, 10_000];
    const LONGEST: Duration = Duration::from_secs(5);

    fn choices(&self) -> Vec<Input> {
        let wanted = [
            Method::Ping,
            Method::ToolsList,
            Method::TasksGet,
            Method::Discover,
        ];
        self.inputs()
            .into_iter()
            .filter(|input| !matches!(input, Input::Call(method) if !wanted.contains(method)))
            .collect()
    }

    fn must_end(state: &State, (): &()) -> bool {
        matches!(state, State::Negotiating { .. })
    }

    fn judge(notes: &mut Notes<()>, moment: &Moment<'_, Self>) {
        let (before, after) = (&moment.before.state, &moment.after.state);
        let served = moment.orders(|effect| matches!(effect, Effect::Serve(_)));
        notes.deny(
            "nothing is served before the negotiation is complete",
            served && before.agreement().is_none(),
        );
        notes.deny(
            "a call changes nothing",
            matches!(moment.input, Input::Call(_)) && before != after,
        );
        notes.deny(
            "what is agreed on is not negotiated again",
            before.agreement().is_some()
                && (after.agreement().is_none()
                    || before.agreement().map(|terms| terms.version)
                        != after.agreement().map(|terms| terms.version)),
        );
        notes.deny(
            "what is unsupported is kept and blocks nothing",
            after
                .agreement()
                .is_some_and(|terms| terms.unsupported.len() != 1),
        );
        notes.show("a call is served", served);
        notes.show(
            "a call comes too early",
            *moment.outcome == Err(Code::ServerUninitialized),
        );
        notes.show(
            "a call has no owner",
            matches!(moment.input, Input::Call(_)) && *moment.outcome == Err(Code::ProtocolError),
        );
        notes.show(
            "the server is not ready in time",
            moment.orders(|effect| matches!(effect, Effect::Fail(_))),
        );
        notes.show(
            "the server changes",
            moment.orders(|effect| matches!(effect, Effect::Changed(_))),
        );
        notes.show(
            "the client confirms",
            matches!(after, State::Active(_)) && before != after,
        );
    }

    fn properties() -> Vec<Property<Exhaustive<Self>>> {
        vec![
            always!("nothing is served before the negotiation is complete"),
            always!("a call changes nothing"),
            always!("what is agreed on is not negotiated again"),
            always!("what is unsupported is kept and blocks nothing"),
            sometimes!("a call is served"),
            sometimes!("a call comes too early"),
            sometimes!("a call has no owner"),
            sometimes!("the server is not ready in time"),
            sometimes!("the server changes"),
            sometimes!("the client confirms"),
        ]
    }
}

#[test]
fn every_negotiation() {
    check(Terms, 100);
}
