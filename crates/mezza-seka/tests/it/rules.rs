//! One test for each rule of the document; those of window, wire and offload stand beside their code.

mod answers;
mod exchange;
mod pairing;
mod session;
mod store;
