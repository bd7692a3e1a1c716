//! The configs of a network as clients get them: frames that are encoded once and shared by all
//! clients.
//!
//! The queue of a link has room for few pieces, and a network may have 1,024 configs, so one piece
//! has 64 frames.

use alloc::sync::Arc;
use alloc::vec::Vec;
use mezza_core::snapshot;

use crate::config::SignedConfig;
use crate::wire::Frame;

/// Configs in one piece.
const PIECE: usize = 64;

/// All configs from genesis on.
pub(super) struct Archive {
    configs: Vec<SignedConfig>,
    hashes: Vec<[u8; 32]>,
    pieces: Vec<Piece>,
}

snapshot!(struct Archive { configs, hashes, pieces });

/// The frames of up to 64 configs.
struct Piece {
    bytes: Arc<[u8]>,
    /// Offset of each frame in `bytes`.
    starts: Vec<usize>,
}

snapshot!(struct Piece { bytes, starts });

impl Archive {
    /// Creates the archive from the configs, oldest first.
    pub fn new(configs: Vec<SignedConfig>) -> Self {
        let hashes = configs.iter().map(|config| config.config().hash()).collect();
        let mut archive = Self { configs, hashes, pieces: Vec::new() };
        archive.cut();
        archive
    }

    /// Adds the newest config.
    pub fn push_config(&mut self, config: SignedConfig) {
        self.hashes.push(config.config().hash());
        self.configs.push(config);
        self.cut();
    }

    /// Encodes all frames again. Each frame contains the number of later ones, so a new config
    /// changes all of them.
    fn cut(&mut self) {
        let left: Vec<u16> = (0..self.configs.len() as u16).rev().collect();
        let frame = |(config, left): (&SignedConfig, &u16)| {
            Frame::Config { left: *left, config: config.encode() }.encode().unwrap_or_default()
        };
        let piece = |(configs, left): (&[SignedConfig], &[u16])| {
            let mut bytes = Vec::new();
            let mut starts = Vec::new();
            for frame in configs.iter().zip(left).map(frame) {
                starts.push(bytes.len());
                bytes.extend(frame);
            }
            Piece { bytes: bytes.into(), starts }
        };
        self.pieces = self.configs.chunks(PIECE).zip(left.chunks(PIECE)).map(piece).collect();
    }

    /// Returns the frames of all configs after the one with this hash; all frames for zeros, and
    /// none for an unknown hash.
    pub fn frames_after(&self, known: &[u8; 32]) -> Vec<Arc<[u8]>> {
        let at = self.hashes.iter().position(|hash| hash == known).map(|at| at + 1);
        // An unknown hash gets no frames, because the client has another chain, which no config of
        // ours continues.
        let from = if *known == [0; 32] { 0 } else { at.unwrap_or(self.hashes.len()) };
        let mut pieces = self.pieces.iter().skip(from / PIECE);
        let first = pieces.next().and_then(|piece| piece.frames_from(from % PIECE));
        // Whole pieces are shared by all clients, so a request costs no copy of 1,024 configs.
        first.into_iter().chain(pieces.map(|piece| Arc::clone(&piece.bytes))).collect()
    }
}

impl Piece {
    /// Returns the frames from number `at` on, or `None` if there are none.
    fn frames_from(&self, at: usize) -> Option<Arc<[u8]>> {
        match *self.starts.get(at)? {
            0 => Some(Arc::clone(&self.bytes)),
            start => Some(self.bytes[start..].into()),
        }
    }
}
