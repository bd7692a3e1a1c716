//! Frames of an attacker who holds a state: frames with right tags and wrong contents.

use hmac::{Hmac, KeyInit, Mac};
use mezza_core::{EphemeralKey, Machine, PortableBackend, PublicKey, Secret, Time};
use mezza_seka::keys::CanonicalPoint;
use mezza_seka::suite::LinkSuite;
use mezza_seka::wire::{HandshakeFrame, Ke1};
use mezza_seka::{PeerInput, PeerRecord};
use sha2::{Digest, Sha256, Sha512};

use crate::stage::{Default, Side};

/// The points of low order in their canonical forms: 0, 1, the two of order 8, and p - 1.
pub const LOW_ORDER: [[u8; 32]; 5] = [
    [0; 32],
    {
        let mut one = [0; 32];
        one[0] = 1;
        one
    },
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    {
        let mut last = [0xff; 32];
        (last[0], last[31]) = (0xec, 0x7f);
        last
    },
];

/// HMAC-SHA-512, written a second time.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 64] {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// A tag of suite `default` under a state.
pub fn tag(state: &[u8; 32], label: [u8; 8], parts: &[&[u8]]) -> [u8; 16] {
    let key = hmac(state, &[b"seka1 mac"]);
    let all: Vec<&[u8]> = [&label[..]].into_iter().chain(parts.iter().copied()).collect();
    *hmac(&key[..32], &all).first_chunk().expect("16 of 64")
}

/// KE1 of the initiator with this point, under its state.
pub fn ke1(side: &Side<Default>, point: &[u8; 32], attempt: u32) -> Vec<u8> {
    let own = side.peer.record().own;
    let digest = Sha256::new()
        .chain_update(b"seka1 s")
        .chain_update(own.as_bytes())
        .chain_update(point)
        .finalize();
    tagged(side, point, digest[..16].try_into().expect("16 bytes"), attempt)
}

/// KE1 of the initiator with this session id, under its state.
pub fn ke1_with_id(side: &Side<Default>, session_id: &[u8; 16], attempt: u32) -> Vec<u8> {
    tagged(side, &[9; 32], *session_id, attempt)
}

fn tagged(side: &Side<Default>, point: &[u8; 32], session_id: [u8; 16], attempt: u32) -> Vec<u8> {
    let record: &PeerRecord = side.peer.record();
    let mut frame = Ke1 {
        suite: Default::NUMBER,
        index: 0x100 | attempt & 0xff,
        from: record.own,
        to: record.peer,
        session_id,
        attempt,
        m1: CanonicalPoint::from_canonical(PublicKey(*point).0).expect("canonical"),
        tag: [0; 16],
    };
    frame.tag = tag(side.peer.stolen_states().0, *b"seka1-t1", &[&frame.encode()[..72]]);
    frame.encode()
}

/// Lets attempts fail until so many were made under the state.
pub fn skip_attempts<S: LinkSuite>(side: &mut Side<S>, attempts: i64) {
    let mut now = Time::from_ms(100_000);
    for _ in 0..=attempts {
        let _ = side.give(PeerInput::Rekey, now);
        side.sent.clear();
        while let Some(due) = side.peer.deadline().filter(|due| *due <= now.plus_ms(4_000)) {
            now = now.max(due);
            side.wake(now);
            side.sent.clear();
        }
        side.writes.clear();
    }
}

/// HKDF-SHA-512 with 64 bytes of output (RFC 5869), written a second time.
fn hkdf(ikm: &[u8], salt: &[&[u8]], info: &[&[u8]]) -> [u8; 64] {
    let prk = hmac(&salt.concat(), &[ikm]);
    hmac(&prk, &[&info.concat(), &[1]])
}

/// Computes the secrets of an exchange of suite `default` from its state and one of the two private
/// keys: the next state and the session key.
pub fn secrets(
    state: &[u8; 32],
    scalar: &[u8; 32],
    ke1: &[u8],
    ke2: &[u8],
) -> ([u8; 32], [u8; 32]) {
    let m1 = &ke1[40..72];
    let m2 = &ke2[40..72];
    let own = EphemeralKey::from_scalar::<PortableBackend>(Secret::copy_from(scalar));
    let their = if own.public_key().as_bytes()[..] == *m1 { m2 } else { m1 };
    let their = PublicKey(*their.first_chunk().expect("a point"));
    let shared = own.diffie_hellman::<PortableBackend>(&their).expect("a secret");
    let info: [&[u8]; 6] = [b"seka1 ke", &[2], &ke1[8..20], state, m1, m2];
    let out = hkdf(shared.expose(), &[&ke1[20..36], state], &info);
    (*out.first_chunk().expect("32"), *out.last_chunk().expect("32"))
}

/// KE2 to this KE1 by somebody who has the state, with a key of his own.
pub fn ke2(state: &[u8; 32], ke1: &[u8], scalar: &[u8; 32]) -> Vec<u8> {
    let own = EphemeralKey::from_scalar::<PortableBackend>(Secret::copy_from(scalar));
    let mut frame =
        [&[1, 0x16, 2, 0, 0, 2, 0, ke1[39]], &ke1[14..20], &ke1[8..14], &ke1[20..40]].concat();
    frame.extend_from_slice(own.public_key().as_bytes());
    let tag = tag(state, *b"seka1-t2", &[&frame, &ke1[..72]]);
    frame.extend_from_slice(&tag);
    frame
}
