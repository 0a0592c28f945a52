//! Clients that others wrote.

mod rmcp;
