//! The program's parts against real sockets, files and servers.

mod logs;
mod postgres;
mod relay;
