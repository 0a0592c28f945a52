//! What all requests share.

mod rates;
