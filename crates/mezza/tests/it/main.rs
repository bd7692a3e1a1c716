//! The program, from outside.

mod backend;
mod config;
mod home;
mod vault;
