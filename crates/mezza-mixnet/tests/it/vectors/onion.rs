//! Onions of a second implementation: round secrets 32 x (0x10+i), scalars 32 x (0x20+i).

use mezza_core::{EphemeralKey, PortableBackend, PublicKey, Secret, blake2b};
use mezza_lanes::{BASE, Scalar, portable};
use mezza_mixnet::keys::SecretVec;
use mezza_mixnet::onion::{Layer, Unwrapped, open_reply, seal_replies, unwrap_layer, wrap_one};
use mezza_mixnet::service::reply_bytes;
use mezza_mixnet::{RoundId, Service};

use super::Case;

/// The secret of the mix at a position, and the layer that it takes off.
fn mix(position: usize, id: RoundId) -> (Scalar, Layer) {
    let secret = [0x10 + position as u8; 32];
    let mut key = [[0; 32]];
    portable().x25519_pairwise(&[secret], &[BASE], &mut key);
    (Scalar::copy_from(&secret), Layer { id, position: position as u8, key: PublicKey(key[0]) })
}

/// Returns the content that the mixes find one after the other; `None` as soon as one finds a bad onion.
fn through(case: &Case, id: RoundId, mixes: usize) -> Option<(Vec<u8>, Vec<SecretVec>)> {
    let mut onion = case.bytes("onion");
    let mut back = Vec::new();
    for position in 0..mixes {
        let (secret, layer) = mix(position, id);
        if onion.len() != id.service.onion_bytes(mixes - position) {
            return None;
        }
        let size = onion.len();
        let got: Unwrapped = unwrap_layer(portable(), &secret, &layer, &onion, size);
        if got.opened != [1] {
            return None;
        }
        onion = got.inner_onions().collect::<Vec<_>>().concat();
        back.push(got.reply_keys);
    }
    Some((onion, back))
}

/// The onion as a client with the vector's scalars makes it, and its reply keys, outermost first.
fn wrapped(inner: &[u8], id: RoundId, mixes: usize) -> (Vec<u8>, SecretVec) {
    let mut onion = inner.to_vec();
    let mut back = SecretVec::zeros(mixes);
    for position in (0..mixes).rev() {
        let (_, layer) = mix(position, id);
        let secret = Secret::init_with(|s| s.fill(0x20 + position as u8));
        let pair = EphemeralKey::from_scalar::<PortableBackend>(secret);
        let public = *pair.public_key();
        let shared = pair.diffie_hellman::<PortableBackend>(&layer.key).expect("a good key");
        let key;
        (onion, key) = wrap_one(portable(), &layer, &public, shared.expose(), &onion);
        back[position] = key[0];
    }
    (onion, back)
}

pub fn opens(case: &Case) {
    let service = Service::from_number(case.number("service") as u8).expect("a service");
    let id = RoundId { service, round: case.number("round") };
    let mixes = case.number("mixes") as usize;
    let inner = case.bytes("inner");
    let Some((found, backs)) = through(case, id, mixes) else { return case.assert_outcome("bad") };
    case.assert_outcome("opens");
    assert_eq!(found, inner);
    let (onion, keys) = wrapped(&inner, id, mixes);
    case.assert_bytes("onion", &onion);
    if service.has_replies() {
        let mut reply = vec![0xa5; 256];
        for (layers, back) in backs.iter().rev().enumerate() {
            reply = seal_replies(portable(), back, &reply, reply_bytes(layers));
        }
        case.assert_bytes("reply", &reply);
        assert_eq!(open_reply(portable(), &keys, reply), Some(vec![0xa5; 256]));
    }
}

/// The known answer of the specification.
pub fn known(case: &Case) {
    let id = RoundId { service: Service::Conversation, round: 7 };
    let mut inner = (0..16).collect::<Vec<u8>>();
    inner.resize(272, 0x5a);
    let (onion, keys) = wrapped(&inner, id, 3);
    case.assert_bytes("onion", &onion);
    case.assert_bytes("kr2", &keys[2]);
    let mut hash = [0; 32];
    blake2b(&mut hash, &[], "", &[&onion]);
    case.assert_bytes("onion_hash", &hash);
    let (_, backs) = through(case, id, 3).expect("a good onion");
    let mut reply = vec![0xa5; 256];
    for (layers, back) in backs.iter().rev().enumerate() {
        reply = seal_replies(portable(), back, &reply, reply_bytes(layers));
    }
    blake2b(&mut hash, &[], "", &[&reply]);
    case.assert_bytes("reply_hash", &hash);
}
