//! `docs/machines.md`: each machine's diagram, all that can happen to it, and what holds of it.
//!
//! It is made from the functions that ship. `UPDATE_DIAGRAMS=1 cargo test -p interlock-proto`
//! rewrites it; without that, a file that is out of date fails.

mod invariants;

use crate::diagrams::TIMES;
use interlock_proto::{
    connection::Connection,
    elicitation::Elicitation,
    invocation::Invocation,
    machine::{Machine, mermaid, walk},
    negotiation::Negotiation,
    session::Session,
    subscription::Subscription,
    task::Task,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt::Write,
    path::Path,
};

#[test]
fn the_page_about_the_machines_is_current() {
    let page = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/machines.md");
    if std::env::var_os("UPDATE_DIAGRAMS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == page,
        "{} is out of date: run UPDATE_DIAGRAMS=1 cargo test -p interlock-proto",
        path.display()
    );
}

fn page() -> String {
    let mut page = String::from(
        "# The machines\n\n\
         Made by `UPDATE_DIAGRAMS=1 cargo test -p interlock-proto` from the functions that ship; \
         a test keeps it current.\n\n\
         Each table says what every input leads to in every state. It was found by trying samples of \
         all inputs at times before and after every deadline, so a cell may hold several results: \
         which one it is depends on the data, on what is in flight, and on the time. *Nothing* means \
         that neither state nor ledger changes and nothing is ordered; a number is the code of a \
         refusal, and a refusal changes nothing. An effect that stands there once may be ordered for \
         several requests.\n\n\
         Each invariant names the tests and the model properties that hold it; `cargo xtask tidy` \
         checks that they exist.\n",
    );
    section::<Connection>(&mut page);
    section::<Negotiation>(&mut page);
    section::<Invocation>(&mut page);
    section::<Session>(&mut page);
    section::<Subscription>(&mut page);
    section::<Task>(&mut page);
    section::<Elicitation>(&mut page);
    page.push_str("\n## All of them\n\n");
    invariants::write(&mut page, "all");
    page
}

fn section<M: Machine>(page: &mut String) {
    let mut name = M::NAME.to_owned();
    name[..1].make_ascii_uppercase();
    let drawn = mermaid::<M>(&walk::<M>(&TIMES));
    write!(page, "\n## {name}\n\n```mermaid\n{drawn}```\n\n").unwrap();
    page.push_str("| State | Input | Leads to |\n|---|---|---|\n");
    let cells = results::<M>();
    for state in states::<M>() {
        for input in inputs::<M>() {
            let results: Vec<_> = cells[&(state, input)].iter().map(String::as_str).collect();
            writeln!(page, "| {state} | {input} | {} |", results.join("; or ")).unwrap();
        }
    }
    page.push('\n');
    invariants::write(page, M::NAME);
}

/// All states, in the order in which the declared edges leave them.
fn states<M: Machine>() -> Vec<&'static str> {
    let left = M::EDGES.iter().map(|(from, _, _)| *from);
    let reached = M::EDGES.iter().map(|(_, _, to)| *to);
    unique(left.chain(reached))
}

fn inputs<M: Machine>() -> Vec<&'static str> {
    unique(M::samples().iter().map(M::input_name))
}

fn unique(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut known = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

type Cell = (&'static str, &'static str);

/// Every result of every input in every state.
fn results<M: Machine>() -> BTreeMap<Cell, BTreeSet<String>> {
    let mut cells: BTreeMap<Cell, BTreeSet<String>> = BTreeMap::new();
    let mut seen = HashSet::new();
    let mut open = vec![(0, M::first(TIMES[0]), M::Ledger::default())];
    while let Some((at, state, ledger)) = open.pop() {
        if !seen.insert((at, state.clone(), ledger.clone())) {
            continue;
        }
        for (later, now) in TIMES.iter().enumerate().skip(at) {
            for input in M::samples() {
                let cell = (M::state_name(&state), M::input_name(&input));
                let result = match M::step(&state, &ledger, input, *now) {
                    Err(refusal) => refusal.code().number().to_string(),
                    Ok(step) => {
                        let mut after = ledger.clone();
                        M::apply(&mut after, &step.effects, *now);
                        let next = M::state_name(&step.state);
                        let changed = step.state != state || after != ledger;
                        let result = told::<M>(cell.0, next, &step.effects, changed);
                        open.push((later, step.state, after));
                        result
                    }
                };
                cells.entry(cell).or_default().insert(result);
            }
        }
    }
    cells
}

/// A result in words: where it leads, and what is ordered, each kind of effect once in a row.
fn told<M: Machine>(from: &str, to: &str, effects: &[M::Effect], changed: bool) -> String {
    let mut orders: Vec<String> = effects
        .iter()
        .map(|effect| {
            let debug = format!("{effect:?}");
            let name: String = debug.chars().take_while(|c| c.is_alphanumeric()).collect();
            format!("`{name}`")
        })
        .collect();
    orders.dedup();
    match (from == to, orders.is_empty()) {
        (true, true) if changed => "stays, with new data".to_owned(),
        (true, true) => "nothing".to_owned(),
        (true, false) => orders.join(", "),
        (false, true) => format!("**{to}**"),
        (false, false) => format!("**{to}**: {}", orders.join(", ")),
    }
}
