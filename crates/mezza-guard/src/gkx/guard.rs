//! The firewall of GKX, at either end. Tags pass unchanged, because the firewall has none of the
//! keys.
//!
//! ```text
//! dialling:   New --G1 out--> Committed --G2 in--> Answered --G3 out, checked--> Opened --G4 in--> Done
//! answering:  New --G1 in--> Asked --G2 out--> Replied --G3 in--> Opened --G4 out--> Done
//! ```

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{CryptoRng, Snapshot, Writer};

use crate::coins::{Coin, CoinRole, Coins};
use crate::error::FirewallError;
use crate::firewall::{CommittingCoins, check_proper};
use crate::group::{Group as _, Ristretto};
use crate::wire::{self, G1, G1_BYTES, G2, G2_BYTES, G3, G3_BYTES, G4, G4_BYTES};

/// The state of one exchange: at most 168 bytes and no key.
pub struct GkxGuard(State);

enum State {
    NewDialling,
    Committed(CommittingCoins<Ristretto>, [u8; 64]),
    Answered(CommittingCoins<Ristretto>, [u8; 64]),
    OpenedDialling,
    NewAnswering,
    Asked(Coin<Ristretto>),
    Replied(Coin<Ristretto>),
    OpenedAnswering,
    Done,
}

/// Returns the body of a frame.
///
/// # Errors
/// [`FirewallError::Order`] for another kind or size.
fn expect_frame<const N: usize>(frame: &[u8], kind: u8) -> Result<&[u8; N], FirewallError> {
    wire::frame_body(frame, kind).map_err(|_| FirewallError::Order)
}

impl GkxGuard {
    /// Creates the guard of the end that dials.
    pub const fn for_dialling() -> Self {
        Self(State::NewDialling)
    }

    /// Creates the guard of the end that answers.
    pub const fn for_answering() -> Self {
        Self(State::NewAnswering)
    }

    /// Returns true if the last frame has passed.
    pub const fn is_done(&self) -> bool {
        matches!(self.0, State::Done)
    }

    /// Returns true if the client's tag was sent and no accepting answer has arrived yet: G4 for
    /// the tag of an initiator (GUARD-35).
    pub const fn awaits_answer(&self) -> bool {
        matches!(self.0, State::OpenedDialling)
    }

    /// Changes a frame of the client on its way to the wire.
    ///
    /// # Errors
    /// [`FirewallError`] if the frame is out of order, has a value outside the group, or is an
    /// opening that does not match. The guard is then unchanged.
    pub fn change_outgoing(
        &mut self,
        group: &Ristretto,
        frame: &[u8],
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, FirewallError> {
        let (next, frame) = match &self.0 {
            State::NewDialling => {
                // Decoded and checked before coins are drawn for them (GUARD-1).
                let both = decode_elements(group, expect_frame::<{ G1_BYTES - 2 }>(frame, G1)?)?;
                let drawn = CommittingCoins::draw(group, coins, rng);
                let sent =
                    encode_elements(group, &drawn.change_commitment(group, both.each_ref())?);
                (State::Committed(drawn, sent), wire::build_frame(G1, &[&sent]))
            }
            State::Answered(drawn, sent) => {
                let (opening, tag) = expect_frame::<{ G3_BYTES - 2 }>(frame, G3)?.split_at(64);
                let both = decode_scalars(group, opening)?;
                let sent = decode_elements(group, sent)?;
                // Checked against the commitment that was sent, so that no free scalars leave
                // (GUARD-7).
                let both = drawn.change_opening(group, sent.each_ref(), both.each_ref())?;
                let [r, s] = both.map(|scalar| group.encode_scalar(&scalar));
                // The tag passes unchanged, because it does not depend on a value that the guard
                // changed (GUARD-9).
                (State::OpenedDialling, wire::build_frame(G3, &[&r, &s, tag]))
            }
            State::Asked(beta) => {
                let raised = raise_key(group, expect_frame::<{ G2_BYTES - 2 }>(frame, G2)?, beta)?;
                return Ok(self.move_coin(wire::build_frame(G2, &[&raised])));
            }
            State::OpenedAnswering => {
                let tag = expect_frame::<{ G4_BYTES - 2 }>(frame, G4)?;
                (State::Done, wire::build_frame(G4, &[tag]))
            }
            _ => return Err(FirewallError::Order),
        };
        self.0 = next;
        Ok(frame)
    }

    /// Changes a frame of the wire on its way to the client.
    ///
    /// # Errors
    /// As for [`change_outgoing`](Self::change_outgoing).
    pub fn change_incoming(
        &mut self,
        group: &Ristretto,
        frame: &[u8],
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, FirewallError> {
        let (next, frame) = match &self.0 {
            State::NewAnswering => {
                let both = decode_elements(group, expect_frame::<{ G1_BYTES - 2 }>(frame, G1)?)?;
                // Commitment, opening and Y use one coin, because the two ends would otherwise not
                // agree.
                let beta = Coin::draw(group, CoinRole::Power, coins, rng);
                let raised = both.map(|element| group.power(&element, beta.scalar()));
                (State::Asked(beta), wire::build_frame(G1, &[&encode_elements(group, &raised)]))
            }
            State::Replied(beta) => {
                let (opening, tag) = expect_frame::<{ G3_BYTES - 2 }>(frame, G3)?.split_at(64);
                // Not checked here, because the client opens the commitment itself and refuses a
                // bad one.
                let scaled = decode_scalars(group, opening)?
                    .map(|s| group.multiply_scalars(beta.scalar(), &s));
                let [r, s] = scaled.map(|scalar| group.encode_scalar(&scalar));
                (State::OpenedAnswering, wire::build_frame(G3, &[&r, &s, tag]))
            }
            State::Committed(drawn, _) => {
                let key = expect_frame::<{ G2_BYTES - 2 }>(frame, G2)?;
                let key = group.decode(key).map_err(|_| FirewallError::Order)?;
                // Y is raised to the same alpha as the commitment, so that S is equal at both ends.
                let raised = group.encode(&drawn.change_key(group, &key)?);
                return Ok(self.move_coin(wire::build_frame(G2, &[&raised])));
            }
            State::OpenedDialling => {
                let tag = expect_frame::<{ G4_BYTES - 2 }>(frame, G4)?;
                (State::Done, wire::build_frame(G4, &[tag]))
            }
            _ => return Err(FirewallError::Order),
        };
        self.0 = next;
        Ok(frame)
    }

    /// Moves the coins to the next state after G2.
    fn move_coin(&mut self, frame: Vec<u8>) -> Vec<u8> {
        self.0 = match core::mem::replace(&mut self.0, State::Done) {
            State::Committed(drawn, sent) => State::Answered(drawn, sent),
            State::Asked(beta) => State::Replied(beta),
            // Only the two states of G2 advance. All others were refused above.
            other => other,
        };
        frame
    }
}

fn decode_elements(
    group: &Ristretto,
    both: &[u8; 64],
) -> Result<[<Ristretto as crate::Group>::Element; 2], FirewallError> {
    let [first, second] = wire::split_pair(both).map(|element| group.decode(element));
    match (first, second) {
        (Ok(first), Ok(second)) => Ok([first, second]),
        _ => Err(FirewallError::Order),
    }
}

fn decode_scalars(
    group: &Ristretto,
    both: &[u8],
) -> Result<[<Ristretto as crate::Group>::Scalar; 2], FirewallError> {
    let (r, s) = both.split_at(32);
    match (group.decode_scalar(r), group.decode_scalar(s)) {
        (Ok(r), Ok(s)) => Ok([r, s]),
        _ => Err(FirewallError::Order),
    }
}

fn encode_elements(
    group: &Ristretto,
    both: &[<Ristretto as crate::Group>::Element; 2],
) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (place, element) in bytes.chunks_exact_mut(32).zip(both) {
        place.copy_from_slice(&group.encode(element));
    }
    bytes
}

fn raise_key(
    group: &Ristretto,
    key: &[u8],
    beta: &Coin<Ristretto>,
) -> Result<Vec<u8>, FirewallError> {
    let key = group.decode(key).map_err(|_| FirewallError::Order)?;
    check_proper(group, &[&key])?;
    Ok(group.encode(&group.power(&key, beta.scalar())))
}

/// For tests that compare the state before and after a refusal.
impl Snapshot for GkxGuard {
    fn snapshot_into(&self, w: &mut Writer) {
        let scalar = |coin: &Coin<Ristretto>| coin.scalar().to_bytes();
        match &self.0 {
            State::NewDialling => w.put_u8(0),
            State::Committed(drawn, sent) => {
                w.put_u8(1).put_bytes(&drawn.snapshot()).put_bytes(sent)
            }
            State::Answered(drawn, sent) => {
                w.put_u8(2).put_bytes(&drawn.snapshot()).put_bytes(sent)
            }
            State::OpenedDialling => w.put_u8(3),
            State::NewAnswering => w.put_u8(4),
            State::Asked(beta) => w.put_u8(5).put_bytes(&scalar(beta)),
            State::Replied(beta) => w.put_u8(6).put_bytes(&scalar(beta)),
            State::OpenedAnswering => w.put_u8(7),
            State::Done => w.put_u8(8),
        };
    }
}

impl fmt::Debug for GkxGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GkxGuard")
    }
}
