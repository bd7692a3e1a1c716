//! What the lab, the fuzz targets and the tests of this crate use of the program.

pub use crate::{
    api, backend, carriers, clock, connection, demo, faces, node, process, servers, store, tls,
};
