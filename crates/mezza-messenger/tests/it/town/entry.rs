//! An entry that lies to one client: about times, users, order and results.

use mezza_mixnet::wire::{Frame, FrameBody, MissedReason};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};

/// The longest that settings say that a round of the town closes in, and a client believes, ms.
const CLOSES_MS: u64 = 12_000;
/// Every so many frames one is told as it is, at least.
const ODDS: u64 = 12;

/// An entry is honest until it is given dice.
#[derive(Default)]
pub struct Lies {
    dice: Option<ChaCha20Rng>,
    /// True if settings are of another network.
    is_foreign: bool,
    /// Frames that are sent later, if at all.
    kept: Vec<Frame>,
}

impl Lies {
    /// Lies as this seed has it.
    pub fn begin(&mut self, seed: u64) {
        self.dice = Some(ChaCha20Rng::seed_from_u64(seed));
    }

    /// Announces the rounds of another network from now on.
    pub fn serve_another_network(&mut self) {
        self.is_foreign = true;
    }

    /// Says what is so from now on, and forgets what it kept back.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// Returns the frames that a client receives. The entry lies only about those of rounds.
    pub(super) fn tells(&mut self, mut frames: Vec<Frame>) -> Vec<Frame> {
        if self.is_foreign {
            frames.iter_mut().for_each(disown);
        }
        let Some(dice) = &mut self.dice else { return frames };
        let mut told = Vec::new();
        for frame in frames {
            let Frame::Round(id, _) = &frame else {
                told.push(frame);
                continue;
            };
            let missed = Frame::Round(*id, FrameBody::Missed(MissedReason::Late));
            match dice.next_u64() % ODDS {
                0 => {}
                1 | 2 => self.kept.push(frame),
                3 => told.extend([frame.clone(), frame]),
                4 | 5 => told.push(bent(frame, dice.next_u64())),
                6 => told.extend([missed, frame]),
                7 => told.extend([frame, missed]),
                8 | 9 => {
                    told.push(frame);
                    told.extend(self.kept.drain(..).rev());
                }
                _ => told.push(frame),
            }
        }
        told
    }
}

/// Settings name another config.
fn disown(frame: &mut Frame) {
    if let Frame::Round(_, FrameBody::Settings(announced)) = frame {
        announced.settings.config = [0xee; 32];
    }
}

/// The same frame with what nobody signed in another way.
fn bent(mut frame: Frame, number: u64) -> Frame {
    match &mut frame {
        Frame::Round(_, FrameBody::Settings(announced)) => {
            let all = [0, 1, (number % CLOSES_MS) as u32, (number % CLOSES_MS) as u32, u32::MAX];
            announced.closes_in_ms = all[(number >> 32) as usize % all.len()];
        }
        Frame::Round(_, FrameBody::Return { users, replies }) => {
            *users = number as u32;
            if number.is_multiple_of(3) {
                replies.truncate(replies.len() / 2);
            } else if let Some(byte) = replies.first_mut() {
                *byte ^= 1;
            }
        }
        _ => {}
    }
    frame
}
