//! The person whom the server asks before a call runs.

use super::prompt::Keyboard;
use crate::simulate::{Consent, shortened};
use serde_json::{Value, json};

/// Who answers what the server asks.
pub(crate) struct Person {
    /// What was said before it was asked. The first question uses it.
    said: Option<Consent>,
    /// Who is asked what was not said. Nobody, in a script: then the answer is no.
    keyboard: Option<Keyboard>,
}

/// What a person answered.
#[derive(Debug, PartialEq)]
pub(crate) struct Answered {
    /// The result that the server is sent.
    pub(crate) result: Value,
    /// The question and its answer, a line each, for whoever has not seen it asked.
    pub(crate) told: Vec<String>,
}

impl Person {
    pub(crate) const fn new(keyboard: Option<Keyboard>) -> Self {
        Self {
            said: None,
            keyboard,
        }
    }

    /// Says something about a question to come.
    pub(crate) const fn say(&mut self, consent: Consent) {
        self.said = Some(consent);
    }

    /// Answers a form without fields: to accept it is to agree.
    pub(crate) async fn answer(&mut self, form: &Value) -> Answered {
        let question = form["message"].as_str().unwrap_or_default();
        let (consent, told) = match (self.said.take(), &self.keyboard) {
            (Some(consent), _) => (consent, told(question, word(consent))),
            // Nothing that a person must allow happens because nobody said anything.
            (None, None) => (
                Consent::No,
                told(
                    question,
                    "no, for the script says nothing; `approve yes` before the call agrees",
                ),
            ),
            (None, Some(keyboard)) => (asked(keyboard, question, Consent::No).await, Vec::new()),
        };
        let result = match consent {
            Consent::Yes => json!({ "action": "accept", "content": {} }),
            Consent::No => json!({ "action": "decline" }),
            Consent::Later => json!({ "action": "cancel" }),
        };
        Answered { result, told }
    }
}

/// A question and its answer, for whoever has not seen it asked.
pub(crate) fn told(question: &str, answer: &str) -> Vec<String> {
    vec![format!("asked: {question}"), format!("answered: {answer}")]
}

/// Asks until there is an answer. `otherwise` is what nothing means; the end of input is later.
pub(crate) async fn asked(keyboard: &Keyboard, question: &str, otherwise: Consent) -> Consent {
    let question = format!("{question} (yes, no or later) [{}]: ", word(otherwise));
    let mut asked = question.clone();
    loop {
        match keyboard.ask(&asked).await.as_deref().map(str::trim) {
            None => return Consent::Later,
            Some("") => return otherwise,
            Some(typed) => match consent_named(typed) {
                Some(consent) => return consent,
                None => {
                    let typed = shortened(typed);
                    asked = format!("`{typed}` is no answer: type yes, no or later\n{question}");
                }
            },
        }
    }
}

const WORDS: [(&str, Consent); 3] = [
    ("yes", Consent::Yes),
    ("no", Consent::No),
    ("later", Consent::Later),
];

/// What a person says, by its name or the beginning of it.
pub(crate) fn consent_named(name: &str) -> Option<Consent> {
    let mut words = WORDS.into_iter();
    let (_, consent) = words.find(|(word, _)| !name.is_empty() && word.starts_with(name))?;
    Some(consent)
}

pub(crate) const fn word(consent: Consent) -> &'static str {
    match consent {
        Consent::Yes => "yes",
        Consent::No => "no",
        Consent::Later => "later",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_says_is_named_by_its_beginning() {
        for (typed, consent) in [
            ("y", Some(Consent::Yes)),
            ("no", Some(Consent::No)),
            ("lat", Some(Consent::Later)),
            ("", None),
            ("yess", None),
            ("Yes", None),
        ] {
            assert_eq!(consent_named(typed), consent, "{typed:?}");
        }
        for (name, consent) in WORDS {
            assert_eq!(word(consent), name);
        }
    }

    #[tokio::test]
    async fn what_was_said_answers_one_question_and_nothing_is_a_no() {
        let mut person = Person::new(None);
        let form = json!({ "message": "Pay 5?" });
        for (consent, action) in [
            (Consent::Yes, "accept"),
            (Consent::No, "decline"),
            (Consent::Later, "cancel"),
        ] {
            person.say(consent);
            let answered = person.answer(&form).await;
            assert_eq!(answered.result["action"], action);
            let told = ["asked: Pay 5?", &format!("answered: {}", word(consent))];
            assert_eq!(answered.told, told);
            let unsaid = person.answer(&form).await;
            assert_eq!(unsaid.result, json!({ "action": "decline" }));
            assert!(unsaid.told[1].starts_with("answered: no, for the script"));
        }
    }
}
