//! An invitation: `X 32 | AEAD(k, bucket of the inviter u32 | body 208)`, 260 bytes.
//!
//! `K = H_64("mezza/invite", Z, X, D, round)`, and k is its first half; D is the recipient's
//! dialling key. The body is opaque here: the messenger puts the first message of a session into
//! it.

use mezza_core::{
    AeadKey, Backend, EphemeralKey, PublicKey, Secret, StaticKey, Wiping, labelled_hash, snapshot,
    wipe_bytes,
};

use crate::service::INVITATION_BYTES;

/// Bytes of the body.
pub const BODY_BYTES: usize = 208;
/// Bytes that are sealed: bucket and body.
const PLAIN_BYTES: usize = 4 + BODY_BYTES;
const TAG_AT: usize = 32 + PLAIN_BYTES;
const NONCE: [u8; 12] = [0; 12];

/// The content of an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The call bucket in which the inviter waits for an answer.
    pub bucket: u32,
    /// 208 bytes for the recipient's messenger.
    pub body: Wiping<[u8; BODY_BYTES]>,
}

snapshot!(struct Invitation { bucket, body });

impl Invitation {
    /// Seals the invitation for the holder of the dialling key `to`, in one round. `own` must be
    /// used for this call only. Returns `None` if `to` has small order.
    pub fn seal<B: Backend>(
        &self,
        own: EphemeralKey,
        to: &PublicKey,
        round: u64,
    ) -> Option<[u8; INVITATION_BYTES]> {
        let x = *own.public_key();
        // A dialling key of small order would give a publicly known key.
        let key = derive_key::<B>(&own.diffie_hellman::<B>(to).ok()?, &x, to, round);
        let mut sealed = [0; INVITATION_BYTES];
        sealed[..32].copy_from_slice(&x.0);
        sealed[32..36].copy_from_slice(&self.bucket.to_be_bytes());
        sealed[36..TAG_AT].copy_from_slice(&*self.body);
        let tag = key.seal(&NONCE, &[], &mut sealed[32..TAG_AT]);
        sealed[TAG_AT..].copy_from_slice(&tag);
        Some(sealed)
    }

    /// Opens an invitation with the dialling key `own`. Returns `None` if it is for another
    /// recipient, which is the usual case.
    pub fn open<B: Backend>(
        own: &StaticKey,
        sealed: &[u8; INVITATION_BYTES],
        round: u64,
    ) -> Option<Self> {
        let (x, rest) = sealed.split_first_chunk::<32>()?;
        let (text, tag) = rest.split_last_chunk::<16>()?;
        let x = PublicKey(*x);
        let key = derive_key::<B>(&own.diffie_hellman::<B>(&x).ok()?, &x, own.public_key(), round);
        let mut plain = Wiping::new([0; PLAIN_BYTES]);
        plain.copy_from_slice(text);
        // Nearly all invitations of a bucket end here, because they are for others or noise.
        if !key.open(&NONCE, &[], &mut *plain, tag) {
            return None;
        }
        let (bucket, body) = plain.split_first_chunk::<4>()?;
        let mut own_body = Wiping::new([0; BODY_BYTES]);
        own_body.copy_from_slice(body);
        Some(Self { bucket: u32::from_be_bytes(*bucket), body: own_body })
    }
}

fn derive_key<B: Backend>(z: &Secret<32>, x: &PublicKey, d: &PublicKey, round: u64) -> B::Chacha {
    let mut both: [u8; 64] =
        // Both keys and the round are included, so an invitation cannot be replayed in a later
        // round.
        labelled_hash("mezza/invite", &[z.expose(), &x.0, &d.0, &round.to_be_bytes()]);
    let key = Secret::<32>::init_with(|k| k.copy_from_slice(&both[..32]));
    wipe_bytes(&mut both);
    B::Chacha::new(key.expose())
}
