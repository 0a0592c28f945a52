//! What a state asks the client's model, and what follows: decided here, done in
//! `call/sampling.rs`.

use crate::{
    api::Reply,
    context::multi_round::FinalAnswer,
    model::{
        elicitation as ask,
        elicitation::{AskError, Question},
    },
    wire::result::Answer,
};
use interlock_proto::{Ability, Code, Refusal, RpcCode};
use interlock_workflow::{Instance, Kind, Role, Sampling, Workflow};
use serde_json::{Value, json};

/// How the client of a call can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Over its connection, while its call waits.
    Here,
    /// By telling it to come back.
    ComesBack,
    /// Not at all.
    Unable(Refusal),
    /// It has taken the call back.
    TookBack,
    /// The server ends, and waits for nobody.
    Ending,
}

impl Reach {
    /// Why the client cannot be asked, if it cannot.
    pub(crate) fn obstacle(&self) -> Option<String> {
        match self {
            Self::Here | Self::ComesBack => None,
            Self::Unable(refusal) => Some(refusal.message().to_owned()),
            Self::TookBack => Some("the client took the call back".to_owned()),
            Self::Ending => Some("the server is shutting down".to_owned()),
        }
    }
}

/// What is done about a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The client is asked, and waited for.
    Ask,
    /// The client is told to come back with the answer.
    ComeBack,
    /// There is no answer, for this reason.
    Fail(String),
    /// Nobody is asked, for this reason: the instance waits where it is.
    Leave(String),
}

/// What is done about a question, after so many others in the same call.
pub(crate) fn next(asked: usize, reach: Reach) -> Next {
    if asked >= Sampling::MOST_IN_ONE_CALL {
        return Next::Leave(format!(
            "the client's model was asked {asked} times in one call, and is not asked again"
        ));
    }
    match reach {
        Reach::Here => Next::Ask,
        Reach::ComesBack => Next::ComeBack,
        Reach::Unable(_) | Reach::TookBack | Reach::Ending => {
            Next::Fail(reach.obstacle().unwrap_or_default())
        }
    }
}

/// What the state of an instance asks, with its texts filled in.
pub(crate) fn question(
    workflow: &Workflow,
    instance: &Instance,
    principal: &Value,
) -> Option<Question> {
    let state = workflow.state(instance.position().state);
    let sampling = state.sampling()?;
    let facts = workflow.facts(instance, &Value::Null, principal);
    let messages = sampling.messages().iter().map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        json!({ "role": role, "content": { "type": "text", "text": message.text.fill(&facts) } })
    });
    let mut params = json!({
        "messages": messages.collect::<Vec<_>>(),
        "maxTokens": sampling.max_tokens(),
    });
    if let Some(system) = sampling.system() {
        params["systemPrompt"] = system.fill(&facts).into();
    }
    Some(Question {
        ability: Ability::Sampling,
        method: "sampling/createMessage",
        params: Some(params),
    })
}

/// What the client said, if that is an answer; else why not.
pub(crate) fn answer(said: Result<Value, AskError>) -> Result<Value, String> {
    let said = said.map_err(|error| match error {
        AskError::Ended => "the client is gone".to_owned(),
        error @ (AskError::NotDeclared(_)
        | AskError::NotNow(_)
        | AskError::Failed { .. }
        | AskError::Invalid(_)
        | AskError::Late
        | AskError::NotAQuestion(_)) => error.to_string(),
    })?;
    match ask::read_sample(said.clone()) {
        Ok(_) => Ok(said),
        Err(why) => Err(AskError::Invalid(why).to_string()),
    }
}

/// A client comes back with something for which nobody waits.
pub(crate) fn spent() -> Refusal {
    Refusal::new(Code::InvalidParams).because(
        "`requestState` has been used, or the workflow waits for it no longer; the call has been \
         served, so look where the workflow stands before you make another",
    )
}

/// By which name a client that comes back knows the question: another one for each.
pub(crate) fn key(asked: usize) -> String {
    format!("dev.interlock/sampling-{asked}")
}

impl FinalAnswer {
    /// What is kept of an answer. `None` if it is none that could be kept.
    pub(crate) fn of(answer: &Answer) -> Option<Self> {
        match answer {
            Answer::Result(reply, _) => Self::of_reply(reply),
            Answer::Error(code, error) => Some(Self::Error(code.0, error.clone())),
            Answer::Asks(_) => None,
        }
    }

    pub(crate) fn of_reply(reply: &Reply) -> Option<Self> {
        serde_json::to_value(reply).ok().map(Self::Result)
    }

    /// The same as it was before it was kept.
    pub(crate) fn restored(self, kind: Kind) -> Result<Reply, Lapsed> {
        let result = match self {
            Self::Error(code, error) => return Err(Lapsed::Error(RpcCode(code), error)),
            Self::Result(result) => result,
        };
        let reply = match kind {
            Kind::Tool => serde_json::from_value(result).map(|raw| Reply::Raw(Box::new(raw))),
            Kind::Resource => {
                serde_json::from_value(result).map(|read| Reply::Resource(Box::new(read)))
            }
            Kind::Prompt => serde_json::from_value(result).map(|got| Reply::Prompt(Box::new(got))),
        };
        reply.map_err(|_| Lapsed::Unreadable)
    }
}

/// What a call is answered with that has no result.
#[derive(Debug)]
pub(crate) enum Lapsed {
    /// With this error.
    Error(RpcCode, Value),
    /// Nobody knows: what was kept is not what was given.
    Unreadable,
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_proto::Version;
    use interlock_workflow::{End, Outcome, Pass, end, to};

    const MOST: usize = Sampling::MOST_IN_ONE_CALL;

    #[test]
    fn whoever_can_be_asked_is_asked_in_its_own_way() {
        for asked in 0..MOST {
            assert_eq!(next(asked, Reach::Here), Next::Ask);
            assert_eq!(next(asked, Reach::ComesBack), Next::ComeBack);
        }
    }

    #[test]
    fn there_is_no_answer_of_whoever_cannot_be_asked() {
        let unable = Refusal::missing_capability(Ability::Sampling, Version::V2025_11_25);
        for reach in [Reach::Unable(unable), Reach::TookBack, Reach::Ending] {
            assert!(matches!(next(0, reach), Next::Fail(why) if !why.is_empty()));
        }
    }

    #[test]
    fn after_so_many_questions_nobody_is_asked_whoever_it_is() {
        let unable = Refusal::new(Code::ProtocolError);
        for reach in [
            Reach::Here,
            Reach::ComesBack,
            Reach::Unable(unable),
            Reach::TookBack,
            Reach::Ending,
        ] {
            assert!(matches!(next(MOST, reach), Next::Leave(why) if why.contains("8 times")));
        }
    }

    fn flow() -> Workflow {
        Workflow::builder("w")
            .state("new", |s| {
                let asked = to("asked").set("order", "'A-1'");
                s.initial().tool("go", |t| t.success(asked))
            })
            .state("asked", |s| {
                s.sampling(50, |m| {
                    m.system("You sort {{state}}.")
                        .user("What of {{ctx.order}}?")
                        .assistant("Whose is it?")
                        .user("Of {{principal.id}}.")
                        .success(end("new"))
                })
            })
            .build()
            .unwrap()
    }

    #[test]
    fn a_question_has_its_texts_filled_in_and_the_plainest_form() {
        let flow = flow();
        let mut instance = flow.start(0);
        assert!(question(&flow, &instance, &Value::Null).is_none());
        let at = instance.position();
        let Ok(Pass::Bound(go)) = flow.admit(at, Kind::Tool, "go") else {
            panic!("it is bound");
        };
        let step = flow.step(&instance, go, &End::from(Outcome::Success));
        assert!(step.asks);
        instance.apply(&flow, &step, 0);
        let asked = question(&flow, &instance, &json!({"id": "ada"})).unwrap();
        assert_eq!(asked.method, "sampling/createMessage");
        let text = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        let expected = json!({
            "messages": [
                text("user", "What of A-1?"),
                text("assistant", "Whose is it?"),
                text("user", "Of ada."),
            ],
            "maxTokens": 50,
            "systemPrompt": "You sort asked.",
        });
        assert_eq!(asked.params, Some(expected));
    }

    #[test]
    fn an_answer_is_what_the_model_said_and_all_of_it() {
        let said = json!({
            "role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}, "x": 1,
        });
        assert_eq!(answer(Ok(said.clone())), Ok(said));
        for other in [
            json!(null),
            json!({}),
            json!({"action": "decline"}),
            json!({"role": "user", "model": "m", "content": {"type": "text", "text": "yes"}}),
        ] {
            assert!(answer(Ok(other.clone())).is_err(), "{other}");
        }
        let failed = AskError::Failed {
            code: -1,
            message: "rejected".to_owned(),
        };
        assert!(answer(Err(failed)).unwrap_err().contains("rejected (-1)"));
        assert_eq!(
            answer(Err(AskError::Ended)).unwrap_err(),
            "the client is gone"
        );
    }

    #[test]
    fn what_is_kept_of_an_answer_comes_back_as_it_was() {
        let result = json!({"content": [{"type": "text", "text": "a", "x": 1}], "y": {"z": 2}});
        let said = FinalAnswer::Result(result.clone());
        let written = serde_json::to_vec(&said).unwrap();
        let said: FinalAnswer = serde_json::from_slice(&written).unwrap();
        let reply = said.restored(Kind::Tool).unwrap();
        assert_eq!(serde_json::to_value(&reply).unwrap(), result);
        let error = json!({"code": -32603, "message": "no"});
        let said = FinalAnswer::of(&Answer::Error(RpcCode(-32603), error.clone())).unwrap();
        match said.restored(Kind::Prompt) {
            Err(Lapsed::Error(RpcCode(code), told)) => assert_eq!((code, told), (-32603, error)),
            Ok(_) | Err(Lapsed::Unreadable) => panic!("it is an error"),
        }
        let other = FinalAnswer::Result(json!({"contents": 5}));
        assert!(matches!(
            other.restored(Kind::Resource),
            Err(Lapsed::Unreadable)
        ));
    }
}
