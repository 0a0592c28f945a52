//! What the library gives to the tests of others.

mod client;
