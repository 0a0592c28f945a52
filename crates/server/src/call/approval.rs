//! How a call gets a person's yes, if its binding wants one.
//!
//! The engine decides what a yes is worth. Here the client is asked, and what it says is brought to
//! the reservation.

use crate::{
    call::{Call, Stop, reserve},
    context::{
        channel::PendingQuestion,
        client::{Caller, Way},
        multi_round::{APPROVAL, SealedApproval},
    },
    model::elicitation::{AskError, Form, Question, read_consent},
    wire::refusal::CallRefusal,
};
use interlock_engine::{Answer, ApprovalQuestion, Consent, Instance, Means, Why, sleep_until};
use interlock_proto::{Ability, Code, Refusal, Time, Version, invocation::Input};
use interlock_workflow::{Position, Workflow};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// Handlers number their questions from one on.
const NUMBER: u64 = 0;

/// What a call knows of the yes that it needs.
#[derive(Default)]
pub(super) struct Approving {
    /// What its client said.
    consent: Option<Consent>,
    /// Its client cannot be asked after all, so an operator is.
    cannot_ask: bool,
    /// What is sealed if its client has to come back.
    pub(super) sealed: Option<SealedApproval>,
}

/// Asks the client, without the turn. Then the call tries again to reserve its instance.
pub(super) async fn ask_client(call: &mut Call, asked: ApprovalQuestion) -> Result<(), Stop> {
    let clock = Arc::clone(&call.core.clock);
    let until = clock.now() + asked.expires;
    let instance = call.instance().cloned();
    let id = instance.as_ref().map(|instance| instance.id().to_string());
    call.approving().sealed = Some(SealedApproval {
        instance: id.unwrap_or_default(),
        edition: asked.edition,
        until: until.0,
        agreed: false,
    });
    let question = form(&asked.text, call.shared.caller.version);
    let (sender, answer) = oneshot::channel();
    let link = call
        .link()
        .filter(|_| asked.means == Means::Client)
        .cloned();
    let Some(link) = link else {
        call.conversation().questions.push(PendingQuestion {
            number: NUMBER,
            key: APPROVAL.to_owned(),
            question,
            answer: sender,
        });
        return Err(Stop::ComeBack);
    };
    let said = match link.ask(&question, sender, &call.route) {
        Err((refusal, _)) => Err(AskError::NotNow(refusal)),
        Ok(ask) => {
            call.conversation().asks.insert(NUMBER, ask);
            // The queue's clock stands still while a person is asked.
            call.step(Input::Wait);
            let answer = async {
                tokio::select! {
                    biased;
                    answer = answer => answer.unwrap_or(Err(AskError::Ended)),
                    () = sleep_until(&*clock, Some(until)) => Err(AskError::Late),
                }
            };
            let said = call.wait_for(answer).await?;
            call.conversation().asks.remove(&NUMBER);
            link.withdraw(ask, &call.route);
            said
        }
    };
    let answered = answered(call, instance.as_ref(), said, (asked.edition, until)).await;
    call.step(Input::Resume);
    Ok(answered?)
}

/// What the client's answer means to the call.
async fn answered(
    call: &mut Call,
    instance: Option<&Arc<Instance>>,
    said: Result<Value, AskError>,
    (edition, until): (u64, Time),
) -> Result<(), CallRefusal> {
    let said = match said.and_then(|said| read(said).map_err(AskError::Invalid)) {
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
            call.approving().cannot_ask = true;
            return Ok(());
        }
    };
    match (said, instance) {
        (Ok(()), _) => {
            call.approving().consent = Some(Consent {
                edition,
                until,
                answer: Answer::Yes,
            });
            Ok(())
        }
        (Err(_), None) => Err(Refusal::new(Code::ApprovalDenied).into()),
        // The journal says so before the model is told.
        (Err(why), Some(instance)) => {
            let noted = instance.note_denied(&call.facts(), why).await;
            noted.map_err(|error| reserve::unsaved(call, &error))?;
            let at = instance.position();
            Err(denied(call, (instance.workflow(), at), why))
        }
    }
}

/// The call has begun, and the yes is used up. If its handler lets the client come back with
/// answers, the person need not be asked again, unless the instance has changed by then; but the
/// yes holds no longer for that.
pub(super) fn used(call: &mut Call, instance: &Arc<Instance>, expires: Duration) {
    let id = instance.id();
    let until = match consent(call.approving.as_deref(), &call.shared.caller, id) {
        Some(consent) => consent.until,
        None => call.core.clock.now() + expires,
    };
    call.approving().sealed = Some(SealedApproval {
        instance: id.to_string(),
        edition: instance.edition(),
        until: until.0,
        agreed: true,
    });
}

/// What the caller brings to the reservation.
pub(super) fn consent(
    approving: Option<&Approving>,
    caller: &Caller,
    instance: &str,
) -> Option<Consent> {
    if let Some(consent) = approving.and_then(|approving| approving.consent.clone()) {
        return Some(consent);
    }
    match &caller.way {
        Way::Alone { round, .. } => {
            let (sealed, answers) = round.approval()?;
            consent_of(sealed, instance, answers.get(APPROVAL))
        }
        Way::Session(_) => None,
    }
}

/// What the client has brought back for a call of this instance.
fn consent_of(sealed: &SealedApproval, instance: &str, said: Option<&Value>) -> Option<Consent> {
    if sealed.instance != instance {
        return None;
    }
    let answer = match sealed.agreed {
        true => Answer::Yes,
        // What cannot be read is asked again, as if it had not been answered.
        false => read(said?.clone()).ok()?,
    };
    Some(Consent {
        edition: sealed.edition,
        until: Time(sealed.until),
        answer,
    })
}

/// Reads what the client sent.
fn read(said: Value) -> Result<Answer, String> {
    use crate::model::ElicitationAction;
    Ok(match read_consent(said)?.action {
        ElicitationAction::Accept => Answer::Yes,
        ElicitationAction::Decline => Answer::No,
        // What the protocol may come to know some day is no yes.
        ElicitationAction::Cancel | _ => Answer::Dismissed,
    })
}

/// How a person can be asked about this call.
pub(super) fn means(approving: Option<&Approving>, caller: &Caller) -> Means {
    let cannot_ask = approving.is_some_and(|approving| approving.cannot_ask);
    if cannot_ask || caller.can(Ability::Form).is_err() {
        return Means::Operator;
    }
    match caller.way {
        Way::Session(_) => Means::Client,
        Way::Alone { .. } => Means::ClientComesBack,
    }
}

/// A form with nothing to fill in. To accept it is to agree.
fn form(question: &str, version: Version) -> Question {
    let nothing = json!({ "type": "object", "properties": {} });
    let nothing = nothing.as_object().cloned().unwrap_or_default();
    let form = Form::new(question, nothing);
    Question::form(&form, version).expect("a form without fields is one in every version")
}

/// The call is to be repeated once an operator has approved it.
pub(super) fn pending(
    call: &Call,
    at: (&Workflow, Position),
    (question, id): (&str, &str),
) -> CallRefusal {
    let text = format!(
        "an operator must approve this call first: {question} Repeat the same call once it is \
         approved."
    );
    let refusal = (Code::ApprovalPending, text);
    CallRefusal::unapproved(at, call.start.kind, refusal, Some(id))
}

/// No person has agreed to the call.
pub(super) fn denied(call: &Call, at: (&Workflow, Position), why: Why) -> CallRefusal {
    let text = format!("the call was not approved: {}.", why.words());
    CallRefusal::unapproved(at, call.start.kind, (Code::ApprovalDenied, text), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_of_one_instance_and_needs_an_answer_unless_it_has_one() {
        let sealed = |agreed| SealedApproval {
            instance: "i".to_owned(),
            edition: 2,
            until: 9,
            agreed,
        };
        let said = |action: &str| json!({ "action": action });
        let answer = |sealed: &SealedApproval, instance: &str, said: Option<&Value>| {
            consent_of(sealed, instance, said).map(|consent| consent.answer)
        };
        let asked = sealed(false);
        assert_eq!(answer(&asked, "i", None), None);
        assert_eq!(
            answer(&asked, "i", Some(&said("accept"))),
            Some(Answer::Yes)
        );
        assert_eq!(
            answer(&asked, "i", Some(&said("decline"))),
            Some(Answer::No)
        );
        assert_eq!(answer(&asked, "i", Some(&said("maybe"))), None);
        assert_eq!(answer(&asked, "j", Some(&said("accept"))), None);
        assert_eq!(answer(&sealed(true), "i", None), Some(Answer::Yes));
        assert_eq!(answer(&sealed(true), "j", None), None);
    }
}
