//! The relay over real sockets, on real SQLite files and a real PostgreSQL server.

mod boxes;
mod conformance;
mod fair;
mod fixture;
mod interop;
mod limits;
mod props;
mod rules;
mod tap;
mod tls;
mod writer;
