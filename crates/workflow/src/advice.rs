//! What a refused caller is told: why, what is allowed instead, and the way to what it wanted.

use crate::{Artifact, Hop, Kind, Outcome, Reason, Refused};

impl Refused<'_> {
    /// The refusal in sentences for the model that called, with the path to where the call would be
    /// allowed, if there is one.
    ///
    /// ```
    /// use interlock_workflow::{Kind, Workflow};
    ///
    /// let shop = Workflow::builder("shop")
    ///     .state("cart", |s| s.initial().tool("checkout", |t| t.success("due")))
    ///     .state("due", |s| s.tool("pay", |t| t.success("paid")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let refused = shop.admit(shop.initial(), Kind::Tool, "pay").unwrap_err();
    /// assert_eq!(
    ///     refused.advice(refused.path().as_deref()),
    ///     "Tool 'pay' is not allowed in state 'cart'. Allowed now: checkout. To get there: checkout."
    /// );
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    #[must_use]
    pub fn advice(&self, path: Option<&[Hop<'_>]>) -> String {
        let kind = self.wanted().kind;
        let allowed: Vec<_> = self.allowed(kind).collect();
        let mut text = why(self);
        text += &match (allowed.is_empty(), self.reason()) {
            (true, Reason::Guard(_)) => format!(" No other {kind} is allowed now."),
            (true, _) => format!(" No {kind} is allowed now."),
            (false, _) => format!(" Allowed now: {}.", allowed.join(", ")),
        };
        if let Some(path) = path {
            let path: Vec<_> = path.iter().map(hop).collect();
            text += &format!(" To get there: {}.", path.join(", then "));
        }
        text
    }
}

/// Why the call is refused, in a sentence.
fn why(refused: &Refused<'_>) -> String {
    let (wanted, state) = (refused.wanted(), refused.state());
    let why = match refused.reason() {
        Reason::NotInState => format!(" in state '{state}'"),
        Reason::Finished => format!(": the workflow has ended in state '{state}'"),
        Reason::Held {
            artifact,
            forgot_args,
        } => {
            let forgot = match forgot_args {
                true => " without its arguments, which were too large to keep",
                false => "",
            };
            let Artifact { kind, name } = artifact;
            format!(": nobody knows what {kind} '{name}' did, and an operator must decide{forgot}")
        }
        Reason::TooManyVisits { most: 1 } => format!(": state '{state}' may be visited once"),
        Reason::TooManyVisits { most } => {
            format!(": state '{state}' may be visited {most} times")
        }
        Reason::Guard(why) => {
            let why = why.to_string();
            format!(" with these arguments: {}", why.trim_end_matches('.'))
        }
    };
    let kind = match wanted.kind {
        Kind::Tool => "Tool",
        Kind::Resource => "Resource",
        Kind::Prompt => "Prompt",
    };
    format!("{kind} '{}' is not allowed{why}.", wanted.name)
}

/// One call on the way to somewhere.
fn hop(hop: &Hop<'_>) -> String {
    match hop.outcome {
        Outcome::Success => hop.artifact.name.clone(),
        Outcome::Error | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => {
            format!("{} (if it ends in {})", hop.artifact.name, hop.outcome)
        }
    }
}
