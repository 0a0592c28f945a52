//! What a message costs: reading its frame, and its way through the connection machine.
//!
//! `cargo bench -p interlock-proto` prints ratios, for those hold on other machines, too. A
//! harness of its own, because a ratio wants both sides measured in turns: what disturbs one
//! disturbs the other, and the least of many rounds was disturbed by nothing.
#![expect(
    clippy::print_stdout,
    reason = "what a benchmark prints is what it is run for"
)]

use interlock_proto::{
    Time, Version,
    connection::{Input, Key, Lane, Ledger, Rules, State, step},
    frame::{Limits, parse},
};
use serde_json::Value;
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const ROUNDS: usize = 200;
const ROUND: Duration = Duration::from_millis(1);
const PENDING: [i64; 3] = [1, 64, 1_000];

fn main() {
    println!("reading a frame, against reading the same as a `serde_json::Value`");
    for (name, message) in messages() {
        let bytes = message.as_bytes();
        let limits = Limits::default();
        let [frame, value] = least([
            &mut || drop(black_box(parse(black_box(bytes), &limits))),
            &mut || drop(black_box(serde_json::from_slice::<Value>(black_box(bytes)))),
        ]);
        let bytes = bytes.len();
        println!("  {name:<24} {bytes:>6} bytes {:>7.2} ×", frame / value);
    }

    println!("\none request through the connection and out, against one pending request");
    let [mut few, mut some, mut many] = PENDING.map(Busy::new);
    let costs = least([&mut || few.turn(), &mut || some.turn(), &mut || many.turn()]);
    for (pending, cost) in PENDING.iter().zip(costs) {
        println!("  {pending:>6} pending {:>30.2} ×", cost / costs[0]);
    }

    println!("\nthe same, against reading the frame of a small call as a `serde_json::Value`");
    let (_, call) = &messages()[1];
    let [step, value] = least([&mut || many.turn(), &mut || {
        drop(black_box(serde_json::from_str::<Value>(black_box(call))));
    }]);
    println!("  {:>6} pending {:>30.2} ×", PENDING[2], step / value);
}

/// Messages as clients send them.
fn messages() -> [(&'static str, String); 3] {
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#.to_owned();
    let call = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"5f0c","method":"tools/call","params":{{"name":"refund","arguments":{{"order":"A-1001","amount":12.5,"reasons":["late","broken"],"note":"{text}"}},"_meta":{{"progressToken":7}}}}}}"#
        )
    };
    let small = call("The parcel came open.");
    let large = call(&"The parcel came open, and this is a long letter about it. ".repeat(300));
    [("ping", ping), ("small call", small), ("large call", large)]
}

/// A connection on which so many requests are in flight.
struct Busy {
    rules: Rules,
    state: State,
    ledger: Ledger,
    next: Key,
}

impl Busy {
    fn new(pending: i64) -> Self {
        let mut busy = Self {
            rules: Rules::default(),
            state: State::Initialized(Version::V2025_11_25),
            ledger: Ledger::default(),
            next: key(pending / 2),
        };
        // Ids on both sides of the one that comes and goes.
        for id in (0..=pending).filter(|id| *id != pending / 2) {
            busy.play(Input::Request(key(id)));
        }
        assert_eq!(i64::try_from(busy.ledger.pending()), Ok(pending));
        busy
    }

    /// One more request comes, and is settled.
    fn turn(&mut self) {
        self.play(Input::Request(self.next.clone()));
        self.play(Input::Settled(self.next.clone()));
    }

    fn play(&mut self, input: Input) {
        let now = Time(1);
        let step = step(
            &self.rules,
            &self.state,
            &self.ledger,
            black_box(input),
            now,
        )
        .expect("there is room for it");
        self.ledger.apply(&step.effects, now);
        self.state = step.state;
    }
}

fn key(id: i64) -> Key {
    Key {
        id: id.into(),
        lane: Lane::Handshake,
    }
}

/// The least time that each took, in nanoseconds, all of them measured in turns.
fn least<const N: usize>(mut works: [&mut dyn FnMut(); N]) -> [f64; N] {
    let times = works.each_mut().map(|work| {
        let mut times = 1;
        while round(*work, times) < ROUND {
            times *= 2;
        }
        times
    });
    let mut least = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (index, work) in works.iter_mut().enumerate() {
            let took = round(*work, times[index]).as_nanos() as f64 / f64::from(times[index]);
            least[index] = least[index].min(took);
        }
    }
    least
}

#[expect(
    clippy::disallowed_methods,
    reason = "the crate takes time as an argument; measuring it is the point here"
)]
fn round(work: &mut dyn FnMut(), times: u32) -> Duration {
    let began = Instant::now();
    for _ in 0..times {
        work();
    }
    began.elapsed()
}
