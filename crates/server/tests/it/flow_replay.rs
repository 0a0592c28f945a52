//! For any workflow and any traffic, the journal gives the present state: of one instance in a store
//! that others could have, and of each session's own on a server that was given none.

use interlock::{
    Context, Failure, Operator, Server, Tool, Workflow,
    journal::{Entry, What, replay},
    model::JsonObject,
    store::{Key, Kind, MemoryStore, Seq, Store, Time},
    workflow::{self, Finish, Instance, Outcome, Record, Scope, Settings, Target, end, to},
};
use interlock_testkit::{Client, ManualClock, connect};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const TOOLS: [&str; 4] = ["t0", "t1", "t2", "t3"];

#[derive(Clone, Debug)]
struct Plan {
    stays: bool,
    keeps: bool,
    states: Vec<PlanState>,
}

#[derive(Clone, Debug)]
struct PlanState {
    terminal: bool,
    max_visits: Option<u32>,
    bindings: Vec<PlanBinding>,
    timers: Vec<PlanEdge>,
    /// What an answer of the client's model leads to, and what none does.
    sampling: Option<(PlanEdge, Option<PlanEdge>)>,
}

#[derive(Clone, Debug)]
struct PlanBinding {
    tool: usize,
    guarded: bool,
    /// Whatever comes of a call, it moves nothing.
    stays: bool,
    hold: bool,
    edges: Vec<(Outcome, Vec<PlanEdge>)>,
}

#[derive(Clone, Debug)]
struct PlanEdge {
    to: usize,
    terminal: bool,
    set: Option<usize>,
}

/// What edges remember. One cannot always be worked out.
const VALUES: [&str; 4] = [
    "visits",
    "args.g",
    "has(ctx.k1) ? [ctx.k1, 0.5, null] : {'first': state}",
    "result.structuredContent.n / args.g",
];

fn edges(states: usize) -> impl Strategy<Value = PlanEdge> {
    let set = prop::option::of(0..VALUES.len());
    (0..states, prop::bool::weighted(0.2), set).prop_map(|(to, terminal, set)| PlanEdge {
        to,
        terminal,
        set,
    })
}

fn bindings(states: usize) -> impl Strategy<Value = PlanBinding> {
    let outcomes = prop::sample::subsequence(Outcome::ALL.to_vec(), 1..=5);
    let alternatives = prop::collection::vec(edges(states), 1..=3);
    let all = prop::collection::vec(alternatives, 5);
    let flags = [0.3, 0.3, 0.2].map(prop::bool::weighted);
    (0..TOOLS.len(), flags, outcomes, all).prop_map(
        |(tool, [guarded, stays, hold], outcomes, edges)| PlanBinding {
            tool,
            guarded,
            stays,
            hold,
            edges: outcomes.into_iter().zip(edges).collect(),
        },
    )
}

fn states(count: usize) -> impl Strategy<Value = PlanState> {
    let max_visits = prop::option::weighted(0.2, 1..4_u32);
    let bindings = prop::collection::vec(bindings(count), 1..4);
    let timers = prop::collection::vec(edges(count), 0..3);
    let sampling = (edges(count), prop::option::of(edges(count)));
    let sampling = prop::option::weighted(0.5, sampling);
    let terminal = prop::bool::weighted(0.1);
    (terminal, max_visits, bindings, timers, sampling).prop_map(
        |(terminal, max_visits, mut bindings, timers, sampling)| {
            bindings.sort_by_key(|binding| binding.tool);
            bindings.dedup_by_key(|binding| binding.tool);
            PlanState {
                terminal,
                max_visits,
                bindings,
                timers,
                sampling,
            }
        },
    )
}

fn plans() -> impl Strategy<Value = Plan> {
    let states = (1..6_usize).prop_flat_map(|count| prop::collection::vec(states(count), count));
    let stays = prop::bool::weighted(0.2);
    (stays, any::<bool>(), states).prop_map(|(stays, keeps, states)| Plan {
        stays,
        keeps,
        states,
    })
}

impl PlanEdge {
    fn target(&self, guard: Option<usize>, by_time: bool) -> Target {
        let name = format!("s{}", self.to);
        let mut target = if self.terminal { end(name) } else { to(name) };
        if let Some(set) = self.set {
            let value = if by_time { VALUES[0] } else { VALUES[set] };
            target = target.set(format!("k{}", set % 2), value);
        }
        match guard {
            Some(g) => target.when(format!("args.g == {g}")),
            None => target,
        }
    }
}

impl Plan {
    fn build(&self, scope: Scope) -> Option<Workflow> {
        let settings = Settings {
            scope,
            finish: if self.stays {
                Finish::Stay
            } else {
                Finish::Restart
            },
            keep: if self.keeps {
                vec!["k1".to_owned()]
            } else {
                Vec::new()
            },
            ..Settings::default()
        };
        let mut builder = Workflow::builder("w").settings(settings);
        for (at, plan) in self.states.iter().enumerate() {
            builder = builder.state(format!("s{at}"), |s| plan.define(at, s));
        }
        builder.build().ok()
    }
}

impl PlanState {
    fn define(&self, at: usize, mut s: workflow::StateBuilder) -> workflow::StateBuilder {
        if at == 0 {
            s = s.initial();
        }
        if self.terminal {
            s = s.terminal();
        }
        if let Some(most) = self.max_visits {
            s = s.max_visits(most);
        }
        for binding in &self.bindings {
            s = s.tool(TOOLS[binding.tool], |mut t| {
                if binding.guarded {
                    t = t.when("args.g < 2");
                }
                if binding.stays {
                    return t.success(format!("s{at}"));
                }
                if binding.hold {
                    t = t.hold();
                }
                for (outcome, edges) in &binding.edges {
                    if binding.hold && *outcome == Outcome::Unknown {
                        continue;
                    }
                    let last = edges.len() - 1;
                    for (at, edge) in edges.iter().enumerate() {
                        let guard = (at < last).then_some(at);
                        t = t.on(*outcome, edge.target(guard, false));
                    }
                }
                t
            });
        }
        for (at, edge) in self.timers.iter().enumerate() {
            let after = Duration::from_secs(40 * (at as u64 + 1));
            s = s.after(after, edge.target(None, true));
        }
        if let Some((success, error)) = &self.sampling {
            s = s.sampling(1, |m| {
                let heard = success.target(None, true).set("k0", "result.model");
                let m = m.user("{{visits}}?").success(heard);
                match error {
                    Some(error) => m.error(error.target(None, true)),
                    None => m,
                }
            });
        }
        s
    }
}

#[derive(Clone, Debug)]
enum Act {
    Call {
        tool: usize,
        g: i64,
        fail: bool,
    },
    /// Several calls at once, by two clients.
    Burst(Vec<(usize, i64)>),
    Wait(u64),
    /// A call that does not end by itself, and is taken back or not.
    Hang {
        tool: usize,
        cancel: bool,
        stops: bool,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let tool = || 0..TOOLS.len();
    let act = prop_oneof![
        6 => (tool(), 0..3_i64, prop::bool::weighted(0.25))
            .prop_map(|(tool, g, fail)| Act::Call { tool, g, fail }),
        2 => prop::collection::vec((tool(), 0..3_i64), 2..5).prop_map(Act::Burst),
        2 => (1..100_u64).prop_map(Act::Wait),
        1 => (tool(), any::<bool>(), any::<bool>())
            .prop_map(|(tool, cancel, stops)| Act::Hang { tool, cancel, stops }),
    ];
    prop::collection::vec(act, 1..25)
}

/// A tool that does what its arguments say, at once or not quite.
fn puppet(name: &'static str, at_once: bool) -> Tool {
    let schema = JsonObject::from_iter([("type".to_owned(), json!("object"))]);
    Tool::raw(
        name,
        schema,
        move |arguments, context: Context| async move {
            let says = |what: &str| arguments.get(what) == Some(&json!(true));
            if says("hang") {
                if says("stops") {
                    context.cancelled().await;
                    return Err(Failure::stopped());
                }
                std::future::pending::<()>().await;
            }
            if says("fail") {
                return Err(Failure::new("as asked"));
            }
            if !at_once {
                tokio::task::yield_now().await;
            }
            Ok(interlock::Json(json!({"n": 1})))
        },
    )
}

/// Reads so many answers, and answers what the client's model is asked meanwhile: with something,
/// with an error, with nonsense. Which instance the answers were about.
async fn answers(client: &mut Client, mut open: usize) -> Option<String> {
    let mut instance = None;
    while open > 0 {
        let message = client.receive().await.unwrap();
        if message["method"] == "sampling/createMessage" {
            let id = message["id"].as_u64().unwrap();
            let mut answer = json!({"jsonrpc": "2.0", "id": id});
            match id % 4 {
                0 => answer["error"] = json!({"code": -1, "message": "no"}),
                1 => answer["result"] = json!({"action": "decline"}),
                _ => answer["result"] = crate::flow_sampling::sample("yes"),
            }
            client.send(answer).await;
        } else if message.get("method").is_none() {
            let place = &message["result"]["_meta"]["dev.interlock/workflow"];
            instance = place["instance"].as_str().map(str::to_owned).or(instance);
            open -= 1;
        }
    }
    instance
}

/// How much a journal has to tell.
#[derive(Clone, Copy, Default)]
struct Told {
    entries: usize,
    sampled: usize,
    /// Calls that could not move anything.
    ran: usize,
}

impl Told {
    fn of(entries: &[Entry]) -> Self {
        let count = |is: fn(&What) -> bool| entries.iter().filter(|entry| is(&entry.what)).count();
        Self {
            entries: entries.len(),
            sampled: count(|what| matches!(what, What::Sampled { .. })),
            ran: count(|what| matches!(what, What::Ran { .. })),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            sampled: self.sampled + other.sampled,
            ran: self.ran + other.ran,
        }
    }
}

/// Where instances are kept.
enum Kept {
    /// In a store that others could have: one for all.
    Given(MemoryStore),
    /// Nowhere but in the server: one for each session.
    Own(Operator),
}

struct Stage {
    flow: Workflow,
    clock: Arc<ManualClock>,
    kept: Kept,
    one: Client,
    two: Client,
    /// The instance of the first client, once it is known.
    instance: Option<String>,
}

impl Stage {
    async fn act(&mut self, act: &Act) {
        match act {
            Act::Call { tool, g, fail } => {
                let arguments = json!({"g": g, "fail": fail});
                let params = json!({"name": TOOLS[*tool], "arguments": arguments});
                self.one.begin("tools/call", params).await;
                let about = answers(&mut self.one, 1).await;
                self.instance = about.or(self.instance.take());
            }
            Act::Burst(calls) => {
                let mut open = [0, 0];
                for (at, (tool, g)) in calls.iter().enumerate() {
                    let client = if at % 2 == 0 {
                        &mut self.one
                    } else {
                        &mut self.two
                    };
                    let params = json!({"name": TOOLS[*tool], "arguments": {"g": g}});
                    client.begin("tools/call", params).await;
                    open[at % 2] += 1;
                }
                tokio::join!(
                    answers(&mut self.one, open[0]),
                    answers(&mut self.two, open[1])
                );
            }
            Act::Wait(seconds) => self.clock.advance(Duration::from_secs(*seconds)),
            Act::Hang {
                tool,
                cancel,
                stops,
            } => {
                let arguments = json!({"g": 0, "hang": true, "stops": stops});
                let params = json!({"name": TOOLS[*tool], "arguments": arguments});
                let id = self.one.begin("tools/call", params).await;
                // If it was refused, that comes before the answer to the ping.
                let ping = self.one.begin("ping", json!({})).await;
                let mut is_open = true;
                loop {
                    let message = self.one.receive().await.unwrap();
                    if message["id"] == id {
                        is_open = false;
                    }
                    if message["id"] == ping {
                        break;
                    }
                }
                if !is_open {
                    return;
                }
                if *cancel {
                    let params = json!({"requestId": id});
                    self.one.notify("notifications/cancelled", params).await;
                    self.pause().await;
                    self.clock.advance(Duration::from_secs(10));
                    self.pause().await;
                } else {
                    self.clock.advance(Duration::from_secs(31));
                    answers(&mut self.one, 1).await;
                }
            }
        }
        self.pause().await;
    }

    /// Lets the server do what it has to do.
    async fn pause(&mut self) {
        for _ in 0..5 {
            self.two.request("ping", json!({})).await;
            self.one.request("ping", json!({})).await;
        }
    }

    /// What is kept is what the journal tells, and what clients see.
    async fn check(&mut self) -> Result<Told, TestCaseError> {
        match &self.kept {
            Kept::Given(store) => self.check_given(&store.clone()).await,
            Kept::Own(operator) => self.check_own(&operator.clone()).await,
        }
    }

    async fn check_given(&mut self, store: &MemoryStore) -> Result<Told, TestCaseError> {
        let key = Key::new(Kind::from_static("instance"), "global:w").unwrap();
        let record = store.load(&key, Time(0)).await.unwrap();
        let journal = store.journal(&key, Seq::START, 100_000).await.unwrap();
        let Some(record) = record else {
            return Ok(Told::default());
        };
        let stored: Value = serde_json::from_slice(&record.value.bytes).unwrap();
        let stored: Record = serde_json::from_value(stored["run"].clone()).unwrap();
        let stored = self.flow.restore(stored).unwrap();
        let entries = journal
            .iter()
            .map(|logged| serde_json::from_slice(&logged.bytes));
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>().unwrap();
        let replayed = self.replayed(&entries)?;
        prop_assert_eq!(&replayed, &stored, "{:#?}", entries);
        self.sees(&replayed).await?;
        Ok(Told::of(&entries))
    }

    async fn check_own(&mut self, operator: &Operator) -> Result<Told, TestCaseError> {
        let mut told = Told::default();
        for summary in operator.instances(None, 10).await.unwrap() {
            let id = &summary.id;
            let entries = operator.history(id, 0, 1_000).await.unwrap();
            let entries: Vec<_> = entries.into_iter().map(|one| one.entry).collect();
            let replayed = self.replayed(&entries)?;
            let (position, shown) = (replayed.position(), operator.show(id).await.unwrap());
            let name = self.flow.state_name(position.state);
            prop_assert_eq!(
                (&*shown.summary.state, shown.summary.finished),
                (name, position.finished)
            );
            prop_assert_eq!(&shown.memory, replayed.memory(), "{:#?}", entries);
            prop_assert_eq!(shown.summary.due, replayed.due());
            prop_assert_eq!(shown.summary.held.is_some(), replayed.held().is_some());
            for (state, visits) in &shown.visits {
                let state = self.flow.state_id(state).unwrap();
                prop_assert_eq!(replayed.visits(state), *visits, "{:#?}", entries);
            }
            if self.instance.as_ref() == Some(id) {
                self.sees(&replayed).await?;
            }
            told = told.and(Told::of(&entries));
        }
        Ok(told)
    }

    fn replayed(&self, entries: &[Entry]) -> Result<Instance, TestCaseError> {
        prop_assert!(entries.iter().map(|entry| entry.at).is_sorted());
        Ok(replay(&self.flow, entries).unwrap())
    }

    /// The first client is shown what is callable there.
    async fn sees(&mut self, instance: &Instance) -> Result<(), TestCaseError> {
        let seen = self.one.tools().await;
        let visible = self.flow.visible(instance.position(), workflow::Kind::Tool);
        prop_assert_eq!(seen, visible.collect::<Vec<_>>());
        Ok(())
    }
}

async fn play(flow: Workflow, acts: &[Act]) -> Result<Told, TestCaseError> {
    let clock = Arc::new(ManualClock::new());
    let store = (flow.settings().scope == Scope::Global).then(MemoryStore::default);
    let used: Vec<_> = flow
        .artifacts(workflow::Kind::Tool)
        .map(str::to_owned)
        .collect();
    let tools = TOOLS
        .into_iter()
        .filter(|name| used.iter().any(|used| used == name));
    let mut builder = Server::builder("s", "0").clock(clock.clone());
    if let Some(store) = &store {
        builder = builder.store(Arc::new(store.clone()));
    }
    let tools = tools.map(|name| puppet(name, store.is_none()));
    let server = tools.fold(builder.workflow(flow.clone()), interlock::Builder::tool);
    let server = server.build().unwrap();
    let (mut one, _one) = connect(&server);
    let (mut two, _two) = connect(&server);
    // One can be asked, and the other one cannot.
    crate::flow_sampling::introduce(&mut one).await;
    two.initialize().await;
    let mut stage = Stage {
        flow,
        clock,
        kept: match store {
            Some(store) => Kept::Given(store),
            None => Kept::Own(server.operator()),
        },
        one,
        two,
        instance: None,
    };
    let mut told = Told::default();
    for act in acts {
        stage.act(act).await;
        told = stage.check().await?;
    }
    Ok(told)
}

/// Plays many workflows, and says how much there was to tell in all.
fn play_many(scope: Scope) -> Told {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 128,
        max_global_rejects: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let total = std::cell::Cell::new(Told::default());
    let played = runner.run(&(plans(), acts()), |(plan, acts)| {
        let Some(flow) = plan.build(scope) else {
            return Err(TestCaseError::reject("not a valid workflow"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let told = runtime.block_on(play(flow, &acts))?;
        total.set(total.get().and(told));
        Ok(())
    });
    played.unwrap();
    total.get()
}

#[test]
fn a_journal_gives_the_present_state() {
    let told = play_many(Scope::Global);
    assert!(told.entries > 500, "{} entries say little", told.entries);
    assert!(told.sampled > 20, "{} answers say little", told.sampled);
    assert!(told.ran > 50, "{} calls that stay say little", told.ran);
}

#[test]
fn so_does_that_of_a_session_whose_server_was_given_no_store() {
    let told = play_many(Scope::Session);
    assert!(told.entries > 500, "{} entries say little", told.entries);
    assert!(told.sampled > 20, "{} answers say little", told.sampled);
    assert!(told.ran > 50, "{} calls that stay say little", told.ran);
}
