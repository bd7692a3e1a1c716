//! Vectors of the primitives from RFCs and Wycheproof, through the public interface.

mod hashes;
mod primitives;
