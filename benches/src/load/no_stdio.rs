//! Load over standard input and output, where there are no pipes of Unix: there is none.

use anyhow::{Result, bail};

use super::question::Question;
use super::{Tally, Until};
use crate::child::Pipes;

/// A connection that cannot be made.
pub(crate) enum Client {}

impl Client {
    pub(crate) fn connect(_: Pipes, _: u64) -> Result<Self> {
        bail!("load over stdio needs the pipes of Unix")
    }

    pub(crate) fn run(&mut self, _: &Question, _: Until) -> Result<Tally> {
        match *self {}
    }
}
