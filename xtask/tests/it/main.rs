//! Everything that fuzzing begins with, and everything that it ever found, without fuzzing.

#[path = "../../../fuzz/checks/frame.rs"]
mod frame;
#[path = "../../../fuzz/checks/modern.rs"]
mod modern;
mod replay;
#[path = "../../../fuzz/checks/workflow_file.rs"]
mod workflow_file;
