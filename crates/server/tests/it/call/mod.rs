//! One call, from its arguments to its answer: checks, deadlines, panics, cancellation and places.

mod arguments;
mod cancellation;
mod concurrency;
mod guards;
mod handler_faults;
mod lifetime;
mod walkthrough;
