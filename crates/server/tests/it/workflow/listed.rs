//! For any workflow and any traffic, what is listed is what is callable, and nothing else: of one
//! instance in a store that others could have, and of a session's own, there and on a server that was
//! given none.
//!
//! Each probe that may move is made on a server of its own that has seen the same traffic, so probing
//! moves nothing that matters. Traffic is judged by the lists before it as well.

use crate::support::{
    kept::{Kept, wherever_it_is_kept},
    messages::{codes, refusal},
};
use interlock::{
    Context, Failure, Prompt, Resource, ResourceTemplate, Server, Summary, Tool, Workflow,
    model::{GetPromptResult, JsonObject, PromptMessage, Role},
    workflow::{BindingBuilder, Finish, Kind, Outcome, Settings, Target, end, to},
};
use interlock_testkit::{Client, Connection, ManualClock, connect};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use std::{cell::Cell, collections::BTreeSet, sync::Arc, time::Duration};

/// A symbol of the workflows: its kind, its name, and what a client asks for when it means it.
type Symbol = (Kind, &'static str, &'static str);

/// What states bind, or not.
const BOUND: [Symbol; 9] = [
    (Kind::Tool, "t0", "t0"),
    (Kind::Tool, "t1", "t1"),
    (Kind::Tool, "t2", "t2"),
    (Kind::Resource, "note://0", "note://0"),
    (Kind::Resource, "note://1", "note://1"),
    (Kind::Resource, TEMPLATE, "item://9"),
    (Kind::Resource, INSTANCE, INSTANCE),
    (Kind::Prompt, "p0", "p0"),
    (Kind::Prompt, "p1", "p1"),
];
const TEMPLATE: &str = "item://{id}";
/// One resource of the template, which has bindings of its own.
const INSTANCE: &str = "item://7";

/// What is callable everywhere, and what is nowhere.
const ALWAYS: [Symbol; 3] = [
    (Kind::Tool, "free", "free"),
    (Kind::Resource, "note://free", "note://free"),
    (Kind::Prompt, "p_free", "p_free"),
];
const NOWHERE: [Symbol; 4] = [
    (Kind::Tool, "nowhere", "nowhere"),
    (Kind::Resource, "note://nowhere", "note://nowhere"),
    (Kind::Resource, "loose://{id}", "loose://1"),
    (Kind::Prompt, "p_nowhere", "p_nowhere"),
];

fn everything() -> impl Iterator<Item = Symbol> {
    BOUND.into_iter().chain(ALWAYS).chain(NOWHERE)
}

#[derive(Clone, Debug)]
struct Plan {
    stays: bool,
    states: Vec<PlanState>,
}

#[derive(Clone, Debug)]
struct PlanState {
    terminal: bool,
    max_visits: Option<u32>,
    bindings: Vec<PlanBinding>,
    timer: Option<PlanEdge>,
}

#[derive(Clone, Debug)]
struct PlanBinding {
    symbol: usize,
    guarded: bool,
    hold: bool,
    success: PlanEdge,
    error: Option<PlanEdge>,
}

#[derive(Clone, Debug)]
struct PlanEdge {
    to: usize,
    terminal: bool,
}

fn edges(states: usize) -> impl Strategy<Value = PlanEdge> {
    (0..states, prop::bool::weighted(0.25)).prop_map(|(to, terminal)| PlanEdge { to, terminal })
}

fn bindings(states: usize) -> impl Strategy<Value = PlanBinding> {
    let flags = (prop::bool::weighted(0.2), any::<bool>());
    let error = prop::option::of(edges(states));
    (0..BOUND.len(), flags, edges(states), error).prop_map(
        |(symbol, (guarded, hold), success, error)| PlanBinding {
            symbol,
            guarded,
            hold,
            success,
            error,
        },
    )
}

fn states(count: usize) -> impl Strategy<Value = PlanState> {
    let max_visits = prop::option::weighted(0.2, 1..4_u32);
    let bindings = prop::collection::vec(bindings(count), 1..6);
    let timer = prop::option::weighted(0.3, edges(count));
    (prop::bool::weighted(0.1), max_visits, bindings, timer).prop_map(
        |(terminal, max_visits, mut bindings, timer)| {
            bindings.sort_by_key(|binding| binding.symbol);
            bindings.dedup_by_key(|binding| binding.symbol);
            PlanState {
                terminal,
                max_visits,
                bindings,
                timer,
            }
        },
    )
}

fn plans() -> impl Strategy<Value = Plan> {
    let states = (2..6_usize).prop_flat_map(|count| prop::collection::vec(states(count), count));
    (any::<bool>(), states).prop_map(|(stays, states)| Plan { stays, states })
}

impl PlanEdge {
    fn target(&self) -> Target {
        let name = format!("s{}", self.to);
        if self.terminal { end(name) } else { to(name) }
    }
}

impl PlanBinding {
    fn define(&self, mut b: BindingBuilder) -> BindingBuilder {
        if self.guarded && BOUND[self.symbol].0 == Kind::Tool {
            b = b.when("args.g == 0");
        }
        if self.hold {
            b = b.hold();
        }
        b = b.on(Outcome::Success, self.success.target());
        match &self.error {
            Some(error) => b.on(Outcome::Error, error.target()),
            None => b,
        }
    }
}

impl Plan {
    fn build(&self, kept: Kept) -> Option<Workflow> {
        let settings = Settings {
            scope: kept.scope(),
            finish: match self.stays {
                true => Finish::Stay,
                false => Finish::Restart,
            },
            ..Settings::default()
        };
        let mut flow = Workflow::builder("w").settings(settings);
        for (at, plan) in self.states.iter().enumerate() {
            flow = flow.state(format!("s{at}"), |mut s| {
                if at == 0 {
                    s = s.initial();
                }
                if plan.terminal {
                    s = s.terminal();
                }
                if let Some(most) = plan.max_visits {
                    s = s.max_visits(most);
                }
                if let Some(timer) = &plan.timer {
                    s = s.after(Duration::from_secs(40), timer.target());
                }
                plan.bindings.iter().fold(s, |s, binding| {
                    let (kind, name, _) = BOUND[binding.symbol];
                    s.bind(kind, name, |b| binding.define(b))
                })
            });
        }
        let flow = flow.always_tool("free").always_resource("note://free");
        flow.always_prompt("p_free").build().ok()
    }
}

#[derive(Clone, Debug)]
enum Act {
    Ask {
        symbol: usize,
        g: i64,
        fail: bool,
    },
    Wait(u64),
    /// A call of a tool that is taken back, stops or not, and is unknown if not.
    TakeBack {
        tool: usize,
        stops: bool,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let ask = (0..BOUND.len(), 0..2_i64, prop::bool::weighted(0.3));
    let act = prop_oneof![
        8 => ask.prop_map(|(symbol, g, fail)| Act::Ask { symbol, g, fail }),
        1 => (1..60_u64).prop_map(Act::Wait),
        3 => (0..3_usize, prop::bool::weighted(0.3))
            .prop_map(|(tool, stops)| Act::TakeBack { tool, stops }),
    ];
    prop::collection::vec(act, 1..15)
}

/// Everything there is. What fails, fails because its arguments say so.
fn serve(flow: &Workflow, kept: Kept, clock: &Arc<ManualClock>) -> Server {
    let mut builder = kept.keep(Server::builder("s", "0").clock(clock.clone()));
    for (kind, name, _) in everything().filter(|(_, name, _)| *name != INSTANCE) {
        builder = match kind {
            Kind::Tool => builder.tool(tool(name)),
            Kind::Resource if name.contains('{') => builder.template(template(name)),
            Kind::Resource => builder.resource(Resource::text(name, "text")),
            Kind::Prompt => builder.prompt(prompt(name)),
        };
    }
    builder.workflow(flow.clone()).build().unwrap()
}

fn tool(name: &'static str) -> Tool {
    let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
    Tool::raw(name, schema, |arguments, context: Context| async move {
        match arguments.get("does").and_then(Value::as_str) {
            Some("fail") => Err(Failure::new("as asked")),
            Some("wait") => {
                context.cancelled().await;
                Err(Failure::stopped())
            }
            Some("hang") => std::future::pending().await,
            Some(_) | None => Ok("done"),
        }
    })
}

fn template(uri: &'static str) -> ResourceTemplate {
    ResourceTemplate::raw(uri, |values: JsonObject, _: Context| async move {
        match values["id"].as_str() {
            Some("13") => Err(Failure::new("no such item")),
            Some(_) | None => Ok("an item"),
        }
    })
}

fn prompt(name: &'static str) -> Prompt {
    let write = |arguments: JsonObject, _: Context| async move {
        if arguments.contains_key("fail") {
            return Err(Failure::new("no words"));
        }
        let message = PromptMessage::new_text(Role::User, "text");
        Ok(GetPromptResult::new(vec![message]))
    };
    Prompt::raw(name, write).optional("fail")
}

fn request((kind, name, asked): Symbol, g: i64, fail: bool) -> (&'static str, Value) {
    match kind {
        Kind::Tool => {
            let does = if fail { "fail" } else { "work" };
            let arguments = json!({"g": g, "does": does});
            ("tools/call", json!({"name": asked, "arguments": arguments}))
        }
        Kind::Resource if fail && name == TEMPLATE => {
            ("resources/read", json!({"uri": "item://13"}))
        }
        Kind::Resource => ("resources/read", json!({"uri": asked})),
        Kind::Prompt if fail => (
            "prompts/get",
            json!({"name": asked, "arguments": {"fail": "yes"}}),
        ),
        Kind::Prompt => ("prompts/get", json!({"name": asked})),
    }
}

/// Why an answer refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Why {
    /// A guard. Guards never hide.
    Guard,
    /// Anything else, by its code.
    Code(i64),
}

/// Why an answer refuses, if it does.
fn refused(kind: Kind, answer: &Value) -> Option<Why> {
    let code = match kind {
        Kind::Tool => refusal(&answer["result"]).as_i64()?,
        Kind::Resource | Kind::Prompt => {
            answer["error"].get("data")?.get("refusal")?;
            codes(answer).1
        }
    };
    let is_of_visits = answer.to_string().contains("may be visited");
    Some(match code == 1082 && !is_of_visits {
        true => Why::Guard,
        false => Why::Code(code),
    })
}

/// What the lists hold, by kind and name.
type Lists = BTreeSet<(Kind, String)>;

async fn lists(client: &mut Client) -> Lists {
    let mut all = Lists::new();
    for (kind, method, list, name) in [
        (Kind::Tool, "tools/list", "tools", "name"),
        (Kind::Resource, "resources/list", "resources", "uri"),
        (
            Kind::Resource,
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        ),
        (Kind::Prompt, "prompts/list", "prompts", "name"),
    ] {
        let answer = client.request(method, json!({})).await;
        for one in answer["result"][list].as_array().unwrap() {
            let is_new = all.insert((kind, one[name].as_str().unwrap().to_owned()));
            assert!(is_new, "listed twice: {answer}");
        }
    }
    all
}

/// Whether a symbol is in the lists: itself, or the template that its resource fits.
fn is_listed(lists: &Lists, (kind, name, _): Symbol) -> bool {
    let has = |name: &str| lists.contains(&(kind, name.to_owned()));
    has(name) || name == INSTANCE && has(TEMPLATE)
}

/// What is listed is refused by a guard at most. What is not listed is refused because of the state,
/// which no workflow's name is in, or because nothing can be called: visits are used up, an operator
/// must decide, the instance has ended.
fn fits(listed: bool, [finished, held]: [bool; 2], why: Option<Why>) -> bool {
    match (listed, why) {
        (true, why) => matches!(why, None | Some(Why::Guard)),
        (false, Some(Why::Code(1081))) => true,
        (false, why) if finished => why == Some(Why::Code(1085)),
        (false, why) if held => why == Some(Why::Code(1084)),
        (false, why) => why == Some(Why::Code(1082)),
    }
}

/// What was asked for, and why it was refused, if it was.
type Asked = (Symbol, Option<Why>);

struct Stage {
    flow: Workflow,
    kept: Kept,
    clock: Arc<ManualClock>,
    server: Server,
    client: Client,
    _connection: Connection,
    done: Vec<(Act, Option<Asked>)>,
    finished: bool,
    held: bool,
}

impl Stage {
    async fn open(flow: &Workflow, kept: Kept) -> Self {
        let clock = Arc::new(ManualClock::new());
        let server = serve(flow, kept, &clock);
        let (mut client, connection) = connect(&server);
        client.initialize().await;
        Self {
            flow: flow.clone(),
            kept,
            clock,
            server,
            client,
            _connection: connection,
            done: Vec::new(),
            finished: false,
            held: false,
        }
    }

    /// One like it, which has come there in the same way.
    async fn copy(&self) -> Result<Self, TestCaseError> {
        let mut copy = Self::open(&self.flow, self.kept).await;
        for (act, asked) in &self.done {
            prop_assert_eq!(copy.act(act).await, *asked, "{:?} went another way", act);
        }
        Ok(copy)
    }

    /// Whether it has ended, and whether it is held. Whoever looks may write an instance down, so
    /// nobody looks at one that goes on.
    async fn looked_at(self) -> Result<[bool; 2], TestCaseError> {
        let seen = self.server.operator().instances(None, 2).await.unwrap();
        prop_assert!(seen.len() <= 1, "{seen:?}");
        let one = seen.first();
        let has = |what: fn(&Summary) -> bool| one.is_some_and(what);
        Ok([has(|one| one.finished), has(|one| one.held.is_some())])
    }

    /// Waits until the server has done what it has to do.
    async fn pause(&mut self) {
        for _ in 0..5 {
            self.client.request("ping", json!({})).await;
        }
    }

    async fn act(&mut self, act: &Act) -> Option<Asked> {
        let mut asked = None;
        match act {
            Act::Ask { symbol, g, fail } => {
                let symbol = BOUND[*symbol];
                let (method, params) = request(symbol, *g, *fail);
                let answer = self.client.request(method, params).await;
                asked = Some((symbol, refused(symbol.0, &answer)));
            }
            Act::Wait(seconds) => self.clock.advance(Duration::from_secs(*seconds)),
            Act::TakeBack { tool, stops } => {
                let does = if *stops { "wait" } else { "hang" };
                let arguments = json!({"g": 0, "does": does});
                let params = json!({"name": BOUND[*tool].1, "arguments": arguments});
                let id = self.client.begin("tools/call", params).await;
                // If it is refused, that comes before the answer to the ping.
                let ping = self.client.begin("ping", json!({})).await;
                let mut is_open = true;
                loop {
                    let message = self.client.receive().await.unwrap();
                    is_open &= message["id"] != id;
                    if message["id"] == ping {
                        break;
                    }
                }
                if is_open {
                    let params = json!({"requestId": id});
                    self.client.notify("notifications/cancelled", params).await;
                    self.pause().await;
                    self.clock.advance(Duration::from_secs(5));
                }
            }
        }
        self.pause().await;
        self.done.push((act.clone(), asked));
        asked
    }

    /// Probes everything, and gives how much of what states bind was callable and how much was not.
    async fn check(&mut self) -> Result<[usize; 2], TestCaseError> {
        let listed = lists(&mut self.client).await;
        [self.finished, self.held] = self.copy().await?.looked_at().await?;
        let mut beside = self.copy().await?;
        prop_assert_eq!(&lists(&mut beside.client).await, &listed);
        let mut found = [0, 0];
        for symbol in everything() {
            let (method, params) = request(symbol, 0, false);
            let is_listed = is_listed(&listed, symbol);
            // What is refused, and what is always there, moves nothing: they share a copy.
            let answer = if is_listed && !ALWAYS.contains(&symbol) {
                let mut probe = self.copy().await?;
                probe.client.request(method, params).await
            } else {
                beside.client.request(method, params).await
            };
            let code = refused(symbol.0, &answer);
            prop_assert!(
                fits(is_listed, [self.finished, self.held], code),
                "{symbol:?}: {answer}"
            );
            if BOUND.contains(&symbol) {
                found[usize::from(!is_listed)] += 1;
            }
        }
        prop_assert_eq!(&lists(&mut beside.client).await, &listed);
        for symbol in ALWAYS {
            prop_assert!(is_listed(&listed, symbol), "{symbol:?}");
        }
        for symbol in NOWHERE {
            prop_assert!(!is_listed(&listed, symbol), "{symbol:?}");
        }
        Ok(found)
    }
}

async fn play(flow: &Workflow, kept: Kept, acts: &[Act]) -> Result<[usize; 4], TestCaseError> {
    let mut stage = Stage::open(flow, kept).await;
    let mut total = [0; 4];
    for act in acts {
        let listed = lists(&mut stage.client).await;
        let ends = [stage.finished, stage.held];
        if let Some((symbol, code)) = stage.act(act).await {
            let is_listed = is_listed(&listed, symbol);
            prop_assert!(fits(is_listed, ends, code), "{symbol:?}: {code:?}");
        }
        let [callable, not] = stage.check().await?;
        total[0] += callable;
        total[1] += not;
        total[2] += usize::from(stage.finished);
        total[3] += usize::from(stage.held);
    }
    Ok(total)
}

fn what_is_listed_is_callable_and_nothing_else_is(kept: Kept) {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 32,
        max_global_rejects: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let total = Cell::new([0; 4]);
    let played = runner.run(&(plans(), acts()), |(plan, acts)| {
        let Some(flow) = plan.build(kept) else {
            return Err(TestCaseError::reject("not a valid workflow"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let found = runtime.block_on(play(&flow, kept, &acts))?;
        let so_far = total.get();
        total.set([0, 1, 2, 3].map(|at| so_far[at] + found[at]));
        Ok(())
    });
    played.unwrap();
    let seen @ [callable, not, ..] = total.get();
    assert!(callable > 100 && not > 100, "too little was seen: {seen:?}");
}

#[test]
fn what_everybody_is_listed_is_callable_and_nothing_else_is() {
    what_is_listed_is_callable_and_nothing_else_is(Kept::Shared);
}

#[test]
fn what_a_session_is_listed_is_callable_and_nothing_else_is() {
    what_is_listed_is_callable_and_nothing_else_is(Kept::Session);
}

#[test]
fn so_it_is_on_a_server_that_was_given_no_store() {
    what_is_listed_is_callable_and_nothing_else_is(Kept::Own);
}

/// Chance brings most random instances to neither.
#[tokio::test]
async fn what_has_ended_and_what_is_held_is_listed_as_it_is_callable() {
    let edge = |to, terminal| PlanEdge { to, terminal };
    let binding = |symbol, success| PlanBinding {
        symbol,
        guarded: false,
        hold: true,
        success,
        error: None,
    };
    let state = |bindings| PlanState {
        terminal: false,
        max_visits: None,
        bindings,
        timer: None,
    };
    let plan = Plan {
        stays: true,
        states: vec![
            state(vec![
                binding(0, edge(1, false)),
                binding(5, edge(0, false)),
                binding(7, edge(0, false)),
            ]),
            state(vec![binding(1, edge(0, true)), binding(3, edge(1, false))]),
        ],
    };
    let ask = |symbol| Act::Ask {
        symbol,
        g: 0,
        fail: false,
    };
    let hold = |tool| Act::TakeBack { tool, stops: false };
    wherever_it_is_kept(async |kept| {
        let flow = plan.build(kept).unwrap();
        let ends = [ask(0), ask(1), ask(0)];
        let [.., finished, held] = play(&flow, kept, &ends).await.unwrap();
        assert_eq!((finished, held), (2, 0));
        let holds = [ask(0), hold(1), ask(3)];
        let [.., finished, held] = play(&flow, kept, &holds).await.unwrap();
        assert_eq!((finished, held), (0, 2));
    })
    .await;
}
