//! Instances that a client names by a handle: how it calls them, and who else may.

mod build;
mod calls;
mod http;
mod isolation;
