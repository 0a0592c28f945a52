//! Lines of bytes, in memory and behind real pipes.

mod frames;
mod load;
mod process;
mod random_lines;
mod shutdown;
