//! Everything that fuzzing begins with, and everything that it ever found, without fuzzing.

#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../../../fuzz/checks/frame.rs"]
mod frame;
#[path = "../../../fuzz/checks/guard.rs"]
mod guard;
#[path = "../../../fuzz/checks/modern.rs"]
mod modern;
mod replay;
#[path = "../../../fuzz/checks/workflow_file.rs"]
mod workflow_file;
