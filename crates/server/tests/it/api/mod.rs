//! What developers write: tools, resources, prompts and applications, and what clients are told
//! about them.

mod lifespan;
mod prompts;
mod resources;
mod tools;
