//! What a handler does while it runs: it reports, logs and asks, over a connection or in rounds.

mod client_requests;
mod logs_and_progress;
mod multi_round;
