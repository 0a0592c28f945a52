//! A workflow as a machine for XState, for the tools that show and simulate those.
//!
//! Events are named as symbols are: `tool refund success`. Names that are no identifiers are kept
//! as they are; XState takes any.

use crate::{Binding, Cause, Edge, Kind, Outcome, StateId, Workflow, model::spelt};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A workflow as the JSON of an XState machine (version 5).
///
/// A guard, a value to remember and an effect appear by their text; whoever runs the machine
/// provides them under that name. The guard of a call stands before each of its outcomes. A question
/// for a person and a hold are in the `meta` of the transition, and what is always callable is an event
/// of the machine itself, which moves nothing.
///
/// ```
/// use interlock_workflow::{Workflow, xstate};
///
/// let hello = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success("done")))
///     .state("done", |s| s.terminal())
///     .build()?;
/// let machine = xstate(&hello);
/// assert_eq!(machine["initial"], "new");
/// assert_eq!(machine["states"]["new"]["on"]["tool greet success"][0]["target"], "#s1");
/// assert_eq!(machine["states"]["done"]["type"], "final");
/// # Ok::<(), interlock_workflow::Invalid>(())
/// ```
pub fn xstate(workflow: &Workflow) -> Value {
    let states = workflow.states();
    let mut map: Map<String, Value> = states
        .map(|state| {
            let name = workflow.state_name(state).to_owned();
            (name, of_state(workflow, state))
        })
        .collect();
    for (name, state) in ends_of_their_own(workflow) {
        map.insert(name, state);
    }
    let mut machine = json!({
        "id": workflow.name(),
        "initial": workflow.state_name(workflow.initial().state),
        "states": map,
    });
    let always = Kind::ALL.into_iter().flat_map(|kind| {
        let names = workflow.visible_always(kind);
        names.map(move |name| (format!("{kind} {name} success"), json!([{}])))
    });
    let mut always: Map<String, Value> = always.collect();
    if workflow.always_everything() {
        always.insert("*".to_owned(), json!([{}]));
    }
    if !always.is_empty() {
        machine["on"] = always.into();
    }
    machine
}

fn of_state(workflow: &Workflow, id: StateId) -> Value {
    let state = workflow.state(id);
    let mut out = Map::new();
    // Targets name ids, because a dot in a name would lead into it.
    out.insert("id".into(), format!("s{}", id.index()).into());
    if let Some(description) = state.description() {
        out.insert("description".into(), description.into());
    }
    if state.is_terminal() {
        out.insert("type".into(), "final".into());
        return out.into();
    }
    let (mut on, mut after) = (Map::new(), Map::new());
    let bindings = workflow.bindings(id).iter();
    let bindings: HashMap<_, _> = bindings.map(|bound| (bound.artifact(), bound)).collect();
    for (_, edge) in workflow.edges_from(id) {
        let (place, key) = match &edge.cause {
            Cause::Call { artifact, outcome } => (
                &mut on,
                format!("{} {} {outcome}", artifact.kind, artifact.name),
            ),
            Cause::Sampling { outcome } => (&mut on, format!("sampling {outcome}")),
            Cause::Time { after: time } => (&mut after, time.as_millis().to_string()),
        };
        let list = place.entry(key).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            let binding = match &edge.cause {
                Cause::Call { artifact, .. } => bindings.get(artifact).copied(),
                Cause::Sampling { .. } | Cause::Time { .. } => None,
            };
            list.push(of_edge(workflow, edge, binding));
        }
    }
    for binding in workflow.bindings(id) {
        as_error(workflow, &mut on, binding);
        if binding.holds() {
            let artifact = binding.artifact();
            let key = format!("{} {} unknown", artifact.kind, artifact.name);
            let mut held = json!({ "meta": { "hold": true } });
            if let Some(guard) = binding.when() {
                held["guard"] = guard.to_string().into();
            }
            on.insert(key, json!([held]));
        }
    }
    for (key, part) in [("on", on), ("after", after)] {
        if !part.is_empty() {
            out.insert(key.into(), part.into());
        }
    }
    out.into()
}

/// What is not written and counts as an error is an event of its own in XState.
fn as_error(workflow: &Workflow, on: &mut Map<String, Value>, binding: &Binding) {
    let artifact = binding.artifact();
    for outcome in [Outcome::Timeout, Outcome::Unknown] {
        if binding.written_for(outcome) == Some(Outcome::Error) {
            let edges = workflow.alternatives(binding, outcome);
            let edges = edges.map(|(_, edge)| of_edge(workflow, edge, Some(binding)));
            let edges: Vec<_> = edges.collect();
            let key = format!("{} {} {outcome}", artifact.kind, artifact.name);
            on.insert(key, edges.into());
        }
    }
}

fn of_edge(workflow: &Workflow, edge: &Edge, binding: Option<&Binding>) -> Value {
    let mut out = Map::new();
    if !edge.stays() {
        let own_end = edge.terminal && !workflow.state(edge.to).is_terminal();
        let kind = if own_end { "end" } else { "s" };
        out.insert(
            "target".into(),
            format!("#{kind}{}", edge.to.index()).into(),
        );
    }
    let guard = match (binding.and_then(Binding::when), &edge.when) {
        (None, None) => None,
        (Some(guard), None) | (None, Some(guard)) => Some(guard.to_string()),
        (Some(before), Some(after)) => Some(format!("({before}) && ({after})")),
    };
    if let Some(guard) = guard {
        out.insert("guard".into(), guard.into());
    }
    if let Some(approval) = binding.and_then(Binding::approval) {
        let question = approval.message.written();
        out.insert("meta".into(), json!({ "approval": question }));
    }
    let set = edge
        .set
        .iter()
        .map(|(key, rule)| format!("set {key}: {rule}"));
    let actions: Vec<Value> = set
        .chain(edge.effects.iter().cloned())
        .map(Value::from)
        .collect();
    if !actions.is_empty() {
        out.insert("actions".into(), actions.into());
    }
    if let Cause::Time { after } = edge.cause {
        out.insert(
            "description".into(),
            format!("after {}", spelt(after)).into(),
        );
    }
    out.into()
}

/// The name of a final state for edges that end where others go on, which no state has.
fn end_of(workflow: &Workflow, state: StateId) -> String {
    let mut name = format!("{} (end)", workflow.state_name(state));
    while workflow.state_id(&name).is_some() {
        name.push('\'');
    }
    name
}

fn ends_of_their_own(workflow: &Workflow) -> Vec<(String, Value)> {
    let ends = workflow
        .edges()
        .map(|(_, edge)| edge)
        .filter(|edge| edge.terminal && !workflow.state(edge.to).is_terminal());
    ends.map(|edge| {
        let id = format!("end{}", edge.to.index());
        (
            end_of(workflow, edge.to),
            json!({ "id": id, "type": "final" }),
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{end, to};
    use std::time::Duration;

    #[test]
    fn everything_that_leads_on_is_there() {
        let flow = Workflow::builder("my.flow")
            .state("v1.0", |s| {
                s.initial()
                    .description("first")
                    .tool("go", |t| {
                        t.success(to("b").when("args.x > 1").set("x", "args.x").effect("mail"))
                            .success(end("b"))
                            .error("v1.0")
                    })
                    .after(Duration::from_secs(60), "done")
            })
            .state("b", |s| {
                s.sampling(9, |m| m.user("?").success("done").error("v1.0"))
            })
            .state("done", |s| s.terminal())
            .build()
            .unwrap();
        assert_eq!(
            xstate(&flow),
            json!({
                "id": "my.flow",
                "initial": "v1.0",
                "states": {
                    "v1.0": {
                        "id": "s0",
                        "description": "first",
                        "on": {
                            "tool go success": [
                                {"target": "#s1", "guard": "args.x > 1", "actions": ["set x: args.x", "mail"]},
                                {"target": "#end1"},
                            ],
                            "tool go error": [{}],
                            "tool go timeout": [{}],
                            "tool go unknown": [{}],
                        },
                        "after": {"60000": [{"target": "#s2", "description": "after 1m"}]},
                    },
                    "b": {
                        "id": "s1",
                        "on": {
                            "sampling success": [{"target": "#s2"}],
                            "sampling error": [{"target": "#s0"}],
                        },
                    },
                    "done": {"id": "s2", "type": "final"},
                    "b (end)": {"id": "end1", "type": "final"},
                },
            })
        );
    }

    /// A machine that lost these would let everybody do everything.
    #[test]
    fn guards_approvals_holds_and_what_is_always_callable_are_there() {
        let flow = Workflow::builder("till")
            .state("open", |s| {
                s.initial().tool("pay", |t| {
                    t.when("args.n > 0")
                        .approve("Pay {{args.n}}?")
                        .success(to("open").when("result.part"))
                        .success("shut")
                        .error("open")
                        .hold()
                })
            })
            .state("shut", |s| s.terminal())
            .always_tool("look")
            .build()
            .unwrap();
        let machine = xstate(&flow);
        assert_eq!(machine["on"], json!({ "tool look success": [{}] }));
        let meta = json!({ "approval": "Pay {{args.n}}?" });
        let stays = json!([{ "guard": "args.n > 0", "meta": meta }]);
        assert_eq!(
            machine["states"]["open"]["on"],
            json!({
                "tool pay success": [
                    { "guard": "(args.n > 0) && (result.part)", "meta": meta },
                    { "target": "#s1", "guard": "args.n > 0", "meta": meta },
                ],
                "tool pay error": stays,
                "tool pay timeout": stays,
                "tool pay unknown": [{ "guard": "args.n > 0", "meta": { "hold": true } }],
            })
        );
        let open = Workflow::builder("open")
            .always_everything()
            .build()
            .unwrap();
        assert_eq!(xstate(&open)["on"], json!({ "*": [{}] }));
    }

    #[test]
    fn an_end_of_its_own_has_a_name_of_its_own() {
        let flow = Workflow::builder("w")
            .state("a", |s| {
                s.initial()
                    .tool("end", |t| t.success(end("a")))
                    .tool("go", |t| t.success("a (end)"))
            })
            .state("a (end)", |s| s.tool("back", |t| t.success("a")))
            .build()
            .unwrap();
        let machine = xstate(&flow);
        assert_eq!(machine["states"]["a (end)"]["id"], "s1");
        assert_eq!(machine["states"]["a (end)\'"]["id"], "end0");
    }
}
