//! Guards and `set:` values: CEL expressions, checked when they are built and evaluated at bounded cost.
//!
//! The crate `cel` parses. Everything after that is ours, because its evaluator has no limits: it
//! copies what it loops over, counts nothing, and takes 30 KB of stack for each level of nesting in
//! a debug build. So an expression is checked and lowered once to a small tree of our own (`lower`),
//! and the tree is evaluated against borrowed JSON (`eval`); the tests hold the results against `cel`.
//!
//! What differs from standard CEL, and why:
//!
//! - There are no messages, byte strings, types as values, durations or timestamps: facts are JSON,
//!   and an expression that could read a clock would not give the same answer twice.
//! - JSON integers are `int` (`uint` where they are beyond `int`), other JSON numbers are `double`.
//!   As in CEL, numbers of different kinds can be compared but not added: `double(args.n) + 0.5`.
//! - A map's keys are written as string literals, a pattern for `matches` is a literal too.
//! - `false && error` and `error && false` are false, `true || error` and `error || true` are true,
//!   `all` and `exists` do the same over their items; every other use of an error is that error.
//!   Running out of fuel is never absorbed.

mod datum;
mod eval;
mod failed;
mod flaw;
mod lower;
mod node;
mod operation;
mod parse;
mod sample;
mod shape;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use datum::Datum;
pub use failed::Failed;
pub(crate) use flaw::{Fault, Flaw};
pub(crate) use sample::sample;

/// The most characters that an expression can have.
const LONGEST: usize = 1_000;

/// How deep an expression can nest; it keeps the stack small even in a debug build.
const DEEPEST: usize = 64;

/// What an evaluation can spend. Each operation and each step of a loop costs one unit, and so do
/// each 64 bytes of text that are read or built, and each byte that a pattern is matched against.
/// A loop with a simple condition makes some 20,000 steps of it.
const FUEL: usize = 100_000;

/// The most values that the result of an expression can hold.
const MOST_VALUES: usize = 100_000;

/// The most bytes of text that the result of an expression can hold.
const MOST_TEXT: usize = 1 << 20;

/// How deep values can nest that are compared or handed out. JSON readers stop at 128, and a result
/// is stored inside other objects.
const DEEPEST_VALUE: usize = 100;

/// What an expression may look at when it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The call's arguments, an object; null where there is no call.
    pub args: &'a Value,
    /// What the call came to, once it is known.
    pub result: Option<&'a Value>,
    /// The instance's memory.
    pub ctx: &'a Map<String, Value>,
    /// Who calls; null if nobody said.
    pub principal: &'a Value,
    /// The state that the instance is in.
    pub state: &'a str,
    /// How often the instance has entered this state.
    pub visits: u32,
}

/// The names that an expression can begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Root {
    /// The call's arguments.
    Args,
    /// What the call came to.
    Result,
    /// The instance's memory.
    Ctx,
    /// Who calls.
    Principal,
    /// The name of the state that the instance is in.
    State,
    /// How often the instance has entered this state.
    Visits,
}

impl Root {
    /// All of them, in the order in which they are told.
    pub(crate) const ALL: [Self; 6] = [
        Self::Args,
        Self::Result,
        Self::Ctx,
        Self::Principal,
        Self::State,
        Self::Visits,
    ];

    /// The name as an expression writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Result => "result",
            Self::Ctx => "ctx",
            Self::Principal => "principal",
            Self::State => "state",
            Self::Visits => "visits",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|root| root.name() == name)
    }
}

/// A key that an expression names directly, as in `ctx.order`, `ctx["order"]` or `has(ctx.order)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    /// The key.
    pub(crate) name: &'a str,
    /// Where it stands in the source, in bytes.
    pub(crate) at: Option<Range<usize>>,
}

/// An expression that was checked and can be evaluated at bounded cost. Cheap to clone; two are
/// equal if their sources are.
#[derive(Clone)]
pub(crate) struct Program {
    inner: Arc<Inner>,
}

struct Inner {
    source: Box<str>,
    lowered: lower::Lowered,
}

impl Program {
    /// Checks an expression that may begin with the allowed names. Fails with everything that is
    /// wrong with it; but for a fault of syntax, which hides what comes after it.
    pub(crate) fn compile(source: &str, allowed: &[Root]) -> Result<Self, Vec<Flaw>> {
        let lowered = match parse::parse(source) {
            Ok(parsed) => lower::lower(&parsed, allowed)?,
            Err(flaw) => return Err(vec![flaw]),
        };
        let source = source.into();
        Ok(Self {
            inner: Arc::new(Inner { source, lowered }),
        })
    }

    /// The expression as it was written.
    pub(crate) fn source(&self) -> &str {
        &self.inner.source
    }

    /// The value of the expression.
    pub(crate) fn evaluate(&self, facts: &Facts<'_>) -> Result<Value, Failed> {
        let outcome = eval::evaluate(&self.inner.lowered.node, facts);
        outcome.and_then(Datum::into_json).map_err(|failed| *failed)
    }

    /// Whether the expression is true. Anything but a boolean fails.
    pub(crate) fn test(&self, facts: &Facts<'_>) -> Result<bool, Failed> {
        match eval::evaluate(&self.inner.lowered.node, facts) {
            Ok(Datum::Bool(verdict)) => Ok(verdict),
            Ok(other) => Err(Failed::NotBool {
                found: other.kind(),
            }),
            Err(failed) => Err(*failed),
        }
    }

    /// Whether the expression looks at any part of what this name stands for.
    pub(crate) fn mentions(&self, root: Root) -> bool {
        self.inner.lowered.mentions.contains(&root)
    }

    /// The keys right below this name that the expression names, in the order of the source and as
    /// often as they occur.
    pub(crate) fn keys(&self, root: Root) -> impl Iterator<Item = Key<'_>> {
        let keys = self.inner.lowered.keys.iter();
        keys.filter(move |key| key.root == root).map(|key| Key {
            name: &key.name,
            at: key.at.clone(),
        })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.source()).finish()
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source().hash(state);
    }
}
