//! GKX: a key exchange whose random values a firewall can change completely without being noticed.
//!
//! ```text
//! I: x, r, s      --- G1  C1 = r G + s H, C2 = s H + x G --->
//!                 <-- G2  Y = y G ---                              R: y
//! I: S = x Y      --- G3  r, s, tag_I --->                         C1 fits; X = C2 - s H != 0
//!                 <-- G4  tag_R ---                                R: S = y X, finds I
//! PRK = HKDF-Extract("guard1 gkx", S | ss | psk);  ss = X25519 of the identity keys
//! kc_I | kc_R | k_IR | k_RI = HKDF-Expand(PRK, "keys" | m | A_I | A_R, 128)
//! ```
//! All authenticated values are functions of S, ss, psk and the identities, and firewalls leave S
//! equal at both ends. Values that firewalls change are never hashed (GUARD-9, GUARD-12).

mod guard;

pub use guard::GkxGuard;

use alloc::vec::Vec;
use core::fmt;

use curve25519_dalek::scalar::Scalar;
use mezza_core::{Backend, CryptoRng, PublicKey, Secret, StaticKey};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::coins::{CoinRole, Coins, wipe_on_drop};
use crate::commit::{coins_and_commitment, open_commitment};
use crate::group::{Group as _, Ristretto, SharedElement};
use crate::keys::{hkdf_sha256, hmac_tag};
use crate::wire::{self, G1, G1_BYTES, G2, G2_BYTES, G3, G3_BYTES, G4, G4_BYTES, TAG_BYTES};

/// Most identities that a responder tries, which takes about 1 ms.
pub const GKX_CANDIDATES_MAX: usize = 1_024;
/// The mode byte m of version 1, which means no psk.
const MODE: [u8; 1] = [0];
/// The psk of version 1, all zeros.
const NO_PSK: [u8; 32] = [0; 32];

/// The reason why an exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GkxError {
    /// The peer sent a malformed frame, an opening that does not match or a wrong tag, or is
    /// unknown. All of these look equal from outside: the connection closes (GUARD-14).
    #[error("the exchange failed; the connection closes")]
    Refused,
    /// The caller passed an identity key of low order.
    #[error("the identity key of the peer is of low order")]
    Identity,
    /// The caller passed more than [`GKX_CANDIDATES_MAX`] candidates.
    #[error("too many candidates")]
    Candidates,
}

/// An identity that a responder accepts.
pub struct GkxCandidate {
    identity: PublicKey,
    ss: Secret<32>,
}

impl GkxCandidate {
    /// Computes the X25519 secret of our identity key and that of a contact, once for all
    /// exchanges.
    ///
    /// # Errors
    /// [`GkxError::Identity`] if the contact's key has low order.
    pub fn new<B: Backend>(own: &StaticKey, identity: PublicKey) -> Result<Self, GkxError> {
        let ss = own.diffie_hellman::<B>(&identity).map_err(|_| GkxError::Identity)?;
        Ok(Self { identity, ss })
    }
}

impl fmt::Debug for GkxCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GkxCandidate")
    }
}

/// The keys of an exchange, one per direction.
pub struct GkxKeys {
    /// Protects data from the initiator, 32 bytes.
    pub initiator: Secret<32>,
    /// Protects data from the responder, 32 bytes.
    pub responder: Secret<32>,
}

impl fmt::Debug for GkxKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GkxKeys")
    }
}

/// The key schedule of one exchange.
struct Schedule {
    initiator_tag: [u8; TAG_BYTES],
    responder_tag: [u8; TAG_BYTES],
    keys: GkxKeys,
}

impl Schedule {
    fn new(
        group: &Ristretto,
        shared: &SharedElement<Ristretto>,
        ss: &Secret<32>,
        [initiator, responder]: [&PublicKey; 2],
    ) -> Self {
        // Only values that no guard changes are hashed: S, ss, psk and identities (GUARD-9,
        // GUARD-12).
        let mut ikm = [&shared.encode(group)[..], ss.expose(), &NO_PSK].concat();
        // Identities are included, so that an exchange with one contact cannot be taken for
        // another.
        let info = [b"keys", &MODE[..], initiator.as_bytes(), responder.as_bytes()].concat();
        let all: Secret<128> = hkdf_sha256(b"guard1 gkx", &ikm, &info);
        ikm.zeroize();
        let part = |at: usize| {
            Secret::init_with(|key| key.copy_from_slice(&all.expose()[32 * at..][..32]))
        };
        let (confirm_i, confirm_r): (Secret<32>, Secret<32>) = (part(0), part(1));
        Self {
            initiator_tag: hmac_tag(confirm_i.expose(), b"initiator"),
            responder_tag: hmac_tag(confirm_r.expose(), b"responder"),
            keys: GkxKeys { initiator: part(2), responder: part(3) },
        }
    }
}

/// Returns a decoded value, or [`GkxError::Refused`] for any error.
fn require_decoded<T>(value: Result<T, impl Sized>) -> Result<T, GkxError> {
    // One error for every cause, so that a peer cannot tell which check failed (GUARD-14).
    value.map_err(|_| GkxError::Refused)
}

/// The end that dials and commits, before it receives Y.
pub struct GkxInitiator {
    x: Zeroizing<Scalar>,
    r: Zeroizing<Scalar>,
    s: Zeroizing<Scalar>,
    ss: Secret<32>,
    identities: [PublicKey; 2],
}

impl GkxInitiator {
    /// Begins an exchange with a contact. Returns G1, 66 bytes.
    ///
    /// # Errors
    /// [`GkxError::Identity`] if the contact's identity key has low order.
    pub fn begin<B: Backend>(
        group: &Ristretto,
        own: &StaticKey,
        peer: &PublicKey,
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Self, Vec<u8>), GkxError> {
        let ss = own.diffie_hellman::<B>(peer).map_err(|_| GkxError::Identity)?;
        let ([x, r, s], [c1, c2]) = coins_and_commitment(group, coins, rng);
        // The commitment is sent before Y is known, so that X cannot be chosen after Y (GUARD-11).
        let frame = wire::build_frame(G1, &[&group.encode(&c1), &group.encode(&c2)]);
        Ok((Self { x, r, s, ss, identities: [*own.public_key(), *peer] }, frame))
    }

    /// Handles G2. Returns G3, 82 bytes.
    ///
    /// # Errors
    /// [`GkxError::Refused`] for a malformed frame or an identity.
    pub fn open(self, group: &Ristretto, g2: &[u8]) -> Result<(GkxOpened, Vec<u8>), GkxError> {
        let y = require_decoded(
            group.decode(require_decoded(wire::frame_body::<{ G2_BYTES - 2 }>(g2, G2))?),
        )?;
        // The shared element must not be the identity, which would make the keys public.
        let shared = require_decoded(SharedElement::agree(group, &y, &self.x))?;
        let [initiator, responder] = &self.identities;
        let schedule = Schedule::new(group, &shared, &self.ss, [initiator, responder]);
        let r = group.encode_scalar(&self.r);
        let s = group.encode_scalar(&self.s);
        let frame = wire::build_frame(G3, &[&r, &s, &schedule.initiator_tag]);
        Ok((GkxOpened { schedule }, frame))
    }
}

/// The end that dials, before it receives the responder's tag.
pub struct GkxOpened {
    schedule: Schedule,
}

impl GkxOpened {
    /// Handles G4. Returns the keys.
    ///
    /// # Errors
    /// [`GkxError::Refused`] for a malformed frame or a wrong tag.
    pub fn finish(self, g4: &[u8]) -> Result<GkxKeys, GkxError> {
        let seen = require_decoded(wire::frame_body::<{ G4_BYTES - 2 }>(g4, G4))?;
        // The comparison takes constant time (GUARD-16).
        if bool::from(seen.ct_eq(&self.schedule.responder_tag)) {
            Ok(self.schedule.keys)
        } else {
            Err(GkxError::Refused)
        }
    }
}

/// The end that answers, before it receives the opening.
pub struct GkxResponder {
    y: Zeroizing<Scalar>,
    /// C1 and C2, encoded, which takes half the size of points.
    commitment: [u8; 64],
}

/// An exchange that a responder has accepted.
#[derive(Debug)]
pub struct GkxAccepted {
    /// Index of the candidate who dialled.
    pub candidate: usize,
    /// The keys.
    pub keys: GkxKeys,
    /// The frame G4 to send, 18 bytes.
    pub frame: Vec<u8>,
}

impl GkxResponder {
    /// Handles G1. Returns G2, 34 bytes. Y is drawn before X is known (GUARD-11).
    ///
    /// # Errors
    /// [`GkxError::Refused`] for a malformed frame.
    pub fn answer(
        group: &Ristretto,
        g1: &[u8],
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Self, Vec<u8>), GkxError> {
        let commitment = *require_decoded(wire::frame_body::<{ G1_BYTES - 2 }>(g1, G1))?;
        // Elements are checked when they arrive, before a coin is drawn for an answer (GUARD-1).
        for element in wire::split_pair(&commitment) {
            require_decoded(group.decode(element))?;
        }
        let see = |y: &Scalar| alloc::vec![group.encode(&group.power_g(y))];
        // Drawn while X is still committed, so that Y cannot depend on X (GUARD-11).
        let y = wipe_on_drop(coins.draw_coin(group, CoinRole::Exponent, &see, rng));
        let frame = wire::build_frame(G2, &[&group.encode(&group.power_g(&y))]);
        Ok((Self { y, commitment }, frame))
    }

    /// Handles G3 and finds the candidate who dialled. All candidates are tried, even after a match
    /// (GUARD-13).
    ///
    /// # Errors
    /// [`GkxError::Refused`] if the frame is malformed or no candidate matches,
    /// [`GkxError::Candidates`] for too many candidates.
    pub fn finish(
        self,
        group: &Ristretto,
        g3: &[u8],
        own: &PublicKey,
        candidates: &[GkxCandidate],
    ) -> Result<GkxAccepted, GkxError> {
        // The bound keeps the time of the trials, which an observer can measure, near 1 ms
        // (GUARD-13).
        if candidates.len() > GKX_CANDIDATES_MAX {
            return Err(GkxError::Candidates);
        }
        let body = require_decoded(wire::frame_body::<{ G3_BYTES - 2 }>(g3, G3))?;
        let (r, rest) = body.split_at(32);
        let (s, seen) = rest.split_at(32);
        let [c1, c2] = wire::split_pair(&self.commitment).map(|element| group.decode(element));
        let r = require_decoded(group.decode_scalar(r))?;
        let s = require_decoded(group.decode_scalar(s))?;
        // Without an opened x there is no shared element to try.
        let x = require_decoded(open_commitment(
            group,
            [&require_decoded(c1)?, &require_decoded(c2)?],
            [&r, &s],
        ))?;
        let shared = require_decoded(SharedElement::agree(group, &x, &self.y))?;
        let mut found = None;
        for (number, candidate) in candidates.iter().enumerate() {
            let identities = [&candidate.identity, own];
            let schedule = Schedule::new(group, &shared, &candidate.ss, identities);
            if bool::from(seen.ct_eq(&schedule.initiator_tag)) {
                // The loop does not stop early, so that the time does not show which candidate
                // dialled (GUARD-13).
                found = Some((number, schedule));
            }
        }
        let (candidate, Schedule { responder_tag, keys, .. }) = found.ok_or(GkxError::Refused)?;
        Ok(GkxAccepted { candidate, keys, frame: wire::build_frame(G4, &[&responder_tag]) })
    }
}

impl fmt::Debug for GkxInitiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GkxInitiator")
    }
}

impl fmt::Debug for GkxOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GkxOpened")
    }
}

impl fmt::Debug for GkxResponder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GkxResponder")
    }
}
