//! How instances of workflows behave: states, guards, approvals, effects, timers, journals and
//! operators, on stores that work and stores that do not.

mod approval;
mod combinations;
mod effects;
mod guards;
mod handles;
mod instructions;
mod interrupted_calls;
mod journal;
mod listed;
mod nodes;
mod operator;
mod outcomes;
mod principals;
mod prompts_and_resources;
mod races;
mod replay;
mod sampling;
mod stateless;
mod states;
mod store_faults;
mod stores;
mod timers;
mod unknown_outcome;
