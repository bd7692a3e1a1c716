//! GKX: a key exchange that a firewall can change in full, and nobody notices.
//!
//! ```text
//! I: x, r, s      --- G1  C1 = r G + s H, C2 = s H + x G --->
//!                 <-- G2  Y = y G ---                              R: y
//! I: S = x Y      --- G3  r, s, tag_I --->                         C1 fits; X = C2 - s H != 0
//!                 <-- G4  tag_R ---                                R: S = y X, finds I
//! PRK = HKDF-Extract("guard1 gkx", S | ss | psk);  ss = X25519 of the identity keys
//! kc_I | kc_R | k_IR | k_RI = HKDF-Expand(PRK, "keys" | m | A_I | A_R, 128)
//! ```
//! Everything that is authenticated is a function of S, ss, psk and the identities, and S is what
//! firewalls leave equal at both ends. What they change is hashed nowhere (GUARD-9, GUARD-12).

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

/// The most identities that a responder tries: about 1 ms of trials.
pub const GKX_CANDIDATES_MAX: usize = 1_024;
/// The mode byte m of version 1: no psk.
const MODE: [u8; 1] = [0];
/// The psk of version 1.
const NO_PSK: [u8; 32] = [0; 32];

/// Why an exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GkxError {
    /// The peer: a frame that is none, an opening that does not fit, a wrong tag, or nobody we know.
    /// All of them look the same from outside: the connection closes (GUARD-14).
    #[error("the exchange failed; the connection closes")]
    Refused,
    /// Our caller: the identity key of the peer has low order.
    #[error("the identity key of the peer is of low order")]
    Identity,
    /// Our caller: more candidates than are tried.
    #[error("too many candidates")]
    Candidates,
}

/// An identity that a responder expects.
pub struct GkxCandidate {
    identity: PublicKey,
    ss: Secret<32>,
}

impl GkxCandidate {
    /// Computes the secret of the own identity key and that of a contact, once for all exchanges.
    ///
    /// # Errors
    /// The contact's key is of low order.
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

/// The keys of an exchange. Both directions differ.
pub struct GkxKeys {
    /// Protects what the initiator sends, 32 bytes.
    pub initiator: Secret<32>,
    /// Protects what the responder sends, 32 bytes.
    pub responder: Secret<32>,
}

impl fmt::Debug for GkxKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GkxKeys")
    }
}

/// The schedule of one exchange.
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
        // Identities are bound, so that an exchange with one contact cannot be taken for another.
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

/// Decoded elements and scalars, or the one refusal.
fn require_decoded<T>(value: Result<T, impl Sized>) -> Result<T, GkxError> {
    // One error for every cause, so that a peer cannot tell which check failed (GUARD-14).
    value.map_err(|_| GkxError::Refused)
}

/// The end that dials and commits, waiting for Y.
pub struct GkxInitiator {
    x: Zeroizing<Scalar>,
    r: Zeroizing<Scalar>,
    s: Zeroizing<Scalar>,
    ss: Secret<32>,
    identities: [PublicKey; 2],
}

impl GkxInitiator {
    /// Begins an exchange with a contact; gives G1, 66 bytes.
    ///
    /// # Errors
    /// The contact's identity key is of low order.
    pub fn begin<B: Backend>(
        group: &Ristretto,
        own: &StaticKey,
        peer: &PublicKey,
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Self, Vec<u8>), GkxError> {
        let ss = own.diffie_hellman::<B>(peer).map_err(|_| GkxError::Identity)?;
        let ([x, r, s], [c1, c2]) = coins_and_commitment(group, coins, rng);
        // The commitment leaves before Y is known, so that X cannot be chosen after it (GUARD-11).
        let frame = wire::build_frame(G1, &[&group.encode(&c1), &group.encode(&c2)]);
        Ok((Self { x, r, s, ss, identities: [*own.public_key(), *peer] }, frame))
    }

    /// Takes G2; gives G3, 82 bytes.
    ///
    /// # Errors
    /// [`GkxError::Refused`].
    pub fn open(self, group: &Ristretto, g2: &[u8]) -> Result<(GkxOpened, Vec<u8>), GkxError> {
        let y = require_decoded(
            group.decode(require_decoded(wire::frame_body::<{ G2_BYTES - 2 }>(g2, G2))?),
        )?;
        // The shared element is never the identity, which would make the keys public.
        let shared = require_decoded(SharedElement::agree(group, &y, &self.x))?;
        let [initiator, responder] = &self.identities;
        let schedule = Schedule::new(group, &shared, &self.ss, [initiator, responder]);
        let r = group.encode_scalar(&self.r);
        let s = group.encode_scalar(&self.s);
        let frame = wire::build_frame(G3, &[&r, &s, &schedule.initiator_tag]);
        Ok((GkxOpened { schedule }, frame))
    }
}

/// The end that dials, waiting for the responder's tag.
pub struct GkxOpened {
    schedule: Schedule,
}

impl GkxOpened {
    /// Takes G4; gives the keys.
    ///
    /// # Errors
    /// [`GkxError::Refused`].
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

/// The end that answers, waiting for the opening.
pub struct GkxResponder {
    y: Zeroizing<Scalar>,
    /// C1 and C2, encoded: half the size of points.
    commitment: [u8; 64],
}

/// An exchange that a responder has accepted.
#[derive(Debug)]
pub struct GkxAccepted {
    /// The number of the candidate who dialled.
    pub candidate: usize,
    /// The keys.
    pub keys: GkxKeys,
    /// G4, 18 bytes, to be sent.
    pub frame: Vec<u8>,
}

impl GkxResponder {
    /// Answers G1; gives G2, 34 bytes. Y is drawn before X is known (GUARD-11).
    ///
    /// # Errors
    /// [`GkxError::Refused`].
    pub fn answer(
        group: &Ristretto,
        g1: &[u8],
        coins: &mut dyn Coins<Ristretto>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Self, Vec<u8>), GkxError> {
        let commitment = *require_decoded(wire::frame_body::<{ G1_BYTES - 2 }>(g1, G1))?;
        // Elements are checked at the first boundary, before a coin is drawn for an answer
        // (GUARD-1).
        for element in wire::split_pair(&commitment) {
            require_decoded(group.decode(element))?;
        }
        let see = |y: &Scalar| alloc::vec![group.encode(&group.power_g(y))];
        // Drawn while X is still committed, so that it cannot follow from X (GUARD-11).
        let y = wipe_on_drop(coins.draw_coin(group, CoinRole::Exponent, &see, rng));
        let frame = wire::build_frame(G2, &[&group.encode(&group.power_g(&y))]);
        Ok((Self { y, commitment }, frame))
    }

    /// Takes G3 and finds out who dialled: every candidate is tried, whether or not one has matched
    /// (GUARD-13).
    ///
    /// # Errors
    /// [`GkxError::Refused`], or too many candidates.
    pub fn finish(
        self,
        group: &Ristretto,
        g3: &[u8],
        own: &PublicKey,
        candidates: &[GkxCandidate],
    ) -> Result<GkxAccepted, GkxError> {
        // The bound keeps the time of trials, which an observer sees, near 1 ms (GUARD-13).
        if candidates.len() > GKX_CANDIDATES_MAX {
            return Err(GkxError::Candidates);
        }
        let body = require_decoded(wire::frame_body::<{ G3_BYTES - 2 }>(g3, G3))?;
        let (r, rest) = body.split_at(32);
        let (s, seen) = rest.split_at(32);
        let [c1, c2] = wire::split_pair(&self.commitment).map(|element| group.decode(element));
        let r = require_decoded(group.decode_scalar(r))?;
        let s = require_decoded(group.decode_scalar(s))?;
        // Without an opened x there is no shared element, and nothing to try.
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
                // No break: the time must not show which candidate dialled (GUARD-13).
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
