//! The relay over real sockets, on real SQLite files and a real PostgreSQL server.

mod conformance;
mod fixture;
mod interop;
mod props;
mod rules;
mod tap;
mod tls;
mod writer;
