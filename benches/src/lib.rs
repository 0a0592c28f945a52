//! What the servers of the benchmark share: the list of their tools.
//!
//! The package compares the example `echo` with two others that do the same. `limit` does the
//! work of the wire and nothing else; `rmcp_echo` is what one writes with rmcp. The program
//! `bench` puts load on each of them, one after the other, and prints tables.

pub mod tools;
