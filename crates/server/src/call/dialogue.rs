//! What a handler says before its result, and what becomes of it.

use super::Running;
use crate::{
    ask::AskError,
    caller::Way,
    voice::{Asking, Progress, Word},
    wire,
};
use interlock_proto::{AskId, invocation::Input};
use std::collections::{BTreeMap, VecDeque};

/// What a handler says before its result.
#[derive(Default)]
pub(super) struct Dialogue {
    pub(super) words: VecDeque<Word>,
    /// The last progress that was told, and one that is to be told.
    pub(super) reached: Option<f64>,
    pub(super) progress: Option<Progress>,
    /// What the client is being asked, by the handler's numbers.
    pub(super) asks: BTreeMap<u64, AskId>,
    /// What the client has to come back with.
    pub(super) questions: Vec<Asking>,
}

impl Running {
    pub(super) fn dialogue(&mut self) -> &mut Dialogue {
        self.dialogue.get_or_insert_default()
    }

    /// Whether there is anything left of what the handler said, as far as `part` of it goes.
    pub(super) fn is_left(&self, part: impl FnOnce(&Dialogue) -> bool) -> bool {
        self.dialogue.as_deref().is_some_and(part)
    }

    /// What the handler said, and what that means to the machine.
    pub(super) fn hear(&mut self, word: Word) -> Option<Input> {
        match word {
            Word::Progress(progress) => {
                let dialogue = self.dialogue();
                let reached = dialogue.reached;
                if reached.is_some_and(|reached| progress.progress <= reached) {
                    return None;
                }
                dialogue.progress = Some(progress);
                Some(Input::Progress)
            }
            Word::Log(log) => {
                self.route.say(|out| wire::log(out, &log));
                None
            }
            Word::Ask(asking) => self.ask(asking),
            Word::HangUp => {
                self.route.hang_up();
                None
            }
            Word::Settled(number) => {
                let dialogue = self.dialogue();
                dialogue.questions.retain(|asking| asking.number != number);
                let ask = dialogue.asks.remove(&number)?;
                let was_last = dialogue.asks.is_empty();
                if let Way::Session(peer) = &self.shared.caller.way {
                    peer.withdraw(ask, &self.route);
                }
                was_last.then_some(Input::Resume)
            }
        }
    }

    fn ask(&mut self, asking: Asking) -> Option<Input> {
        match &self.shared.caller.way {
            Way::Alone { .. } => {
                self.dialogue().questions.push(asking);
                None
            }
            Way::Session(peer) => {
                let Asking {
                    number,
                    question,
                    answer,
                    ..
                } = asking;
                match peer.ask(&question, answer, &self.route) {
                    Ok(ask) => {
                        let asks = &mut self.dialogue().asks;
                        let first = asks.is_empty();
                        asks.insert(number, ask);
                        first.then_some(Input::Wait)
                    }
                    Err((refusal, answer)) => {
                        let _ = answer.send(Err(AskError::NotNow(refusal)));
                        None
                    }
                }
            }
        }
    }

    pub(super) fn forward(&mut self) {
        let Some(dialogue) = &mut self.dialogue else {
            return;
        };
        let progress = dialogue.progress.take();
        if let Some((progress, token)) = progress.zip(self.shared.caller.progress.as_ref()) {
            dialogue.reached = Some(progress.progress);
            self.route.say(|out| wire::progress(out, token, &progress));
        }
    }
}
