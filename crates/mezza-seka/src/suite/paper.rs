//! Suite 01 `paper`: AES-128-GMAC and AES-128-GCM, as measured in the paper's tables. Only the lab
//! may import this suite (SEKA-28): a device restored to an older state repeats its nonces.

use core::marker::PhantomData;

use mezza_core::{AeadKey, CryptoRng, Secret, Wiping};

use super::{ExchangeKeys, ExchangeView, GcmFrames, LinkMac, LinkSuite, TagPlace};
use crate::backend::LinkBackend;
use crate::keys::{CanonicalPoint, LinkId, LinkState, SessionKey, derive_key};
use crate::limits::{PAPER_ATTEMPTS_MAX, TAG_BYTES};
use crate::session::{NoncePrefixes, build_nonce};

/// Bytes of a state and of a session key.
const KEY_BYTES: usize = 16;
/// Maximum number of bytes that a tag covers.
const TAGGED_BYTES_MAX: usize = 512;

/// Suite 01, over a backend.
#[derive(Debug)]
pub struct PaperSuite<B>(PhantomData<B>);

/// AES-128-GMAC under the state itself.
pub struct GmacTags<B: LinkBackend> {
    key: B::Gcm128,
    prefixes: NoncePrefixes,
}

impl<B: LinkBackend> LinkMac for GmacTags<B> {
    fn new(state: &LinkState, prefixes: &NoncePrefixes) -> Self {
        let mut key = Wiping::new([0; KEY_BYTES]);
        key.copy_from_slice(&state.expose()[..KEY_BYTES]);
        Self { key: B::Gcm128::new(&key), prefixes: *prefixes }
    }

    fn compute_tag(&self, place: &TagPlace, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut joined = [0; TAGGED_BYTES_MAX];
        let mut len = 0;
        for part in parts {
            joined[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        // One prefix per direction: with the single prefix of the paper a dropped frame repeats a
        // nonce.
        let iv = build_nonce(self.prefixes.of_sender(place.sender), place.counter);
        self.key.seal(&iv, &joined[..len], &mut [])
    }
}

impl<B: LinkBackend + Send> LinkSuite for PaperSuite<B> {
    type Backend = B;
    type Mac = GmacTags<B>;
    type Frames = GcmFrames<16, B::Gcm128>;

    const NUMBER: u8 = 0x01;
    const NAME: &'static str = "paper";
    const COMPLETE: bool = false;
    const ATTEMPTS_MAX: Option<i64> = Some(PAPER_ATTEMPTS_MAX);

    fn session_id(_: &LinkId, _: &CanonicalPoint, rng: &mut dyn CryptoRng) -> [u8; TAG_BYTES] {
        let mut id = [0; TAG_BYTES];
        rng.fill_bytes(&mut id);
        id
    }

    fn is_session_id(_: &[u8; TAG_BYTES], _: &LinkId, _: &CanonicalPoint) -> bool {
        // s is random in suite 01, so there is nothing to compare.
        true
    }

    fn derive_first_state(shared: &Secret<32>, view: &ExchangeView<'_>) -> LinkState {
        let pair = view.pair.to_bytes();
        let salt = view.session_id;
        LinkState::new(Secret::init_with(|out| {
            derive_key(shared, &[salt], &[&[0], &pair], &mut out[..KEY_BYTES]);
        }))
    }

    fn derive_exchange_keys(
        shared: &Secret<32>,
        state: &LinkState,
        view: &ExchangeView<'_>,
    ) -> ExchangeKeys {
        let pair = view.pair.to_bytes();
        let salt = view.session_id;
        let mut out = Wiping::new([0; 2 * KEY_BYTES]);
        derive_key(shared, &[salt], &[&state.expose()[..KEY_BYTES], &pair], out.as_mut_slice());
        let half = |at: usize| {
            Secret::init_with(|own| own[..KEY_BYTES].copy_from_slice(&out[at..at + KEY_BYTES]))
        };
        ExchangeKeys { state: LinkState::new(half(0)), session: SessionKey::new(half(KEY_BYTES)) }
    }
}
