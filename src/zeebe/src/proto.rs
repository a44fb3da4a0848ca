//! The messages, the client and the server of `proto/gateway.proto`, as generated.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, clippy::indexing_slicing)]

tonic::include_proto!("gateway_protocol");
