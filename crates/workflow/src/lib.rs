//! Workflows as automata: which tools, resources and prompts exist right now.
//!
//! A workflow says in which state what may be called, and where each outcome of a call leads. It
//! is written in Rust ([`Workflow::builder`]) or in a [`file`](mod@file); either way it is first a
//! [`Draft`], which [`Draft::build`] judges as a whole: every [`Problem`] at once, errors and
//! warnings, each with a code and a place. A [`Workflow`] that exists is valid.
//!
//! A server then asks three questions, and none takes longer for a larger workflow:
//! [`Workflow::visible`], what can be called here; [`Workflow::judge`], may this be called here and
//! so; [`Workflow::step`], where does its end lead. The answers are values. Nothing here runs a
//! call, keeps an instance, reads a clock or waits.
//!
//! ```
//! use interlock_workflow::{Call, End, Kind, Outcome, Pass, Workflow};
//! use serde_json::Value::Null;
//!
//! let refund = Workflow::builder("refund")
//!     .state("new", |s| s.initial().tool("lookup_order", |t| t.success("found")))
//!     .state("found", |s| s.tool("refund", |t| t.success("paid").error("found")))
//!     .state("paid", |s| s.terminal())
//!     .build()?;
//!
//! let (now, mut instance) = (0, refund.start(0));
//! for name in ["lookup_order", "refund"] {
//!     let call = Call { kind: Kind::Tool, name, args: &Null, principal: &Null };
//!     if let Ok(Pass::Bound(binding)) = refund.judge(&instance, &call) {
//!         // The call runs here, and ends well.
//!         let step = refund.step(&instance, binding, &End::from(Outcome::Success));
//!         instance.apply(&refund, &step, now);
//!     }
//! }
//! assert_eq!(instance, refund.start(now)); // paid, and ready for the next one
//! # Ok::<(), interlock_workflow::Invalid>(())
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | `model` | the words: kinds, outcomes, artifacts, positions, settings |
//! | `draft` | a workflow as written: plain data, nothing checked |
//! | `builder` | writes a draft in Rust |
//! | `file` | reads a draft from YAML or JSON, and writes one |
//! | `expression` | guards and values as written: CEL or a Rust function |
//! | `validate` | judges a draft; `validate::graph` and `validate::expressions` are parts of it |
//! | `problem` | everything that can be wrong, with code, text and help |
//! | `spot` | the names of the parts of a workflow in those texts |
//! | `nearest` | "did you mean" |
//! | `catalogue` | compares a workflow with what a server has |
//! | `samples` | values that fit a schema, on which guards are tried |
//! | `assemble` | makes a workflow of what was judged |
//! | `workflow` | a valid workflow, and what is listed where |
//! | `parts` | its states, bindings and edges |
//! | `intern` | their numbers, and the names of artifacts |
//! | `definition` | the draft of a workflow, from the workflow |
//! | `fingerprint` | one number for all that a workflow does |
//! | `gate` | whether a call may run, and the refusal if not |
//! | `advice` | the refusal in words for the model that called |
//! | `step` | where the end of a call leads |
//! | `instance` | one run: where it stands and what it remembers |
//! | `visits` | how often it has come to its states |
//! | `record` | a run as plain data for a store |
//! | `trace` | plays a run without a server |
//! | `guard` | parses, checks and evaluates CEL with bounded cost |
//! | `template` | texts with `{{…}}` |
//! | `uri` | the one way to write a URI |
//! | `uri_template` | which URIs fit `order://{id}` |
//! | `graph` | which states can be reached and which can end |
//! | `analysis` | the same of a valid workflow, and the shortest path that a refusal names |
//! | `coverage` | paths that together take every edge, for generated tests |
//! | `diagram` | Mermaid and DOT |
//! | `svg` | SVG |
//! | `xstate` | XState JSON |

mod advice;
mod analysis;
mod assemble;
mod builder;
mod catalogue;
mod coverage;
mod definition;
mod diagram;
mod draft;
mod expression;
pub mod file;
mod fingerprint;
mod gate;
mod graph;
mod guard;
mod instance;
mod intern;
mod model;
mod nearest;
mod parts;
mod problem;
mod record;
mod samples;
mod spot;
mod step;
mod svg;
mod template;
mod trace;
mod uri;
mod uri_template;
mod validate;
mod visits;
mod workflow;
mod xstate;

pub use analysis::{Difference, Hop, Leg};
pub use builder::{BindingBuilder, Builder, SamplingBuilder, StateBuilder, Target, end, to};
pub use catalogue::{About, Catalogue};
pub use coverage::Coverage;
pub use diagram::{dot, mermaid, svg};
pub use draft::{
    Draft, DraftAlways, DraftApproval, DraftBinding, DraftEdge, DraftMessage, DraftSampling,
    DraftState, DraftText, DraftTimer, DraftVisits, Place, Role, Span, Targets,
};
pub use expression::{Expression, Rule, rust};
pub use fingerprint::Fingerprint;
pub use gate::{Call, Pass, Reason, Refused, UntrueGuard};
pub use guard::{Facts, Failed};
pub use instance::{Held, Instance, Shortened};
pub use intern::{BindingId, EdgeId, ListId, SymbolId};
pub use model::{
    Artifact, Busy, Finish, Kind, Outcome, Position, Scope, Settings, StateId, Visibility,
};
pub use parts::{Approval, Binding, Cause, Edge, Message, Sampling, State, Timer};
pub use problem::{Finding, Invalid, Problem, Severity};
pub use record::{Record, UnknownState};
pub use spot::{Part, Spot};
pub use step::{End, Fault, Step};
pub use svg::TooLarge;
pub use template::Text;
pub use trace::Trace;
pub use uri::normalised_uri;
pub use uri_template::{TemplateError, UriTemplate};
pub use workflow::{Visible, Workflow};
pub use xstate::xstate;
