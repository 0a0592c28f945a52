//! What operators are asked about calls of an instance, and what their answers do.

use crate::{
    approval_rules::{self, ApprovalRequest, Consent, Means, Next, Why},
    commit::Change,
    error::EngineError,
    instance::CallFacts,
    journal::{Entry, What},
    lock,
    operator::OperatorError,
    orders::{Decision, OrderError},
    reservation::{ApprovalQuestion, ReserveError},
    turn::Turn,
};
use interlock_proto::Time;
use interlock_workflow::{Approval, Artifact, Binding, Facts, Instance as Run};

/// What becomes of open questions to operators when a change is committed.
pub(crate) enum Asked {
    /// The instance is what it was.
    Stays,
    /// It is not, so questions and answers are void.
    Void,
    /// It is, and this is asked about it.
    Is(Vec<ApprovalRequest>),
}

/// Whether a call may run that needs a person's yes.
pub(crate) enum Agreed {
    /// It may. What the journal says about that, if it has not been said.
    Yes(Option<Box<What>>),
    /// The client is to be asked first.
    Ask(ApprovalQuestion),
    /// Another process has written meanwhile: judge again.
    Stale,
}

impl Turn {
    /// Whether a person has agreed to this call of the instance as it is. If not, the client or an
    /// operator is asked, or the call ends.
    pub(crate) async fn agreed<'w>(
        &self,
        call: &CallFacts<'_>,
        (consent, means): (Option<Consent>, Means),
        (run, binding): (&Run, &Binding),
    ) -> Result<Agreed, ReserveError<'w>> {
        let Some(approval) = binding.approval() else {
            return Ok(Agreed::Yes(None));
        };
        let now = self.instance.shared.now();
        // A template may bind more than one resource, and the yes is for one.
        let artifact = Artifact::new(call.kind, call.name);
        let about = (call.principal, &artifact, &call.input().args);
        let (edition, all) = self.asked();
        let this_edition = (&**self.instance.id(), edition);
        let asked = approval_rules::about(&all, about, this_edition);
        match approval_rules::next(consent.as_ref(), asked, means, (edition, now)) {
            Next::Run => {
                // What an operator said was journalled when it was said.
                let approved = consent.map(|_| {
                    Box::new(What::Approved {
                        kind: artifact.kind,
                        name: artifact.name,
                        approval: None,
                    })
                });
                Ok(Agreed::Yes(approved))
            }
            Next::Ask(Means::Operator) => {
                let question = self.question(approval, call, run);
                let holds = approval.expires;
                let request = ApprovalRequest::new(about, this_edition, question, holds, now);
                self.ask_operator(request, run).await
            }
            Next::Ask(means @ (Means::Client | Means::ClientComesBack)) => {
                let text = self.question(approval, call, run);
                self.ask_client(artifact, text, (approval, edition, means))
                    .await
            }
            Next::ComeAgain => {
                let asked = asked.map(|asked| (asked.question.clone(), asked.id.clone()));
                let (question, id) = asked.unwrap_or_default();
                Err(ReserveError::pending(run, question, id, false))
            }
            Next::Refuse(why) if consent.is_some() => {
                self.instance.note_denied(call, why).await?;
                Err(ReserveError::denied(run, why, true))
            }
            Next::Refuse(why) => {
                if let Some(late) = asked.filter(|_| why == Why::Late)
                    && !self.forget_question(&late.id).await?
                {
                    return Ok(Agreed::Stale);
                }
                Err(ReserveError::denied(run, why, false))
            }
        }
    }

    /// The question with its texts filled in.
    fn question(&self, approval: &Approval, call: &CallFacts<'_>, run: &Run) -> String {
        let state = run.position().state;
        approval.question(&Facts {
            args: &call.input().args,
            result: None,
            ctx: run.memory(),
            principal: &call.input().principal,
            state: self.instance.workflow().state_name(state),
            visits: run.visits(state),
        })
    }

    /// The edition of the instance, and what operators are asked about it.
    fn asked(&self) -> (u64, Vec<ApprovalRequest>) {
        let state = lock(&self.instance.state);
        (state.edition, state.asked.clone())
    }

    /// Journals that the client is asked. The asking is the caller's, without the turn.
    async fn ask_client<'w>(
        &self,
        artifact: Artifact,
        text: String,
        (approval, edition, means): (&Approval, u64, Means),
    ) -> Result<Agreed, ReserveError<'w>> {
        let what = What::Asked {
            kind: artifact.kind,
            name: artifact.name,
            question: text.clone(),
            approval: None,
        };
        let entry = Entry::new(self.instance.shared.now().0, None, what);
        // The answer may come to another process.
        self.begin().await?;
        if lock(&self.instance.state).edition != edition {
            return Ok(Agreed::Stale);
        }
        self.instance.note(entry).await?;
        Ok(Agreed::Ask(ApprovalQuestion {
            text,
            edition,
            expires: approval.expires,
            means,
        }))
    }

    /// Stores a question for an operator. The call ends, and is to be repeated.
    async fn ask_operator<'w>(
        &self,
        request: ApprovalRequest,
        run: &Run,
    ) -> Result<Agreed, ReserveError<'w>> {
        let mut asked = self.others(&request.id);
        if asked.len() >= approval_rules::MOST {
            return Err(ReserveError::TooManyApprovals(approval_rules::too_many()));
        }
        let (question, id) = (request.question.clone(), request.id.clone());
        let what = What::Asked {
            kind: request.artifact.kind,
            name: request.artifact.name.clone(),
            question: question.clone(),
            approval: Some(id.clone()),
        };
        asked.push(request);
        match self.store_asked(asked, Some(what)).await? {
            true => Err(ReserveError::pending(run, question, id, true)),
            false => Ok(Agreed::Stale),
        }
    }

    /// Forgets a question whose time is over. False: another process has written, so judge again.
    async fn forget_question(&self, id: &str) -> Result<bool, EngineError> {
        self.store_asked(self.others(id), None).await
    }

    /// Commits an operator's answer.
    pub(crate) async fn answer(
        &self,
        (id, yes): (&str, bool),
        decision: Decision<'_>,
    ) -> Result<(), OrderError> {
        let now = self.instance.shared.now();
        let (_, mut asked) = self.asked();
        let request = asked.iter_mut().find(|request| request.id == id);
        let instance = || self.instance.id().to_string();
        let not_asked = || OperatorError::NotAsked(instance());
        let request = request.ok_or_else(|| OrderError::Refused(not_asked()))?;
        let refused = |refusal| {
            let id = instance();
            OrderError::Refused(OperatorError::Decided { id, refusal })
        };
        if !request.answer(yes, now).map_err(refused)? {
            return Ok(());
        }
        let (kind, name) = (request.artifact.kind, request.artifact.name.clone());
        let approval = Some(request.id.clone());
        let what = match yes {
            true => What::Approved {
                kind,
                name,
                approval,
            },
            false => What::Denied {
                kind,
                name,
                approval,
                why: Why::Denied.words().to_owned(),
            },
        };
        let entry = decision.entry(now.0, what);
        Ok(self.commit_asked(asked, Some(entry)).await?)
    }

    /// What else operators are asked and can still answer, or have answered.
    fn others(&self, id: &str) -> Vec<ApprovalRequest> {
        let now: Time = self.instance.shared.now();
        let (_, mut asked) = self.asked();
        asked.retain(|one| one.id != id && one.holds_at(now));
        asked
    }

    async fn store_asked(
        &self,
        asked: Vec<ApprovalRequest>,
        what: Option<What>,
    ) -> Result<bool, EngineError> {
        let now = self.instance.shared.now().0;
        let entry = what.map(|what| Entry::new(now, None, what));
        match self.commit_asked(asked, entry).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_conflict() => {
                self.instance.reload().await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Commits what operators are asked. Nothing else changes.
    async fn commit_asked(
        &self,
        asked: Vec<ApprovalRequest>,
        entry: Option<Entry>,
    ) -> Result<(), EngineError> {
        let run = self.instance.run();
        let change = Change {
            entry: entry.map(Entry::into),
            asked: Asked::Is(asked),
            ..Change::none(&run)
        };
        self.instance.commit(change).await
    }
}
