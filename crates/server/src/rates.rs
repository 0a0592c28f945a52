//! stub
use crate::principal::Principal;
use interlock_proto::{Refusal, Time};
use std::time::Duration;
/// stub
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {}
pub(crate) struct RateKeeper;
pub(crate) struct Exceeded {
    pub(crate) refusal: Refusal,
    pub(crate) retry_after: Option<Duration>,
}
impl RateKeeper {
    pub(crate) fn new(_: Rates) -> Self {
        Self
    }
    pub(crate) fn check(&self, _: &Principal, _: Time) -> Result<(), Exceeded> {
        Ok(())
    }
}
