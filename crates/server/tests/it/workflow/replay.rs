//! For any workflow and any traffic, and whatever operators decide, the journal gives the present
//! state: of one instance in a store that others could have, and of each session's own, there and on a
//! server that was given none.

use crate::support::{
    kept::Kept,
    sampling::{introduce, sample},
};
use interlock::{
    Context, Done, Effect, EffectContext, Failure, OnFailure, Operator, OperatorError, Server,
    Summary, Tool, Workflow,
    journal::{Entry, What, replay},
    model::JsonObject,
    store::{Key, Kind, MemoryStore, Seq, Store, Time},
    workflow::{self, Finish, Instance, Outcome, Record, Scope, Settings, Target, end, to},
};
use interlock_testkit::{Client, ManualClock, connect};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const TOOLS: [&str; 4] = ["t0", "t1", "t2", "t3"];

#[derive(Clone, Debug)]
struct Plan {
    stays: bool,
    keeps: bool,
    /// Which tools end at once. The others do not quite.
    at_once: [bool; TOOLS.len()],
    /// Where an effect leads that fails; nowhere if not said.
    leads_to: Option<usize>,
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
    has_effect: bool,
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
    let flags = [0.2, 0.4].map(prop::bool::weighted);
    (0..states, flags, set).prop_map(|(to, [terminal, has_effect], set)| PlanEdge {
        to,
        terminal,
        set,
        has_effect,
    })
}

fn bindings(states: usize) -> impl Strategy<Value = PlanBinding> {
    let outcomes = prop::sample::subsequence(Outcome::ALL.to_vec(), 1..=5);
    let alternatives = prop::collection::vec(edges(states), 1..=3);
    let all = prop::collection::vec(alternatives, 5);
    let flags = [0.3, 0.3, 0.3].map(prop::bool::weighted);
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
    let leads_to = prop::option::weighted(0.7, any::<prop::sample::Index>());
    (stays, any::<bool>(), any::<[bool; 4]>(), leads_to, states).prop_map(
        |(stays, keeps, at_once, leads_to, states)| Plan {
            stays,
            keeps,
            at_once,
            leads_to: leads_to.map(|index| index.index(states.len())),
            states,
        },
    )
}

impl PlanEdge {
    fn target(&self, guard: Option<usize>, by_time: bool) -> Target {
        let name = format!("s{}", self.to);
        let mut target = if self.terminal { end(name) } else { to(name) };
        if let Some(set) = self.set {
            let value = if by_time { VALUES[0] } else { VALUES[set] };
            target = target.set(format!("k{}", set % 2), value);
        }
        if self.has_effect {
            target = target.effect("note");
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

    /// What edges set off: every other time it fails, and every third time it takes its time.
    fn effect(&self) -> Effect {
        let runs = AtomicUsize::new(0);
        let note = Effect::new("note", move |_: Done, _: EffectContext| {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            async move {
                if run.is_multiple_of(3) {
                    tokio::task::yield_now().await;
                }
                match run % 2 {
                    0 => Err(Failure::new("no paper")),
                    _ => Ok(()),
                }
            }
        });
        match self.leads_to {
            Some(state) => note.on_failure(OnFailure::take(format!("s{state}"))),
            None => note,
        }
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
    /// Several calls at once, by so many clients.
    Burst {
        clients: usize,
        calls: Vec<(usize, i64)>,
    },
    /// An operator decides, while the first client makes these calls.
    Operate {
        order: Order,
        calls: Vec<(usize, i64)>,
    },
    Wait(u64),
    /// A call that does not end by itself, and is taken back or not. An operator may settle it if it
    /// is held then.
    Hang {
        tool: usize,
        cancel: bool,
        stops: bool,
        settle: Option<Outcome>,
    },
}

#[derive(Clone, Debug)]
enum Order {
    Reset,
    /// To one of the states.
    Move(prop::sample::Index),
    Abort,
    Settle(Outcome),
}

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![
        3 => Just(Order::Reset),
        4 => any::<prop::sample::Index>().prop_map(Order::Move),
        1 => Just(Order::Abort),
        5 => prop::sample::select(&Outcome::ALL[..]).prop_map(Order::Settle),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let tool = || 0..TOOLS.len();
    let outcome = prop::sample::select(&Outcome::ALL[..]);
    let act = prop_oneof![
        6 => (tool(), 0..3_i64, prop::bool::weighted(0.25))
            .prop_map(|(tool, g, fail)| Act::Call { tool, g, fail }),
        2 => (1..=2_usize, prop::collection::vec((tool(), 0..3_i64), 2..5))
            .prop_map(|(clients, calls)| Act::Burst { clients, calls }),
        2 => (orders(), prop::collection::vec((tool(), 0..3_i64), 0..3))
            .prop_map(|(order, calls)| Act::Operate { order, calls }),
        2 => (1..100_u64).prop_map(Act::Wait),
        2 => (tool(), prop::bool::weighted(0.7), prop::bool::weighted(0.3), prop::option::of(outcome))
            .prop_map(|(tool, cancel, stops, settle)| Act::Hang { tool, cancel, stops, settle }),
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

async fn begin(client: &mut Client, (tool, g): (usize, i64)) {
    let params = json!({"name": TOOLS[tool], "arguments": {"g": g}});
    client.begin("tools/call", params).await;
}

async fn obeyed(
    operator: &Operator,
    flow: &Workflow,
    id: &str,
    order: &Order,
) -> Result<Summary, OperatorError> {
    match order {
        Order::Reset => operator.reset(id, "").await,
        Order::Move(to) => {
            let states: Vec<_> = flow.states().collect();
            operator
                .move_to(id, flow.state_name(*to.get(&states)), "")
                .await
        }
        Order::Abort => operator.abort(id, "").await,
        Order::Settle(outcome) => operator.settle(id, *outcome, "").await,
    }
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
                _ => answer["result"] = sample("yes"),
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
    /// What operators decided.
    decided: usize,
    /// Effects that failed and led somewhere.
    diverted: usize,
}

impl Told {
    fn of(entries: &[Entry]) -> Self {
        let count = |is: fn(&What) -> bool| entries.iter().filter(|entry| is(&entry.what)).count();
        Self {
            entries: entries.len(),
            sampled: count(|what| matches!(what, What::Sampled { .. })),
            ran: count(|what| matches!(what, What::Ran { .. })),
            decided: count(|what| {
                matches!(
                    what,
                    What::Reset | What::Moved { .. } | What::Aborted { .. } | What::Settled { .. }
                )
            }),
            diverted: count(|what| matches!(what, What::Diverted { .. })),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            sampled: self.sampled + other.sampled,
            ran: self.ran + other.ran,
            decided: self.decided + other.decided,
            diverted: self.diverted + other.diverted,
        }
    }
}

struct Stage {
    flow: Workflow,
    clock: Arc<ManualClock>,
    /// Where the one instance is that everybody shares; nothing if each session has its own.
    shared: Option<MemoryStore>,
    operator: Operator,
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
            Act::Burst { clients, calls } => {
                let mut open = [0, 0];
                for (at, call) in calls.iter().enumerate() {
                    let by = at % clients;
                    begin([&mut self.one, &mut self.two][by], *call).await;
                    open[by] += 1;
                }
                tokio::join!(
                    answers(&mut self.one, open[0]),
                    answers(&mut self.two, open[1])
                );
            }
            Act::Operate { order, calls } => {
                for call in calls {
                    begin(&mut self.one, *call).await;
                }
                self.operate(order, calls.len()).await;
            }
            Act::Wait(seconds) => self.clock.advance(Duration::from_secs(*seconds)),
            Act::Hang {
                tool,
                cancel,
                stops,
                settle,
            } => {
                let arguments = json!({"g": 0, "hang": true, "stops": stops});
                // Of those that may be called, if there are any.
                let listed = self.one.tools().await;
                let name = listed.get(tool % listed.len().max(1));
                let name = name.map_or(TOOLS[*tool], String::as_str);
                let params = json!({"name": name, "arguments": arguments});
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
                if let Some(outcome) = settle {
                    self.operate(&Order::Settle(*outcome), 0).await;
                }
            }
        }
        self.pause().await;
    }

    /// An operator decides about the first client's instance, who waits for so many answers.
    async fn operate(&mut self, order: &Order, open: usize) {
        let Some(id) = self.instance.clone() else {
            answers(&mut self.one, open).await;
            return;
        };
        let (obeyed, _) = tokio::join!(
            obeyed(&self.operator, &self.flow, &id, order),
            answers(&mut self.one, open)
        );
        let is_fine = matches!(
            obeyed,
            Ok(_)
                | Err(OperatorError::Finished(_)
                    | OperatorError::NotHeld(_)
                    | OperatorError::Unsettled { .. })
        );
        assert!(is_fine, "{obeyed:?}");
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
        match self.shared.clone() {
            Some(store) => self.check_shared(&store).await,
            None => self.check_sessions(&self.operator.clone()).await,
        }
    }

    async fn check_shared(&mut self, store: &MemoryStore) -> Result<Told, TestCaseError> {
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

    async fn check_sessions(&mut self, operator: &Operator) -> Result<Told, TestCaseError> {
        let mut told = Told::default();
        for summary in operator.instances(None, 10).await.unwrap() {
            let id = &summary.id;
            let entries = operator.history(id, None, 1_000).await.unwrap();
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

async fn play(
    (plan, flow): (&Plan, Workflow),
    acts: &[Act],
    kept: Kept,
) -> Result<Told, TestCaseError> {
    let clock = Arc::new(ManualClock::new());
    let store = (kept != Kept::Own).then(MemoryStore::default);
    let used: Vec<_> = flow
        .artifacts(workflow::Kind::Tool)
        .map(str::to_owned)
        .collect();
    let tools = TOOLS
        .into_iter()
        .zip(plan.at_once)
        .filter(|(name, _)| used.iter().any(|used| used == name));
    let mut builder = Server::builder("s", "0").clock(clock.clone());
    builder = builder.effect(plan.effect());
    if let Some(store) = &store {
        builder = builder.store(Arc::new(store.clone()));
    }
    let tools = tools.map(|(name, at_once)| puppet(name, at_once));
    let server = tools.fold(builder.workflow(flow.clone()), interlock::Builder::tool);
    let server = server.build().unwrap();
    let (mut one, _one) = connect(&server);
    let (mut two, _two) = connect(&server);
    // One can be asked, and the other one cannot.
    introduce(&mut one).await;
    two.initialize().await;
    let mut stage = Stage {
        flow,
        clock,
        shared: store.filter(|_| kept == Kept::Shared),
        operator: server.operator(),
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
fn play_many(kept: Kept) -> Told {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 128,
        max_global_rejects: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let total = std::cell::Cell::new(Told::default());
    let played = runner.run(&(plans(), acts()), |(plan, acts)| {
        let Some(flow) = plan.build(kept.scope()) else {
            return Err(TestCaseError::reject("not a valid workflow"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let told = runtime.block_on(play((&plan, flow), &acts, kept))?;
        total.set(total.get().and(told));
        Ok(())
    });
    played.unwrap();
    total.get()
}

#[track_caller]
fn says_something(told: Told) {
    assert!(told.entries > 500, "{} entries say little", told.entries);
    assert!(told.sampled > 20, "{} answers say little", told.sampled);
    assert!(told.ran > 50, "{} calls that stay say little", told.ran);
    assert!(told.decided > 20, "{} orders say little", told.decided);
    assert!(told.diverted > 5, "{} effects say little", told.diverted);
}

#[test]
fn a_journal_gives_the_present_state() {
    says_something(play_many(Kept::Shared));
}

#[test]
fn so_does_that_of_a_session() {
    says_something(play_many(Kept::Session));
}

#[test]
fn so_does_that_of_a_session_whose_server_was_given_no_store() {
    says_something(play_many(Kept::Own));
}
