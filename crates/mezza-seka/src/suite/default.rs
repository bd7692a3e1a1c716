//! Suite 02 `default`: HMAC-SHA-512 for tags and keys, AES-256-GCM for frames.

use core::marker::PhantomData;

use hmac::Hmac;
use mezza_core::{CryptoRng, Secret, Wiping};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

use super::{ExchangeKeys, ExchangeView, GcmFrames, LinkMac, LinkSuite, TagPlace};
use crate::backend::LinkBackend;
use crate::keys::{
    CanonicalPoint, LinkId, LinkState, SessionKey, derive_key, finish_hash, keyed_hash, keyed_hmac,
};
use crate::limits::TAG_BYTES;
use crate::session::NoncePrefixes;

/// Suite 02, over a backend.
#[derive(Debug)]
pub struct DefaultSuite<B>(PhantomData<B>);

/// HMAC-SHA-512 under `K = H(st, "seka1 mac")[..32]`, its first 16 bytes.
pub struct HmacTags(Hmac<Sha512>);

impl LinkMac for HmacTags {
    fn new(state: &LinkState, _: &NoncePrefixes) -> Self {
        let key: Secret<32> = keyed_hash(state.expose(), &[b"seka1 mac"]);
        Self(keyed_hmac(key.expose()))
    }

    fn compute_tag(&self, _: &TagPlace, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        *finish_hash(self.0.clone(), parts).expose()
    }
}

impl<B: LinkBackend + Send> LinkSuite for DefaultSuite<B> {
    type Backend = B;
    type Mac = HmacTags;
    type Frames = GcmFrames<32, B::Gcm256>;

    const NUMBER: u8 = 0x02;
    const NAME: &'static str = "default";
    const COMPLETE: bool = true;
    const ATTEMPTS_MAX: Option<i64> = None;

    /// Returns the first 16 bytes of SHA-256 over label, name and key, which leaves no choice to
    /// the initiator.
    fn session_id(
        initiator: &LinkId,
        m1: &CanonicalPoint,
        _: &mut dyn CryptoRng,
    ) -> [u8; TAG_BYTES] {
        derived_id(*initiator, m1)
    }

    fn is_session_id(id: &[u8; TAG_BYTES], initiator: &LinkId, m1: &CanonicalPoint) -> bool {
        // Constant time, since the check runs on frames of unknown senders (SEKA-5).
        id.ct_eq(&derived_id(*initiator, m1)).into()
    }

    fn derive_first_state(shared: &Secret<32>, view: &ExchangeView<'_>) -> LinkState {
        let pair = view.pair.to_bytes();
        let info: [&[u8]; 5] =
            [b"seka1 boot", &[Self::NUMBER], &pair, view.m1.as_bytes(), view.m2.as_bytes()];
        LinkState::new(Secret::init_with(|out| derive_key(shared, &[view.session_id], &info, out)))
    }

    fn derive_exchange_keys(
        shared: &Secret<32>,
        state: &LinkState,
        view: &ExchangeView<'_>,
    ) -> ExchangeKeys {
        let pair = view.pair.to_bytes();
        let info: [&[u8]; 6] = [
            b"seka1 ke",
            &[Self::NUMBER],
            &pair,
            state.expose(),
            view.m1.as_bytes(),
            view.m2.as_bytes(),
        ];
        let mut out = Wiping::new([0; 64]);
        // Salt and info both contain the old state, so a bad generator alone does not reveal the
        // new one.
        derive_key(shared, &[view.session_id, state.expose()], &info, out.as_mut_slice());
        let half = |at: usize| Secret::init_with(|own| own.copy_from_slice(&out[at..at + 32]));
        ExchangeKeys { state: LinkState::new(half(0)), session: SessionKey::new(half(32)) }
    }
}

fn derived_id(initiator: LinkId, m1: &CanonicalPoint) -> [u8; TAG_BYTES] {
    let digest = Sha256::new()
        .chain_update(b"seka1 s")
        .chain_update(initiator.as_bytes())
        .chain_update(m1.as_bytes())
        .finalize();
    let mut id = [0; TAG_BYTES];
    id.copy_from_slice(&digest[..TAG_BYTES]);
    id
}
