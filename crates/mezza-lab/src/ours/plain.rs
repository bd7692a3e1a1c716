//! Frames without protection, and a tunnel of them for comparison: it shows the cost of protection.
//! The program itself has no such switch (SEKA-73).

use std::path::Path;

use anyhow::Result;
use mezza::testing::api::Exit;
use mezza::testing::servers::tunnel;
use mezza_core::Secret;
use mezza_seka::suite::FrameKey;

/// A cipher that leaves the text unchanged and accepts every tag.
struct Nothing;

impl FrameKey for Nothing {
    fn from_subkey(_: &Secret<32>) -> Self {
        Self
    }

    fn seal(&self, _: &[u8; 12], _: &[u8], _: &mut [u8]) -> [u8; 16] {
        [0; 16]
    }

    fn open(&self, _: &[u8; 12], _: &[u8], _: &mut [u8], _: &[u8; 16]) -> bool {
        true
    }
}

/// Runs the links of a state folder until the process ends.
///
/// # Errors
/// The errors of `mezza link up`.
pub fn run_links(state: &Path, config: &Path, frames: &str) -> Result<Exit> {
    let frames = match frames {
        "none" => tunnel::FrameThreads::with_key::<Nothing>(),
        _ => tunnel::FrameThreads::for_product(),
    };
    Ok(tunnel::up(state, config, frames)?)
}
