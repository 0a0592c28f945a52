//! Which method a request names, and whether its parameters are what that method takes.

mod completions;
mod params;
