//! Workflow files, served.

#![allow(clippy::unwrap_used, reason = "all of it is tests")]

mod command_tool;
mod files;
mod places;
mod resources;
mod stage;
