//! How a call gets a person's yes, if its binding wants one.

use super::{Running, turn::Halt, waiting::Waiting};
use crate::{
    approval::{self, Answer, ApprovalRequest, Consent, KEY, Means, Next, Sealed, Why},
    ask::{AskError, Question},
    caller::Way,
    clock,
    convert::{self, No},
    instance::Held,
    journal::{Entry, What},
    voice::Asking,
};
use futures_util::FutureExt;
use interlock_proto::{Ability, Code, Time, invocation::Input};
use interlock_workflow::{Approval, Artifact, Binding, Facts, Instance as Run, Workflow};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Handlers number their questions from one on.
const NUMBER: u64 = 0;

/// What a call knows of the yes that it needs.
#[derive(Default)]
pub(super) struct Approving {
    /// What its client said.
    consent: Option<Consent>,
    /// Its client cannot be asked after all.
    unasked: bool,
    /// What is sealed if its client has to come back.
    pub(super) sealed: Option<Sealed>,
}

/// A question that the client is to be asked.
pub(super) struct Request {
    question: Question,
    edition: u64,
    expires: Duration,
    means: Means,
}

/// What a call may do with the turn it has.
pub(super) enum Agreed {
    /// It may run; and what the journal has to say of that.
    Yes(Option<Box<What>>),
    /// Somebody else had written, so it is judged again.
    Stale,
}

impl Running {
    /// Whether a person has agreed to this call of the instance as it is. If not, somebody is asked,
    /// or the call ends.
    pub(super) async fn agreed(
        &mut self,
        workflow: &Workflow,
        held: &Held,
        (run, binding): (&Run, &Binding),
    ) -> Result<Agreed, Halt> {
        let Some(approval) = binding.approval() else {
            return Ok(Agreed::Yes(None));
        };
        let inner = Arc::clone(self.inner());
        let books = inner.books(workflow);
        // A template may bind more than one resource, and the yes is for one.
        let artifact = &Artifact::new(self.kind, &*self.name);
        let made = self.made.clone().unwrap_or_default();
        let principal = self.shared.caller.principal.clone();
        let call = (&principal, artifact, &made.args);
        let (edition, asked) = held.asked();
        let asked = approval::about(&asked, call);
        let consent = self.consent(held.instance().id());
        let means = self.means();
        let now = (edition, books.now);
        let question = || {
            approval.question(&Facts {
                args: &made.args,
                result: None,
                ctx: run.memory(),
                principal: &made.principal,
                state: workflow.state_name(run.position().state),
                visits: run.visits(run.position().state),
            })
        };
        match approval::next(consent.as_ref(), asked, means, now) {
            Next::Run => {
                let approved = What::Approved {
                    kind: artifact.kind,
                    name: artifact.name.clone(),
                    approval: None,
                };
                // What an operator said was written down when it was said.
                Ok(Agreed::Yes(consent.map(|_| Box::new(approved))))
            }
            Next::Ask(Means::Operator) => {
                let request = ApprovalRequest::new(call, question(), approval.expires, books.now);
                let (question, id) = (request.question.clone(), request.id.clone());
                let written = held.ask_operator(&books, request).await;
                match written.map_err(|error| self.unsaved(error))? {
                    Ok(true) => Err(self.pending(workflow, run, (&question, &id)).into()),
                    Ok(false) => Ok(Agreed::Stale),
                    Err(refusal) => Err(No::from(refusal).into()),
                }
            }
            Next::Ask(means @ (Means::Client | Means::ClientComesBack)) => {
                let text = question();
                let question = approval::form(&text, self.shared.caller.version);
                let asked = What::Asked {
                    kind: artifact.kind,
                    name: artifact.name.clone(),
                    question: text,
                    approval: None,
                };
                let entry = Entry::new(books.now.0, None, asked);
                // Another server may be the one to which the answer comes.
                let begun = held.begin(books).await;
                begun.map_err(|error| self.unsaved(error))?;
                if held.instance().edition() != edition {
                    return Ok(Agreed::Stale);
                }
                let noted = held.instance().note(&books, entry).await;
                noted.map_err(|error| self.unsaved(error))?;
                Err(Halt::Ask(Box::new(Request {
                    question,
                    edition,
                    expires: approval.expires,
                    means,
                })))
            }
            Next::ComeAgain => {
                let asked = asked.map(|asked| (&*asked.question, &*asked.id));
                let no = self.pending(workflow, run, asked.unwrap_or_default());
                self.journal_refusal(&no);
                Err(no.into())
            }
            Next::Refuse(why) if consent.is_some() => Err(self.refused_by_client(why).await.into()),
            Next::Refuse(why) => {
                if let Some(late) = asked.filter(|_| why == Why::Late) {
                    let forgotten = held.forget_question(&books, &late.id).await;
                    if !forgotten.map_err(|error| self.unsaved(error))? {
                        return Ok(Agreed::Stale);
                    }
                }
                let no = self.denied(workflow, run, why);
                self.journal_refusal(&no);
                Err(no.into())
            }
        }
    }

    /// The call has begun, and whatever allowed it is used up. If its handler lets its client come
    /// back with answers, it need not be asked again, unless the instance has changed by then; but
    /// the yes holds no longer for that.
    pub(super) fn used(&mut self, approval: &Approval, edition: u64, now: Time) {
        let Some(instance) = self.shared.instance() else {
            return;
        };
        let instance = instance.id().to_string();
        let consent = self.consent(&instance);
        let until = consent.map_or(now + approval.expires, |consent| consent.until);
        let until = until.0;
        self.approving().sealed = Some(Sealed {
            instance,
            edition,
            until,
            agreed: true,
        });
    }

    /// Asks the client, now that nobody's turn is held up by that.
    pub(super) fn ask_client(&mut self, request: Request) -> Input {
        let Request {
            question,
            edition,
            expires,
            means,
        } = request;
        // Whoever waits for a person must not keep a place from others.
        self.permit = None;
        let clock = Arc::clone(&self.inner().clock);
        let until = clock.now() + expires;
        let instance = self.shared.instance();
        let instance = instance.map_or_else(String::new, |instance| instance.id().to_string());
        let sealed = Sealed {
            instance,
            edition,
            until: until.0,
            agreed: false,
        };
        self.approving().sealed = Some(sealed);
        let (sender, answer) = oneshot::channel();
        match &self.shared.caller.way {
            Way::Session(peer) if means == Means::Client => {
                let asked = match peer.ask(&question, sender, &self.route) {
                    Ok(ask) => {
                        self.dialogue().asks.insert(NUMBER, ask);
                        async move {
                            tokio::select! {
                                biased;
                                answer = answer => answer.unwrap_or(Err(AskError::Ended)),
                                () = clock::sleep_until(&*clock, Some(until)) => Err(AskError::Late),
                            }
                        }
                        .boxed()
                    }
                    Err((refusal, _)) => std::future::ready(Err(AskError::NotNow(refusal))).boxed(),
                };
                self.waiting = Waiting::Consent(asked);
                Input::Wait
            }
            Way::Session(_) | Way::Alone { .. } => {
                self.dialogue().questions.push(Asking {
                    number: NUMBER,
                    key: KEY.to_owned(),
                    question,
                    answer: sender,
                });
                Input::Asked
            }
        }
    }

    /// The client has answered, or will not: what that means to the call.
    pub(super) async fn answered(&mut self, answer: Result<Value, AskError>) -> Result<(), No> {
        if let Some(ask) = self.dialogue().asks.remove(&NUMBER)
            && let Way::Session(peer) = &self.shared.caller.way
        {
            peer.withdraw(ask, &self.route);
        }
        let answer = answer.and_then(|answer| Answer::read(answer).map_err(AskError::Invalid));
        let said = match answer {
            Ok(answer) => Result::from(answer),
            Err(AskError::Late | AskError::Ended) => Err(Why::Late),
            Err(
                error @ (AskError::NotDeclared(_)
                | AskError::NotNow(_)
                | AskError::Failed { .. }
                | AskError::Invalid(_)
                | AskError::NotAQuestion(_)),
            ) => {
                tracing::debug!(%error, "a client could not be asked, so an operator is");
                self.approving().unasked = true;
                return Ok(());
            }
        };
        let approving = self.approving();
        if let (Ok(()), Some(sealed)) = (said, &approving.sealed) {
            approving.consent = Some(Consent {
                edition: sealed.edition,
                until: Time(sealed.until),
                answer: Answer::Yes,
            });
            return Ok(());
        }
        Err(self
            .refused_by_client(said.err().unwrap_or(Why::Late))
            .await)
    }

    /// A person has not agreed, and the journal says so before the model is told.
    async fn refused_by_client(&mut self, why: Why) -> No {
        let inner = Arc::clone(self.inner());
        let (Some(workflow), Some(instance)) = (&inner.workflow, self.shared.instance()) else {
            return No::from(interlock_proto::Refusal::new(Code::ApprovalDenied));
        };
        let books = inner.books(workflow);
        let what = What::Denied {
            kind: self.kind,
            name: self.name.clone().into_owned(),
            approval: None,
            why: why.words().to_owned(),
        };
        let (instance, entry) = (Arc::clone(instance), Entry::new(books.now.0, None, what));
        if let Err(error) = instance.note(&books, entry).await {
            return self.unsaved(error);
        }
        self.denied(workflow, &instance.run(), why)
    }

    /// What the caller brings to its turn.
    fn consent(&self, instance: &str) -> Option<Consent> {
        let approving = self.approving.as_deref();
        if let Some(consent) = approving.and_then(|approving| approving.consent.clone()) {
            return Some(consent);
        }
        match &self.shared.caller.way {
            Way::Alone { round, .. } => round.consent(instance),
            Way::Session(_) => None,
        }
    }

    /// How a person can be asked about this call.
    fn means(&self) -> Means {
        let caller = &self.shared.caller;
        let approving = self.approving.as_deref();
        let unasked = approving.is_some_and(|approving| approving.unasked);
        if unasked || caller.can(Ability::Form).is_err() {
            return Means::Operator;
        }
        match caller.way {
            Way::Session(_) => Means::Client,
            Way::Alone { .. } => Means::ClientComesBack,
        }
    }

    fn approving(&mut self) -> &mut Approving {
        self.approving.get_or_insert_default()
    }

    fn pending(&self, workflow: &Workflow, run: &Run, (question, id): (&str, &str)) -> No {
        let text = format!(
            "an operator must approve this call first: {question} Repeat the same call once it is \
             approved."
        );
        convert::unapproved(
            (workflow, run.position()),
            self.kind,
            (Code::ApprovalPending, text),
            Some(id),
        )
    }

    fn denied(&self, workflow: &Workflow, run: &Run, why: Why) -> No {
        let text = format!("the call was not approved: {}.", why.words());
        convert::unapproved(
            (workflow, run.position()),
            self.kind,
            (Code::ApprovalDenied, text),
            None,
        )
    }

    fn journal_refusal(&self, no: &No) {
        if let Some(instance) = self.shared.instance() {
            let said = (no.refusal.code().number(), no.refusal.message());
            let now = self.inner().clock.now();
            instance.refused(now, self.kind, &self.name, said);
        }
    }
}
