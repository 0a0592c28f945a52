//! Guards and remembered values as somebody wrote them, and as they are judged.

use crate::{
    Place,
    guard::{Facts, Failed, Program, Root},
};
use serde_json::Value;
use std::{
    fmt,
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Something to be worked out from a call and its instance: CEL, or a function in Rust.
///
/// ```
/// use interlock_workflow::{Expression, rust};
///
/// let cel: Expression = "args.amount <= 100".into();
/// let function = rust("cheap", |facts| facts.args["amount"].as_u64() <= Some(100));
/// assert_eq!(cel.to_string(), "args.amount <= 100");
/// assert_eq!(function.to_string(), "cheap");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    pub(crate) body: Body,
    pub(crate) place: Place,
}

/// How it is worked out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    Cel(Arc<str>),
    Rust(Function),
}

/// A function in Rust. Two of the same name count as the same.
#[derive(Clone)]
pub(crate) struct Function {
    name: Arc<str>,
    run: Arc<dyn Fn(&Facts<'_>) -> Value + Send + Sync>,
}

/// A guard or a value as a function in Rust, under a name for drawings and journals.
///
/// The function must be pure: it may run more than once for one call, and on other machines. A
/// workflow that has one cannot be written to a file.
///
/// ```
/// use interlock_workflow::{Workflow, rust};
///
/// let flow = Workflow::builder("small change")
///     .state("new", |s| {
///         s.initial().tool("pay", |t| {
///             t.when(rust("cheap", |facts| facts.args["amount"].as_u64() <= Some(100)))
///                 .success("paid")
///         })
///     })
///     .state("paid", |s| s.terminal())
///     .build()?;
/// # Ok::<(), interlock_workflow::Invalid>(())
/// ```
pub fn rust<T: Into<Value>>(
    name: impl Into<Arc<str>>,
    run: impl Fn(&Facts<'_>) -> T + Send + Sync + 'static,
) -> Expression {
    Expression {
        body: Body::Rust(Function {
            name: name.into(),
            run: Arc::new(move |facts| run(facts).into()),
        }),
        place: Place::default(),
    }
}

impl Expression {
    /// CEL that stands at this place.
    pub(crate) fn cel_at(source: &str, place: Place) -> Self {
        Self {
            body: Body::Cel(source.into()),
            place,
        }
    }

    /// Its source, if it is CEL.
    pub fn source(&self) -> Option<&str> {
        match &self.body {
            Body::Cel(source) => Some(source),
            Body::Rust(_) => None,
        }
    }
}

impl From<&str> for Expression {
    fn from(source: &str) -> Self {
        Self::cel_at(source, Place::default())
    }
}

impl From<String> for Expression {
    fn from(source: String) -> Self {
        Self::from(source.as_str())
    }
}

/// CEL as written, or the name of the function.
impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Body::Cel(source) => f.write_str(source),
            Body::Rust(function) => f.write_str(&function.name),
        }
    }
}

impl Function {
    /// Somebody else's code, which must not cost more than its answer.
    fn run(&self, facts: &Facts<'_>) -> Result<Value, Failed> {
        catch_unwind(AssertUnwindSafe(|| (self.run)(facts))).map_err(|payload| {
            // A payload whose clean-up panics as well is left alone.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            Failed::Panicked
        })
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.name).finish()
    }
}

/// An expression that was found to be sound.
///
/// Its text is the CEL as written, or the name of the function in Rust.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    judged: Judged,
    /// Where it stands.
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq)]
enum Judged {
    Cel(Program),
    Rust(Function),
}

impl Rule {
    pub(crate) fn cel(program: Program, place: Place) -> Self {
        let judged = Judged::Cel(program);
        Self { judged, place }
    }

    pub(crate) fn rust(function: Function) -> Self {
        Self {
            judged: Judged::Rust(function),
            place: Place::default(),
        }
    }

    /// What was written.
    pub(crate) fn expression(&self) -> Expression {
        match &self.judged {
            Judged::Cel(program) => program.source().into(),
            Judged::Rust(function) => Expression {
                body: Body::Rust(function.clone()),
                place: Place::default(),
            },
        }
    }

    /// Whether it is written in Rust, so that nothing but Rust can say it.
    pub fn is_rust(&self) -> bool {
        match &self.judged {
            Judged::Cel(_) => false,
            Judged::Rust(_) => true,
        }
    }

    /// Works it out.
    pub fn evaluate(&self, facts: &Facts<'_>) -> Result<Value, Failed> {
        match &self.judged {
            Judged::Cel(program) => program.evaluate(facts),
            Judged::Rust(function) => function.run(facts),
        }
    }

    /// Whether it is true. What is no boolean fails.
    pub fn test(&self, facts: &Facts<'_>) -> Result<bool, Failed> {
        match &self.judged {
            Judged::Cel(program) => program.test(facts),
            Judged::Rust(function) => match function.run(facts)? {
                Value::Bool(truth) => Ok(truth),
                Value::Null => Err(Failed::NotBool { found: "null" }),
                Value::Number(_) => Err(Failed::NotBool { found: "a number" }),
                Value::String(_) => Err(Failed::NotBool { found: "text" }),
                Value::Array(_) => Err(Failed::NotBool { found: "a list" }),
                Value::Object(_) => Err(Failed::NotBool { found: "a map" }),
            },
        }
    }

    /// Whether it may look at any part of what this name stands for. What a function in Rust looks
    /// at, nobody can see.
    pub(crate) fn mentions(&self, root: Root) -> bool {
        self.program().is_none_or(|program| program.mentions(root))
    }

    /// The CEL it is, which can be looked into.
    pub(crate) fn program(&self) -> Option<&Program> {
        match &self.judged {
            Judged::Cel(program) => Some(program),
            Judged::Rust(_) => None,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.judged {
            Judged::Cel(program) => f.write_str(program.source()),
            Judged::Rust(function) => f.write_str(&function.name),
        }
    }
}
