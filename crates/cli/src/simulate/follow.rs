//! Generated paths: edges that are taken whatever their guards say.

use super::{Simulator, words};
use interlock::workflow::{
    Call, Cause, EdgeId, End, Finish, Outcome, Pass, Position, Reason, Scope,
};
use serde_json::Value;

impl Simulator<'_> {
    /// Takes an edge of a generated path, whatever its guard says. Fails if the gate would not
    /// let it come to that, or if it does not lead where it says.
    pub(crate) fn follow(&mut self, edge: EdgeId) -> Result<(), String> {
        let workflow = self.workflow;
        let written = workflow.edge(edge);
        let at = self.instance.position();
        if at.finished || at.state != written.from {
            return Err(format!("the instance is {}", self.place()));
        }
        let mut course = self.course();
        let (args, principal) = (&Value::Null, &Value::Null);
        let outcome = match &written.cause {
            Cause::Call { artifact, outcome } => {
                let call = Call {
                    kind: artifact.kind,
                    name: &artifact.name,
                    args,
                    principal,
                };
                self.would_run(&call)?;
                *outcome
            }
            Cause::Time { .. } => match self.instance.due() {
                Some(due) => {
                    self.now = self.now.max(due);
                    Outcome::Success
                }
                None => return Err("no timer is running".to_owned()),
            },
            Cause::Sampling { .. } if !self.asking => {
                return Err("the client's model is not asked".to_owned());
            }
            Cause::Sampling { outcome } => *outcome,
        };
        let end = End {
            outcome,
            result: None,
            args,
            principal,
        };
        let step = workflow.take(&self.instance, edge, &end);
        self.take(&step, &mut course);
        let led = self.instance.position();
        let meant = self.target(edge);
        match (led.state, led.finished) == (meant.state, meant.finished) {
            true => Ok(()),
            false => Err(format!(
                "it should be {}, but is {}",
                words::place(workflow, meant),
                self.place()
            )),
        }
    }

    /// Whether a call could run if its arguments were right.
    fn would_run(&self, call: &Call<'_>) -> Result<(), String> {
        match self.workflow.judge(&self.instance, call) {
            Ok(Pass::Bound(_)) => Ok(()),
            Ok(Pass::Always) => Err("the call moves nothing".to_owned()),
            Err(refused) => match refused.reason() {
                Reason::Guard(_) => Ok(()),
                Reason::NotInState
                | Reason::Finished
                | Reason::Held { .. }
                | Reason::TooManyVisits { .. } => Err(refused.to_string()),
            },
        }
    }

    /// Where an edge says that it leads.
    fn target(&self, edge: EdgeId) -> Position {
        let edge = self.workflow.edge(edge);
        let settings = self.workflow.settings();
        let stays = settings.scope == Scope::Handle || settings.finish == Finish::Stay;
        match edge.terminal && !stays {
            true => self.workflow.initial(),
            false => Position {
                finished: edge.terminal,
                ..edge.to.into()
            },
        }
    }

    /// The client's model answered on a generated path, and nothing is written for that.
    pub(crate) fn stay(&mut self) -> Result<(), String> {
        match std::mem::take(&mut self.asking) {
            true => Ok(()),
            false => Err("the client's model is not asked".to_owned()),
        }
    }
}
