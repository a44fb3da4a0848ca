//! The kinds, asked of a real API server by a client that sends what it likes. `tests/kube/crds` starts the server, installs
//! `crds/` and names the socket of its proxy in `M87_API_SOCKET`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod departures;
mod examples;
mod fields;
mod writes;
