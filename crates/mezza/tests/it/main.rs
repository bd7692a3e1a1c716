//! The program's parts against real sockets, files and servers.

mod backend;
mod config;
mod home;
mod logs;
mod postgres;
mod relay;
mod vault;
