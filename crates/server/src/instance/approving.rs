//! What operators are asked about calls of an instance, and what their answers do.

use super::{Books, Held, Instance, KeepError, Seen, keeping::Writing, operating::Decision};
use crate::{
    approval::{self, ApprovalRequest},
    journal::{Entry, What},
    route::lock,
};
use interlock_proto::{Refusal, Time};
use interlock_workflow::Instance as Run;
use std::sync::Arc;

/// What becomes of what operators are asked when something is written about an instance.
pub(super) enum Asking {
    /// The instance is what it was.
    Stays,
    /// It is not, so whatever was asked or answered is void.
    Void,
    /// It is, and this is asked about it.
    Is(Vec<ApprovalRequest>),
}

/// Why an operator's answer does not count.
#[derive(Debug)]
pub(crate) enum Unanswered {
    Keep(KeepError),
    /// Nobody asks that, or not any more.
    NotAsked,
    /// It was answered otherwise, or is too late.
    Refused(Refusal),
}

impl From<KeepError> for Unanswered {
    fn from(error: KeepError) -> Self {
        Self::Keep(error)
    }
}

impl Seen {
    /// How often the instance has changed, and what operators are asked about it, once this is
    /// written.
    pub(super) fn asking(&self, asking: &Asking) -> (u64, Vec<ApprovalRequest>) {
        match asking {
            Asking::Stays => (self.edition, self.asked.clone()),
            Asking::Void => (self.edition.wrapping_add(1), Vec::new()),
            Asking::Is(asked) => (self.edition, asked.clone()),
        }
    }
}

impl Instance {
    /// How often it has changed.
    pub(crate) fn edition(&self) -> u64 {
        lock(&self.seen).edition
    }
}

impl Held {
    /// Whose turn it is.
    pub(crate) const fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// How often it has changed, and what operators are asked about it.
    pub(crate) fn asked(&self) -> (u64, Vec<ApprovalRequest>) {
        let seen = lock(&self.instance.seen);
        (seen.edition, seen.asked.clone())
    }

    /// Writes a question down for an operator. False: somebody else had written, so judge again.
    pub(crate) async fn ask_operator(
        &self,
        books: &Books<'_>,
        request: ApprovalRequest,
    ) -> Result<Result<bool, Refusal>, KeepError> {
        let mut asked = self.others(&request.id, books.now);
        if asked.len() >= approval::MOST {
            return Ok(Err(approval::too_many()));
        }
        let what = What::Asked {
            kind: request.artifact.kind,
            name: request.artifact.name.clone(),
            question: request.question.clone(),
            approval: Some(request.id.clone()),
        };
        asked.push(request);
        self.write_asked(books, asked, Some(what)).await.map(Ok)
    }

    /// Forgets a question whose time is over. False: somebody else had written, so judge again.
    pub(crate) async fn forget_question(
        &self,
        books: &Books<'_>,
        id: &str,
    ) -> Result<bool, KeepError> {
        let asked = self.others(id, books.now);
        self.write_asked(books, asked, None).await
    }

    /// An operator answers what was asked.
    pub(super) async fn answer(
        &self,
        books: &Books<'_>,
        (id, yes): (&str, bool),
        decision: Decision<'_>,
    ) -> Result<(), Unanswered> {
        let (_, mut asked) = self.asked();
        let request = asked.iter_mut().find(|request| request.id == id);
        let request = request.ok_or(Unanswered::NotAsked)?;
        if !request
            .answer(yes, books.now)
            .map_err(Unanswered::Refused)?
        {
            return Ok(());
        }
        let (kind, name) = (request.artifact.kind, request.artifact.name.clone());
        let approval = Some(request.id.clone());
        let what = if yes {
            What::Approved {
                kind,
                name,
                approval,
            }
        } else {
            What::Denied {
                kind,
                name,
                approval,
                why: approval::Why::Denied.words().to_owned(),
            }
        };
        let (run, calls) = self.as_it_is();
        let writing = Writing {
            what: Some(decision.entry(books.now.0, what).told()),
            asking: Asking::Is(asked),
            ..Writing::unmoved(&run, calls)
        };
        Ok(self.instance.write(books, writing).await?)
    }

    /// What else operators are asked and can still answer, or have answered.
    fn others(&self, id: &str, now: Time) -> Vec<ApprovalRequest> {
        let (_, mut asked) = self.asked();
        asked.retain(|one| one.id != id && one.holds_at(now));
        asked
    }

    async fn write_asked(
        &self,
        books: &Books<'_>,
        asked: Vec<ApprovalRequest>,
        what: Option<What>,
    ) -> Result<bool, KeepError> {
        let (run, calls) = self.as_it_is();
        let writing = Writing {
            what: what.map(|what| Entry::new(books.now.0, None, what).told()),
            asking: Asking::Is(asked),
            ..Writing::unmoved(&run, calls)
        };
        match self.instance.write(books, writing).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_conflict() => {
                self.instance.reload(books).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn as_it_is(&self) -> (Arc<Run>, u64) {
        let seen = lock(&self.instance.seen);
        (Arc::clone(seen.known.run()), seen.calls)
    }
}
