//! What a decision of the gate costs: with few and with many states, with a guard and without.
//!
//! `cargo bench -p interlock-workflow` prints ratios, for those hold on other machines, too. What
//! is compared is measured in turns, and the least of many rounds was disturbed by nothing.
#![expect(
    clippy::print_stdout,
    reason = "what a benchmark prints is what it is run for"
)]

use cel::{Context, Program};
use interlock_workflow::{Call, End, Instance, Kind, Outcome, Pass, Workflow, to};
use serde_json::{Value, json};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const ROUNDS: usize = 300;
const ROUND: Duration = Duration::from_millis(1);
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
const GUARD: &str = "args.order == ctx.order && args.amount <= 100";

fn main() {
    println!("one call through the gate, judged and stepped, against a workflow of 10 states");
    println!("                 the same ten states   all of them");
    let near = laps(|_| 10);
    let all = laps(|states| states);
    for ((states, near), all) in SIZES.iter().zip(near).zip(all) {
        println!("  {states:>6} states {near:>17.2} × {all:>11.2} ×");
    }

    println!("\n{GUARD}");
    let guarded = Shop::new(Some(GUARD));
    let open = Shop::new(None);
    let program = Program::compile(GUARD).expect("the guard is CEL");
    let prepared = context(&guarded.args, &guarded.instance);
    let [with, without, plain, whole] = least([
        &mut || guarded.judge(),
        &mut || open.judge(),
        &mut || drop(black_box(program.execute(black_box(&prepared)))),
        &mut || {
            let context = context(&guarded.args, &guarded.instance);
            drop(black_box(program.execute(black_box(&context))));
        },
    ]);
    println!(
        "  a call judged with it, against one without  {:>8.2} ×",
        with / without
    );
    println!(
        "  that, against `cel` with its facts prepared {:>8.2} ×",
        with / plain
    );
    println!(
        "  that, against `cel` from the same facts     {:>8.2} ×",
        with / whole
    );
}

/// What a call costs in workflows of all sizes, by how many states are walked. Walking all of a
/// large one also shows what it costs to fetch it from memory.
fn laps(lap: impl Fn(usize) -> usize) -> [f64; 4] {
    let mut rings = SIZES.map(|states| Ring::new(states, lap(states)));
    let [few, some, more, most] = &mut rings;
    let costs = least([
        &mut || few.turn(),
        &mut || some.turn(),
        &mut || more.turn(),
        &mut || most.turn(),
    ]);
    costs.map(|cost| cost / costs[0])
}

/// A workflow whose states follow each other in a ring, and an instance that goes round.
struct Ring {
    flow: Workflow,
    instance: Instance,
    /// One for each state that is walked.
    names: Vec<String>,
    at: usize,
}

impl Ring {
    fn new(states: usize, lap: usize) -> Self {
        let mut builder = Workflow::builder("ring");
        for at in 0..states {
            builder = builder.state(format!("state {at}"), |s| {
                let next = format!("state {}", (at + 1) % states);
                let s = if at == 0 { s.initial() } else { s };
                s.tool(format!("tool_{at}"), |t| t.success(next).error("stop"))
            });
        }
        let flow = builder.state("stop", |s| s.terminal()).build();
        let flow = flow.expect("every state leads on, and to an end");
        Self {
            instance: flow.start(0),
            names: (0..lap).map(|at| format!("tool_{at}")).collect(),
            flow,
            at: 0,
        }
    }

    fn turn(&mut self) {
        let name = &self.names[self.at];
        let call = call(name, &Value::Null);
        let pass = self.flow.judge(black_box(&self.instance), black_box(&call));
        let Ok(Pass::Bound(binding)) = pass else {
            panic!("the gate refuses what it binds");
        };
        let last = self.at == self.names.len() - 1;
        let outcome = if last {
            Outcome::Error
        } else {
            Outcome::Success
        };
        let step = self.flow.step(&self.instance, binding, &End::from(outcome));
        self.instance.apply(&self.flow, &step, 0);
        self.at = (self.at + 1) % self.names.len();
    }
}

/// An instance that remembers an order, and a call about it.
struct Shop {
    flow: Workflow,
    instance: Instance,
    args: Value,
}

impl Shop {
    fn new(guard: Option<&str>) -> Self {
        let flow = Workflow::builder("shop")
            .state("new", |s| {
                s.initial().tool("lookup", |t| {
                    t.success(to("found").set("order", "args.order"))
                })
            })
            .state("found", |s| {
                s.tool("refund", |t| match guard {
                    Some(guard) => t.when(guard).success("paid"),
                    None => t.success("paid"),
                })
            })
            .state("paid", |s| s.terminal())
            .build()
            .expect("it is valid");
        let args = json!({"order": "A-1001", "amount": 12, "reasons": ["late", "broken"]});
        let mut instance = flow.start(0);
        let Ok(Pass::Bound(lookup)) = flow.judge(&instance, &call("lookup", &args)) else {
            panic!("the gate refuses what it binds");
        };
        let end = End {
            args: &args,
            ..End::from(Outcome::Success)
        };
        let step = flow.step(&instance, lookup, &end);
        instance.apply(&flow, &step, 0);
        Self {
            flow,
            instance,
            args,
        }
    }

    fn judge(&self) {
        let call = call("refund", black_box(&self.args));
        let pass = self.flow.judge(black_box(&self.instance), &call);
        assert!(black_box(pass).is_ok());
    }
}

fn call<'a>(name: &'a str, args: &'a Value) -> Call<'a> {
    Call {
        kind: Kind::Tool,
        name,
        args,
        principal: &Value::Null,
    }
}

/// What plain `cel` needs to know.
fn context(args: &Value, instance: &Instance) -> Context<'static, 'static> {
    let mut context = Context::default();
    for (name, value) in [
        ("args", args),
        ("ctx", &Value::Object(instance.memory().clone())),
    ] {
        let value = cel::to_value(value).expect("JSON is plain");
        context.add_variable_from_value(name, value);
    }
    context
}

/// The least time of each, measured in turns, in nanoseconds.
fn least<const N: usize>(mut sides: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut least = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (side, best) in sides.iter_mut().zip(&mut least) {
            *best = best.min(round(*side));
        }
    }
    least
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate takes time as an argument; measuring it is the point here"
)]
fn round(side: &mut dyn FnMut()) -> f64 {
    const AT_ONCE: u32 = 50;
    let (began, mut times) = (Instant::now(), 0_u32);
    while began.elapsed() < ROUND {
        for _ in 0..AT_ONCE {
            side();
        }
        times += AT_ONCE;
    }
    began.elapsed().as_nanos() as f64 / f64::from(times)
}
