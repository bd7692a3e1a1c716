//! The test suite runs with every kernel that this machine supports, or with
//! `MEZZA_TEST_KERNEL=ifma` at build time with that kernel alone.

mod backends;
mod bounds;
mod emulated;
mod interval;
mod known;
mod poly1305;
mod props;
mod rules;
mod vectors;
mod wycheproof;

use crate::eight::VectorKernel;
use crate::{Kernel, Strided, ifma, portable};
use emulated::Emulated;
use mezza_testing::{unhex, unhex_array};
use std::vec::Vec;

/// Returns every kernel that this machine supports.
fn kernels() -> Vec<&'static dyn Kernel> {
    static EMULATED: VectorKernel<Emulated> = VectorKernel::new(Emulated, "emulated");
    let all = [Some(portable()), Some(&EMULATED as &dyn Kernel), ifma()].into_iter().flatten();
    let wanted = |name| option_env!("MEZZA_TEST_KERNEL").is_none_or(|only| only == name);
    let wanted = all.filter(|kernel| wanted(kernel.name())).collect::<Vec<_>>();
    assert!(!wanted.is_empty(), "MEZZA_TEST_KERNEL names no kernel that runs here");
    wanted
}

fn array(text: &str) -> [u8; 32] {
    unhex_array(text)
}

/// Messages with a gap of 3 bytes before each body, and a tag and 2 bytes behind it.
struct Frame {
    bytes: Vec<u8>,
    body_bytes: usize,
}

impl Frame {
    const BEFORE: usize = 3;
    const AFTER: usize = 16 + 2;

    fn new(bodies: &[Vec<u8>]) -> Self {
        let body_bytes = bodies.first().map_or(0, Vec::len);
        let gap = |n| std::vec![0xa5; n];
        let bytes = bodies.iter().flat_map(|body| {
            [gap(Self::BEFORE), body.clone(), gap(Self::AFTER)].into_iter().flatten()
        });
        Self { bytes: bytes.collect(), body_bytes }
    }

    fn stride(&self) -> usize {
        Self::BEFORE + self.body_bytes + Self::AFTER
    }

    fn strided(&mut self) -> Strided<'_> {
        let stride = self.stride();
        Strided::new(&mut self.bytes, stride, Self::BEFORE, self.body_bytes)
    }

    /// Returns body and tag of each message, and checks that the gaps are unchanged.
    fn messages(&self) -> Vec<&[u8]> {
        let end = self.stride() - 2;
        let chunks = self.bytes.chunks_exact(self.stride());
        chunks
            .map(|chunk| {
                let untouched = chunk[..Self::BEFORE].iter().chain(&chunk[end..]);
                assert!(untouched.into_iter().all(|byte| *byte == 0xa5), "a gap was written to");
                &chunk[Self::BEFORE..end]
            })
            .collect()
    }
}
