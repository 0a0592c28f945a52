//! The recorded behaviour of the reference automaton SDK, against the pure gate.
//!
//! Every case of the fixture is named in [`CASES`], which says whether we match it, where we do
//! better on purpose, or why it is not about this crate. None can be skipped unsaid.

use interlock_workflow::{
    BindingBuilder, Builder, Catalogue, End, Invalid, Kind, Outcome, Pass, Position, StateBuilder,
    Workflow, end, to,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What we do with a case.
#[derive(Clone, Copy)]
enum Verdict {
    /// Exactly as recorded.
    Matches,
    /// Better, in the way described.
    Differs(&'static str),
    /// Not decided by this crate, for the reason given.
    Elsewhere(&'static str),
}
use Verdict::{Differs, Elsewhere, Matches};

#[rustfmt::skip]
const CASES: &[(&str, Verdict)] = &[
    ("A01", Matches),
    ("A04", Differs("the refusal also names what is allowed and the way to what was wanted")),
    ("A05", Differs("a name that is nowhere can be told from one that is elsewhere")),
    ("A06", Differs("the validator warns of the tool that is bound nowhere")),
    ("B01", Differs("lists that change are notified without being told to")),
    ("B05", Differs("lists that change are notified without being told to")),
    ("C01", Differs("the refusal has code 1081, and the tool list that changes is notified too")),
    ("C04", Elsewhere("templates are matched by the server")),
    ("C06", Elsewhere("templates are listed by the server")),
    ("D01", Differs("refused arguments have no outcome, so there is no step")),
    ("D02", Differs("a result with isError is an error")),
    ("D05", Differs("a call that can move waits for the one before it and is judged again")),
    ("D07", Differs("terminal is a property of one edge")),
    ("D08", Differs("a cancelled call stays")),
    ("E02", Elsewhere("sessions over HTTP belong to the server")),
    ("V01", Matches),
    ("V02", Matches),
    ("V03", Differs("unknown names do not hide the end behind them; the trap is warned of")),
    ("V04", Differs("nothing is removed")),
    ("V05", Differs("nothing is pruned")),
    ("V09", Differs("both traps are warned of")),
    ("V10", Elsewhere("templates are matched by the server")),
    ("V14", Differs("tools that are bound nowhere are warned of")),
    ("V15", Differs("two edges for one symbol are an error that names both")),
];

#[test]
fn every_case_has_a_verdict_that_fits_it() {
    let fixture = fixture();
    let recorded: Vec<_> = cases(&fixture).map(|case| text(&case["id"])).collect();
    let judged: Vec<_> = CASES.iter().map(|(id, _)| *id).collect();
    assert_eq!(judged, recorded);
    for case in cases(&fixture) {
        match verdict(case) {
            Matches => assert!(case["deliberate_difference"].is_null(), "{}", case["id"]),
            Differs(how) | Elsewhere(how) => {
                assert!(case["deliberate_difference"].is_string(), "{}", case["id"]);
                assert!(!how.is_empty());
            }
        }
    }
}

#[test]
fn recorded_runs_go_as_recorded_or_better() {
    let fixture = fixture();
    let mut played = 0;
    for case in cases(&fixture).filter(|case| case["steps"].is_array()) {
        if let Matches | Differs(_) = verdict(case) {
            let graph = &fixture["graphs"][text(&case["graph"])];
            Run::new(case, graph).play();
            played += 1;
        }
    }
    assert_eq!(played, 12);
}

#[test]
fn recorded_builds_are_judged_as_recorded_or_better() {
    #[rustfmt::skip]
    let expected = BTreeMap::from([
        ("V01", vec!["error[no-initial-state]: no state is marked initial"]),
        ("V02", vec!["error[no-reachable-end]: no end can be reached from the initial state \"s0\""]),
        ("V03", vec![
            "warning[trap]: no end can be reached from state \"s1\"",
            "error[unknown-artifact]: there is no tool \"zz\"",
            "error[unknown-artifact]: there is no prompt \"pp\"",
            "error[unknown-artifact]: there is no resource \"r://x\"",
        ]),
        ("V04", vec!["warning[unreachable-state]: state \"sX\" cannot be reached"]),
        ("V05", vec!["warning[bindings-after-end]: state \"s1\" is entered only by edges that end \
                      the workflow, yet has bindings"]),
        ("V09", vec![
            "warning[trap]: no end can be reached from state \"L\"",
            "warning[trap]: no end can be reached from state \"trap\"",
        ]),
        ("V14", vec![]),
        ("V15", vec![
            "error[two-edges]: success of tool \"t\" in state \"s0\" leads to both \"s1\" and \
             \"s2\" (terminal)",
            "warning[trap]: no end can be reached from state \"s1\"",
        ]),
    ]);
    let fixture = fixture();
    let mut built = Vec::new();
    for case in cases(&fixture).filter(|case| case["expect_build"].is_object()) {
        if let Elsewhere(_) = verdict(case) {
            continue;
        }
        let id = text(&case["id"]);
        let recorded = &case["expect_build"];
        let result = build(&case["graph_inline"]);
        assert_eq!(result.is_ok(), recorded["ok"] == true, "{id}");
        assert_eq!(told(&result), expected[id], "{id}");
        if let Matches = verdict(case) {
            let count = |field: &str| recorded[field].as_array().unwrap().len();
            assert_eq!(
                count("errors") + count("validator_warnings"),
                told(&result).len()
            );
        }
        if let Ok(workflow) = result {
            nothing_is_lost(&case["graph_inline"], &workflow);
        }
        built.push(id);
    }
    assert!(built.into_iter().eq(expected.into_keys()));
}

/// The findings, apart from the tools of the recording that no state binds: case A06 is about
/// those, and almost every graph has some.
fn told(result: &Result<Workflow, Invalid>) -> Vec<String> {
    let findings = match result {
        Ok(workflow) => workflow.warnings(),
        Err(invalid) => &invalid.findings,
    };
    findings
        .iter()
        .filter(|finding| finding.problem.code() != "bound-nowhere")
        .map(ToString::to_string)
        .collect()
}

/// Every state and binding that was recorded is still there.
fn nothing_is_lost(graph: &Value, workflow: &Workflow) {
    for state in graph["states"].as_array().unwrap() {
        let id = workflow.state_id(text(&state["name"])).unwrap();
        let bindings = state["bindings"].as_array().unwrap();
        assert_eq!(workflow.bindings(id).len(), bindings.len());
    }
}

/// One recorded run, played against the gate as a server would.
struct Run<'a> {
    case: &'a Value,
    graph: &'a Value,
    workflow: Workflow,
    at: Position,
    /// The call that holds the instance, and those that wait for it.
    running: Option<&'a Value>,
    waiting: VecDeque<&'a Value>,
    /// Set once the last step of the case is reached, where the recording may know better.
    last: bool,
}

impl<'a> Run<'a> {
    fn new(case: &'a Value, graph: &'a Value) -> Self {
        let workflow = build(graph).unwrap();
        Self {
            at: workflow.initial(),
            case,
            graph,
            workflow,
            running: None,
            waiting: VecDeque::new(),
            last: false,
        }
    }

    fn id(&self) -> &'a str {
        text(&self.case["id"])
    }

    fn play(mut self) {
        let steps = self.case["steps"].as_array().unwrap();
        for (n, step) in steps.iter().enumerate() {
            self.last = n + 1 == steps.len();
            match text(&step["op"]) {
                "list" => self.list(step),
                "invoke" => self.invoke(step),
                "begin" => self.begin(step),
                "finish" => self.finish(step),
                "manual" => self.manual(),
                other => panic!("{}: unknown operation {other}", self.id()),
            }
        }
        if self.id() == "A06" {
            let told: Vec<_> = self
                .workflow
                .warnings()
                .iter()
                .map(ToString::to_string)
                .collect();
            let expected =
                "warning[bound-nowhere]: tool \"t_unbound\" is bound nowhere, so nobody can use it";
            assert_eq!(told, [expected]);
        }
    }

    fn list(&self, step: &Value) {
        let mut listed: Vec<_> = self.workflow.visible(self.at, kind(step)).collect();
        // The recording is sorted; we list as written.
        listed.sort_unstable();
        assert_eq!(step["expect"], Value::from(listed), "{}", self.id());
    }

    fn invoke(&mut self, step: &'a Value) {
        let admitted = self
            .workflow
            .admit(self.at, kind(step), text(&step["ident"]));
        let binding = match admitted {
            Err(_) => return self.refused(step),
            Ok(Pass::Always) => panic!("nothing in the recording is always callable"),
            Ok(Pass::Bound(binding)) => binding,
        };
        if self.running.is_some() && binding.moves() {
            self.waiting.push_back(step);
            return;
        }
        if step["arguments"].is_object() {
            // Arguments are only recorded where they break the schema, which is checked between
            // admission and the step.
            assert_eq!(step["arguments"]["fail"], "zzz");
        } else {
            let outcome = outcome(step);
            assert_eq!(step["expect"]["ok"] == true, outcome == Outcome::Success);
            let taken = self
                .workflow
                .step(&self.at.into(), binding, &End::from(outcome));
            self.notified(step, self.at, taken.after);
            self.at = taken.after;
        }
        self.stands(step);
    }

    fn begin(&mut self, step: &'a Value) {
        let admitted = self
            .workflow
            .admit(self.at, kind(step), text(&step["ident"]));
        let Ok(Pass::Bound(binding)) = admitted else {
            panic!("{}: {step} is not admitted", self.id());
        };
        assert!(binding.moves());
        self.running = Some(step);
    }

    /// The call that holds the instance succeeds; then those that waited are judged again.
    fn finish(&mut self, step: &'a Value) {
        let begun = self.running.take().unwrap();
        assert_eq!(begun["id"], step["id"]);
        let admitted = self
            .workflow
            .admit(self.at, kind(begun), text(&begun["ident"]));
        let Ok(Pass::Bound(binding)) = admitted else {
            panic!("{}: the instance moved under a running call", self.id());
        };
        self.at = self
            .workflow
            .step(&self.at.into(), binding, &End::from(Outcome::Success))
            .after;
        assert_eq!(
            self.case["better_expect"]["fast"],
            "waits for slow, then is refused in sSlow"
        );
        assert_eq!(self.workflow.state_name(self.at.state), "sSlow");
        assert_eq!(self.waiting.len(), 1);
        while let Some(waiting) = self.waiting.pop_front() {
            let again = self
                .workflow
                .admit(self.at, kind(waiting), text(&waiting["ident"]));
            assert_eq!(again.unwrap_err().state(), "sSlow");
        }
    }

    /// Case D08, recorded by hand: the call is cancelled, and the instance lives on where it was.
    fn manual(&mut self) {
        assert_eq!(self.id(), "D08");
        let Ok(Pass::Bound(binding)) = self.workflow.admit(self.at, Kind::Tool, "t") else {
            panic!("t is callable at first");
        };
        let step = self
            .workflow
            .step(&self.at.into(), binding, &End::from(Outcome::Cancelled));
        assert_eq!(step.taken, None);
        self.at = step.after;
        let state = self.workflow.state_name(self.at.state);
        assert_eq!(self.case["better_expect"]["state_after"], state);
        assert!(self.workflow.visible(self.at, Kind::Tool).eq(["t"]));
    }

    fn refused(&self, step: &Value) {
        let (kind, name) = (kind(step), text(&step["ident"]));
        let refused = self.workflow.admit(self.at, kind, name).unwrap_err();
        assert_eq!(refused.code(), 1081);
        // The recorded sentence says the same of the same state, in its own quotation marks.
        let recorded = [
            &step["expect"]["tool_error"],
            &step["expect"]["rpc_error"]["message"],
        ];
        let recorded = recorded.into_iter().find_map(Value::as_str).unwrap();
        let first = recorded.split(". ").next().unwrap();
        let ours = refused.to_string().replace('"', "'");
        assert!(first.eq_ignore_ascii_case(&ours), "{first} / {ours}");
        for kind in Kind::ALL {
            assert!(
                refused
                    .allowed(kind)
                    .eq(self.workflow.visible(self.at, kind))
            );
        }
        let known = registered(self.graph).has(kind, name);
        let bound = self.workflow.is_bound(kind, name);
        match self.id() {
            "A04" => {
                assert!(known && bound);
                let way = refused.path().unwrap();
                let names: Vec<_> = way.iter().map(|hop| hop.artifact.name.as_str()).collect();
                assert_eq!(
                    names,
                    ["t_open_door", "t_choose_left_path", "t_open_door_with_key"]
                );
                assert_eq!(way[2].outcome, Outcome::Error);
            }
            "A05" => assert!(!known && !bound && refused.path().is_none()),
            "A06" => assert!(known && !bound && refused.path().is_none()),
            "C01" => assert!(known && bound && refused.path().unwrap().len() == 1),
            other => panic!("{other}: {refused}"),
        }
        self.stands(step);
    }

    /// The instance is where the recording says, or where it says it should be instead.
    fn stands(&self, step: &Value) {
        let better = &self.case["better_expect"]["state_after"];
        let expected = if self.last && better.is_string() {
            better
        } else {
            &step["state_after"]
        };
        assert_eq!(
            *expected,
            self.workflow.state_name(self.at.state),
            "{}",
            self.id()
        );
    }

    /// What is notified is what differs, and where we match it is also what was recorded.
    fn notified(&self, step: &Value, before: Position, after: Position) {
        let names = |at, kind| self.workflow.visible(at, kind).collect::<BTreeSet<_>>();
        let differs = |kind: &Kind| names(before, *kind) != names(after, *kind);
        let expected: Vec<_> = Kind::ALL.into_iter().filter(differs).collect();
        let ours: Vec<_> = self.workflow.lists_differ(before, after).collect();
        assert_eq!(ours, expected, "{}", self.id());
        if let Matches = verdict(self.case) {
            let sent = ours
                .iter()
                .map(|kind| format!("notifications/{kind}s/list_changed"));
            assert_eq!(
                step["notifications"],
                Value::from_iter(sent),
                "{}",
                self.id()
            );
        }
    }
}

fn build(graph: &Value) -> Result<Workflow, Invalid> {
    let states = graph["states"].as_array().unwrap();
    let define = |flow: Builder, state: &Value| {
        flow.state(text(&state["name"]), |s| {
            let s = if state["initial"] == true {
                s.initial()
            } else {
                s
            };
            state["bindings"].as_array().unwrap().iter().fold(s, bind)
        })
    };
    let flow = states.iter().fold(Workflow::builder("recorded"), define);
    flow.build_for(&registered(graph))
}

fn bind(state: StateBuilder, binding: &Value) -> StateBuilder {
    let edges = [Outcome::Success, Outcome::Error].map(|outcome| {
        let edge = &binding[outcome.to_string()];
        (outcome, edge)
    });
    let define = |b: BindingBuilder| {
        edges.into_iter().fold(b, |b, (outcome, edge)| {
            let Some(target) = edge["to"].as_str() else {
                return b;
            };
            let terminal = edge["terminal"] == true;
            b.on(outcome, if terminal { end(target) } else { to(target) })
        })
    };
    state.bind(kind(binding), text(&binding["ident"]), define)
}

/// What the recorded server had. A template's one bound instance counts as a plain resource.
fn registered(graph: &Value) -> Catalogue {
    let mut catalogue = Catalogue::closed();
    for (field, kind) in [
        ("tools", Kind::Tool),
        ("resources", Kind::Resource),
        ("prompts", Kind::Prompt),
    ] {
        for entry in graph[field].as_array().into_iter().flatten() {
            let name = entry.as_str().unwrap_or_else(|| text(&entry["name"]));
            catalogue.insert(kind, name);
        }
    }
    if graph["templates"].is_array() {
        catalogue.insert(Kind::Resource, "greeting://alice");
    }
    catalogue
}

fn fixture() -> Value {
    serde_json::from_str(include_str!("../fixtures/reference.json")).unwrap()
}

fn cases(fixture: &Value) -> impl Iterator<Item = &Value> {
    fixture["cases"].as_array().unwrap().iter()
}

fn verdict(case: &Value) -> Verdict {
    let id = text(&case["id"]);
    CASES.iter().find(|(known, _)| *known == id).unwrap().1
}

fn kind(value: &Value) -> Kind {
    serde_json::from_value(value["kind"].clone()).unwrap()
}

fn outcome(step: &Value) -> Outcome {
    match text(&step["outcome"]) {
        "success" => Outcome::Success,
        "error" | "soft_error" => Outcome::Error,
        other => panic!("unknown outcome {other}"),
    }
}

#[track_caller]
fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
