//! Workflows as automata: which tools, resources and prompts exist right now.
//!
//! A workflow says in which state what may be called, and where each outcome of a call leads. It
//! is written in Rust ([`Workflow::builder`]) or in a [`file`](mod@file); either way it is first a
//! [`Draft`], which [`Draft::build`] judges as a whole: every [`Problem`] at once, errors and
//! warnings, each with a code and a place. A [`Workflow`] that exists is valid.
//!
//! A server then asks three questions, and none takes longer for a larger workflow:
//! [`Workflow::visible`], what can be called here; [`Workflow::admit`], may this be called here;
//! [`Workflow::step`], where does its outcome lead. The answers are values. Nothing here runs a
//! call, keeps an instance, reads a clock or waits.
//!
//! ```
//! use interlock_workflow::{Kind, Outcome, Pass, Workflow};
//!
//! let refund = Workflow::builder("refund")
//!     .state("new", |s| s.initial().tool("lookup_order", |t| t.success("found")))
//!     .state("found", |s| s.tool("refund", |t| t.success("paid").error("found")))
//!     .state("paid", |s| s.terminal())
//!     .build()?;
//!
//! let mut at = refund.initial();
//! for tool in ["lookup_order", "refund"] {
//!     if let Ok(Pass::Bound(binding)) = refund.admit(at, Kind::Tool, tool) {
//!         at = refund.step(at, binding, Outcome::Success).after;
//!     }
//! }
//! assert_eq!(at, refund.initial()); // paid, and ready for the next one
//! # Ok::<(), interlock_workflow::Invalid>(())
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | `model` | the words: kinds, outcomes, artifacts, positions, settings |
//! | `draft`, `builder`, `file` | what somebody wrote |
//! | `validate`, `problem`, `catalogue`, `nearest` | what is wrong with it |
//! | `workflow`, `intern`, `fingerprint` | what is valid, in small numbers |
//! | `gate` | admission and steps |
//! | `analysis`, `diagram` | questions about the whole graph, and pictures of it |

mod analysis;
mod builder;
mod catalogue;
mod diagram;
mod draft;
pub mod file;
mod fingerprint;
mod gate;
mod intern;
mod model;
mod nearest;
mod problem;
mod validate;
mod workflow;

pub use analysis::Hop;
pub use builder::{BindingBuilder, Builder, StateBuilder, Target, end, to};
pub use catalogue::Catalogue;
pub use diagram::{dot, mermaid};
pub use draft::{Draft, DraftAlways, DraftBinding, DraftEdge, DraftState, Span, Targets};
pub use fingerprint::Fingerprint;
pub use gate::{Pass, Reason, Refused, Step};
pub use intern::ListId;
pub use model::{
    Artifact, Busy, Finish, Kind, Outcome, Position, Scope, Settings, StateId, Visibility,
};
pub use problem::{Finding, Invalid, Problem, Severity};
pub use workflow::{Binding, Edge, State, Visible, Workflow};
