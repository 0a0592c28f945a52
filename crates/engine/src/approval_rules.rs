//! A person's yes before a call runs: who is asked, what an answer is worth, and for how long.
//!
//! A yes is for one call of one instance as it was when the question was put: whatever is written
//! about the instance after that, a call that begins or a step that is taken, makes it void. So it
//! works once. The person is asked through the client where the client can do that; where it
//! cannot, the question is written down with the instance, and an operator answers it.
//!
//! Nothing here waits or writes: `approval_asking.rs` keeps what operators are asked, and the caller of
//! the engine asks clients.

use crate::{
    digest::{hex, request_digest, shortened},
    principal::Principal,
};
use interlock_proto::{
    Code, Refusal, Time,
    elicitation::{self, End, Input, Rules, Who},
};
use interlock_workflow::{Artifact, Shortened};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// How many calls of one instance can wait for an operator.
pub(crate) const MOST: usize = 16;

/// What is larger than this, an operator is shown in a shortened form, in bytes of JSON.
const MOST_ARGUMENTS: usize = 8 * 1024;

/// A call that waits for an operator's yes, or has got an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// Names this question and no other one: not of another instance, nor of this one once it has
    /// changed. It is the same if the same call is repeated.
    pub id: String,
    /// What is called.
    pub artifact: Artifact,
    /// What the operator is asked.
    pub question: String,
    /// What it is called with; nothing if that is too large to be shown whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// What is shown instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortened: Option<Shortened>,
    /// Who calls; null if nobody knows.
    pub principal: Value,
    /// When it was asked, in milliseconds since the epoch.
    pub at: u64,
    /// Whether it was answered.
    pub standing: Standing,
    /// How long the question, and then its answer, holds, in milliseconds.
    pub holds: u64,
}

/// What has become of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nobody has answered. After `until`, nobody can.
    Pending {
        /// In milliseconds since the epoch.
        until: u64,
    },
    /// The same call may run once before `until`.
    Approved {
        /// In milliseconds since the epoch.
        until: u64,
    },
    /// The same call is refused until `until`.
    Denied {
        /// In milliseconds since the epoch.
        until: u64,
    },
}

impl ApprovalRequest {
    /// A question that is put now.
    pub(crate) fn new(
        call: (&Principal, &Artifact, &Value),
        edition: (&str, u64),
        question: String,
        holds: Duration,
        now: Time,
    ) -> Self {
        let (principal, artifact, args) = call;
        let shortened = shortened(args, MOST_ARGUMENTS);
        Self {
            id: approval_id(call, edition),
            artifact: artifact.clone(),
            question,
            args: shortened.is_none().then(|| args.clone()),
            shortened,
            principal: principal.facts(),
            at: now.0,
            standing: Standing::Pending {
                until: (now + holds).0,
            },
            holds: u64::try_from(holds.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// When nothing is left of it any more.
    pub(crate) const fn holds_until(&self) -> Time {
        let (Standing::Pending { until }
        | Standing::Approved { until }
        | Standing::Denied { until }) = self.standing;
        Time(until)
    }

    /// Whether there is anything left of it.
    pub(crate) const fn holds_at(&self, now: Time) -> bool {
        now.0 < self.holds_until().0
    }

    /// Whether an operator can still answer it.
    pub(crate) const fn is_pending(&self, now: Time) -> bool {
        matches!(self.standing, Standing::Pending { .. }) && self.holds_at(now)
    }

    /// An operator answers. The first answer wins: the same again is fine, another is refused, and
    /// so is one that comes too late. Whether anything has changed.
    pub(crate) fn answer(&mut self, yes: bool, now: Time) -> Result<bool, Refusal> {
        let holds = Duration::from_millis(self.holds);
        let rules = Rules {
            ttl: holds,
            cleanup: holds,
        };
        let state = match self.standing {
            Standing::Pending { until } => elicitation::State::Pending {
                expires: Time(until),
            },
            Standing::Approved { until } => ended(End::Completed(YES), until),
            Standing::Denied { until } => ended(End::Declined, until),
        };
        let input = if yes {
            Input::Complete(Who::Asked, YES)
        } else {
            Input::Decline(Who::Asked)
        };
        let step = elicitation::step(&rules, &state, input, now)?;
        let elicitation::State::Ended { end, forget_at } = step.state else {
            return Ok(false);
        };
        let until = forget_at.0;
        self.standing = match end {
            End::Completed(_) => Standing::Approved { until },
            End::Declined | End::Cancelled | End::Expired => Standing::Denied { until },
        };
        Ok(!step.effects.is_empty())
    }
}

/// What an operator who agrees has answered.
const YES: elicitation::Answer = elicitation::Answer(1);

const fn ended(end: End, until: u64) -> elicitation::State {
    elicitation::State::Ended {
        end,
        forget_at: Time(until),
    }
}

/// The same for the same call of the same caller on the same edition of the same instance, and for
/// nothing else: who answers a question by its id answers what was shown.
fn approval_id(
    (principal, artifact, args): (&Principal, &Artifact, &Value),
    (instance, edition): (&str, u64),
) -> String {
    let kind = artifact.kind.to_string();
    let call = request_digest(principal, &kind, &artifact.name, args.as_object());
    let digest = Sha256::new()
        .chain_update(call)
        .chain_update(edition.to_be_bytes())
        .chain_update(instance)
        .finalize();
    let (short, _) = digest.split_at(digest.len() / 2);
    hex(short)
}

/// Finds the question about a call among those of its instance.
pub(crate) fn about<'a>(
    asked: &'a [ApprovalRequest],
    call: (&Principal, &Artifact, &Value),
    edition: (&str, u64),
) -> Option<&'a ApprovalRequest> {
    if asked.is_empty() {
        return None;
    }
    let id = approval_id(call, edition);
    asked.iter().find(|one| one.id == id)
}

/// What a person said to a client's question, and of which instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Consent {
    /// The edition of the instance for which the question was put.
    pub edition: u64,
    /// Until when the answer is worth something.
    pub until: Time,
    /// The answer.
    pub answer: Answer,
}

/// What a person does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The person agrees.
    Yes,
    /// The person does not.
    No,
    /// The person has looked away.
    Dismissed,
}

/// How a person can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Through the client, while the call waits.
    Client,
    /// Through the client, which comes back with the answer.
    ClientComesBack,
    /// By writing the question down for an operator.
    Operator,
}

/// What a call that needs a yes does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It runs: a person has agreed.
    Run,
    /// Somebody is asked.
    Ask(Means),
    /// It ends: an operator has been asked and has not answered.
    ComeAgain,
    /// It ends.
    Refuse(Why),
}

/// Why nobody has agreed to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A person said no.
    Denied,
    /// The person closed the question.
    Dismissed,
    /// Nobody answered in time, or the answer was not used in time.
    Late,
    /// The instance is not what it was when the question was put.
    Moved,
}

impl From<Answer> for Result<(), Why> {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Yes => Ok(()),
            Answer::No => Err(Why::Denied),
            Answer::Dismissed => Err(Why::Dismissed),
        }
    }
}

impl Why {
    /// In words, for the model and the journal.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Denied => "a person said no",
            Self::Dismissed => "the person who was asked dismissed the question",
            Self::Late => "nobody agreed in time; call again to ask again",
            Self::Moved => {
                "the workflow has moved on since the question was put; call again to ask again"
            }
        }
    }
}

/// What a call does next whose instance has changed `edition` times, and what it comes with: the
/// answer that its client brought, and the question that an operator was asked about it.
pub(crate) fn next(
    consent: Option<&Consent>,
    asked: Option<&ApprovalRequest>,
    means: Means,
    (edition, now): (u64, Time),
) -> Next {
    if let Some(consent) = consent {
        let refused = match Result::from(consent.answer) {
            Ok(()) if consent.edition != edition => Err(Why::Moved),
            Ok(()) if now >= consent.until => Err(Why::Late),
            answer @ (Ok(()) | Err(_)) => answer,
        };
        return refused.map_or_else(Next::Refuse, |()| Next::Run);
    }
    let Some(asked) = asked else {
        return Next::Ask(means);
    };
    match (asked.standing, asked.holds_at(now)) {
        (Standing::Approved { .. }, true) => Next::Run,
        (Standing::Pending { .. }, true) => Next::ComeAgain,
        (Standing::Denied { .. }, true) => Next::Refuse(Why::Denied),
        (Standing::Approved { .. } | Standing::Pending { .. }, false) => Next::Refuse(Why::Late),
        (Standing::Denied { .. }, false) => Next::Ask(means),
    }
}

/// There are too many questions already.
pub(crate) fn too_many() -> Refusal {
    Refusal::new(Code::QuotaExceeded).because(format!(
        "{MOST} calls of this workflow wait for an operator already; wait for one to be decided"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_workflow::Kind;
    use serde_json::json;

    const NOW: Time = Time(1_000);
    const HERE: (&str, u64) = ("instance", 7);

    fn asked_with(args: &Value) -> ApprovalRequest {
        let (alice, pay) = (Principal::new("alice"), Artifact::new(Kind::Tool, "pay"));
        let holds = Duration::from_millis(100);
        ApprovalRequest::new((&alice, &pay, args), HERE, "Pay?".to_owned(), holds, NOW)
    }

    fn asked() -> ApprovalRequest {
        asked_with(&json!({"amount": 5}))
    }

    fn next_of(asked: &ApprovalRequest, now: u64) -> Next {
        next(None, Some(asked), Means::Operator, (0, Time(now)))
    }

    #[test]
    fn a_question_that_nobody_put_is_put_as_well_as_it_can_be() {
        for means in [Means::Client, Means::ClientComesBack, Means::Operator] {
            assert_eq!(next(None, None, means, (7, NOW)), Next::Ask(means));
        }
    }

    #[test]
    fn what_a_client_brings_counts_for_the_instance_as_it_was_and_in_time() {
        let consent = |answer| Consent {
            edition: 3,
            until: Time(2_000),
            answer,
        };
        let of = |answer, edition, now| {
            let consent = consent(answer);
            next(Some(&consent), None, Means::Client, (edition, Time(now)))
        };
        assert_eq!(of(Answer::Yes, 3, 1_999), Next::Run);
        assert_eq!(of(Answer::Yes, 3, 2_000), Next::Refuse(Why::Late));
        assert_eq!(of(Answer::Yes, 4, 1_000), Next::Refuse(Why::Moved));
        assert_eq!(of(Answer::No, 3, 1_000), Next::Refuse(Why::Denied));
        assert_eq!(
            of(Answer::Dismissed, 3, 1_000),
            Next::Refuse(Why::Dismissed)
        );
    }

    #[test]
    fn an_operators_yes_holds_for_as_long_as_the_question_did() {
        let mut asked = asked();
        assert_eq!(next_of(&asked, 1_099), Next::ComeAgain);
        assert_eq!(next_of(&asked, 1_100), Next::Refuse(Why::Late));
        assert_eq!(asked.answer(true, Time(1_050)), Ok(true));
        assert_eq!(next_of(&asked, 1_149), Next::Run);
        assert_eq!(next_of(&asked, 1_150), Next::Refuse(Why::Late));
    }

    #[test]
    fn an_operators_no_holds_for_a_while_and_then_it_may_be_asked_again() {
        let mut asked = asked();
        assert_eq!(asked.answer(false, Time(1_050)), Ok(true));
        assert_eq!(next_of(&asked, 1_149), Next::Refuse(Why::Denied));
        assert_eq!(next_of(&asked, 1_150), Next::Ask(Means::Operator));
    }

    #[test]
    fn the_first_answer_wins() {
        let mut once = asked();
        assert_eq!(once.answer(true, Time(1_010)), Ok(true));
        assert_eq!(once.answer(true, Time(1_020)), Ok(false));
        let other = once.answer(false, Time(1_020)).unwrap_err();
        assert_eq!(other.code(), Code::EntityDuplicate);
        assert_eq!(once.standing, Standing::Approved { until: 1_110 });
        let late = asked().answer(true, Time(1_100)).unwrap_err();
        assert_eq!(late.code(), Code::Timeout);
    }

    #[test]
    fn a_question_is_about_one_call_of_one_caller() {
        let all = [asked()];
        let pay = Artifact::new(Kind::Tool, "pay");
        let five = json!({"amount": 5});
        let found = |who: &str, what: &Artifact, args: &Value| {
            about(&all, (&Principal::new(who), what, args), HERE).is_some()
        };
        assert!(found("alice", &pay, &five));
        assert!(!found("bob", &pay, &five));
        assert!(!found("alice", &pay, &json!({"amount": 6})));
        assert!(!found("alice", &pay, &json!({"amount": 5.0})));
        assert!(!found("alice", &pay, &Value::Null));
        assert!(!found("alice", &Artifact::new(Kind::Prompt, "pay"), &five));
        assert!(!found("alice", &Artifact::new(Kind::Tool, "pay2"), &five));
    }

    #[test]
    fn a_question_has_another_id_in_another_instance_and_in_another_edition() {
        let (alice, pay) = (Principal::new("alice"), Artifact::new(Kind::Tool, "pay"));
        let id = |edition| approval_id((&alice, &pay, &Value::Null), edition);
        assert_eq!(id(HERE), id(HERE));
        assert_ne!(id(HERE), id(("other", 7)));
        assert_ne!(id(HERE), id(("instance", 8)));
    }

    #[test]
    fn arguments_that_are_too_large_are_shown_shortened_and_told_apart() {
        let [one, other] = ["x", "y"].map(|text| json!({"text": text.repeat(MOST_ARGUMENTS)}));
        let [one, other] = [&one, &other].map(asked_with);
        assert_eq!((&one.args, &other.args), (&None, &None));
        let [a, b] = [&one, &other].map(|one| one.shortened.as_ref().unwrap());
        assert_eq!(
            (a.bytes, b.bytes),
            (MOST_ARGUMENTS + 11, MOST_ARGUMENTS + 11)
        );
        assert!(a.begins.starts_with(r#"{"text":"xxx"#) && a.sha256 != b.sha256);
        assert_ne!(one.id, other.id);
    }

    #[test]
    fn a_question_can_be_answered_until_it_was_or_its_time_is_over() {
        let mut asked = asked();
        assert!(asked.is_pending(Time(1_099)));
        assert!(!asked.is_pending(Time(1_100)));
        asked.answer(false, Time(1_050)).unwrap();
        assert!(asked.holds_at(Time(1_149)) && !asked.is_pending(Time(1_149)));
    }

    #[test]
    fn why_nobody_agreed_is_said_in_different_words() {
        let all = [Why::Denied, Why::Dismissed, Why::Late, Why::Moved].map(Why::words);
        let different: std::collections::BTreeSet<_> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
        let asks_again = |words: &&&str| words.ends_with("call again to ask again");
        assert_eq!(all.iter().filter(asks_again).count(), 2);
    }
}
