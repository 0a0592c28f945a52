//! The answers to a JSON-RPC batch, collected until they are complete.

use crate::{
    outbound::{Route, lock},
    wire::AnswerKind,
};
use interlock_proto::batch::Answers;
use std::sync::{Arc, Mutex};

/// The answers to a batch, which leave together.
#[derive(Debug)]
pub(crate) struct BatchAnswers {
    /// Gone once they have left.
    answers: Mutex<Option<Answers>>,
    route: Route,
}

impl BatchAnswers {
    /// The route of a batch's members; none if no member is answered.
    pub(crate) fn collect(answers: Answers, route: Route) -> Option<Route> {
        if answers.is_complete() {
            return None;
        }
        let answers = Mutex::new(Some(answers));
        Some(Route::Batch(Arc::new(Self { answers, route })))
    }

    /// Where the answers go, and at once what is none.
    pub(super) const fn route(&self) -> &Route {
        &self.route
    }

    pub(super) fn answer(&self, message: &[u8]) {
        self.change(|answers| answers.answered(message));
    }

    pub(super) fn end_unanswered(&self) {
        self.change(Answers::suppressed);
    }

    fn change(&self, change: impl FnOnce(&mut Answers)) {
        let complete = {
            let mut answers = lock(&self.answers);
            if let Some(answers) = answers.as_mut() {
                change(answers);
            }
            answers.take_if(|answers| answers.is_complete())
        };
        let Some(complete) = complete else { return };
        match complete.finish() {
            Some(line) => self.route.answer(AnswerKind::Result, |out| {
                out.extend(line);
                out.push(b'\n');
            }),
            None => self.route.end_unanswered(),
        }
    }
}
