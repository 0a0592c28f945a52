//! What a server offers now: lists, their pages and their changes, and which template a URI belongs
//! to.

mod changes;
mod list_changes;
mod pages;
mod templates;
mod uris;
