//! What holds for any parameters that a client may send to come to terms.

use interlock_proto::{
    Ability, Params, Time, Version,
    era::{self, Capability, Era, modern},
    negotiation::{Effect, Input, Offer, Rules, State, step},
};
use serde_json::{Value, value::RawValue};
use std::collections::BTreeSet;

/// Reading never panics, and what is kept of it is small. A request counts as modern only if its
/// `_meta` says so, and an offer that was read can be agreed on.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
        return;
    };
    let params = Params::new(raw);
    if let Ok(Some(said)) = modern(Some(&params)) {
        // Raw JSON may hold what no value can, such as 1e999.
        if let Ok(whole) = serde_json::from_slice::<Value>(bytes) {
            let meta = &whole["_meta"];
            assert_eq!(
                meta["io.modelcontextprotocol/protocolVersion"],
                said.version.as_str()
            );
            assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
        }
        assert!(Version::STATELESS.contains(&said.version));
        check_abilities(said.capabilities, said.version);
    }
    if let Ok(offer) = Offer::read(Some(&params)) {
        assert_eq!(offer.version.era(), Era::Handshake);
        let client: Vec<_> = offer.client.iter().copied().collect();
        check_capabilities(&client);
        assert!(offer.unsupported.len() <= 16);
        let texts = offer.unsupported.iter().chain([&offer.client_name]);
        assert!(texts.into_iter().all(|text| text.chars().count() <= 129));
        check_agreement(offer);
    }
}

/// Who can do a part of something said that it can do something.
fn check_abilities(capabilities: &RawValue, version: Version) {
    let can = |ability: Ability| ability.is_declared(capabilities, version);
    for part in [Ability::SamplingTools, Ability::SamplingContext] {
        assert!(!can(part) || can(Ability::Sampling));
    }
    assert!(Ability::ALL.into_iter().any(can) || era::declared(capabilities).is_some());
}

fn check_capabilities(client: &[Capability]) {
    let distinct: BTreeSet<_> = client.iter().collect();
    assert_eq!(distinct.len(), client.len());
    assert!(client.iter().all(|c| Capability::OF_CLIENTS.contains(c)));
}

fn check_agreement(offer: Offer) {
    let version = offer.version;
    let negotiating = step(
        &Rules::default(),
        &State::NotNegotiated,
        Input::Offer(offer),
        Time(0),
    )
    .unwrap();
    let have = Input::Have(BTreeSet::from([Capability::Tools]));
    let agreed = step(&Rules::default(), &negotiating.state, have, Time(1)).unwrap();
    let Some(Effect::Answer(agreement)) = agreed.effects.first() else {
        panic!("no answer: {agreed:?}");
    };
    assert_eq!(agreement.version, version);
}
