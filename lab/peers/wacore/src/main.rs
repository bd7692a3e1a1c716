//! wacore-libsignal (Signal's protocol, version 3) behind the line protocol of the lab.

mod store;

use std::hint::black_box;
use std::io;

use mezza_lab_measuring::rate::{self, Call};
use pollster::block_on;
use store::Store;
use wacore_libsignal::protocol::{
    CiphertextMessage, GenericSignedPreKey as _, KeyPair, PreKeyBundle, PreKeyRecord,
    ProtocolAddress, SignedPreKeyRecord, Timestamp, UsePQRatchet, message_decrypt_prekey,
    message_decrypt_signal, message_encrypt, process_prekey_bundle,
};

const SPK_ID: u32 = 9;
const OPK_ID: u32 = 7;

/// Operations that it measures.
const OPS: &[&str] = &["seal", "open", "turn", "init", "resp"];

fn main() -> io::Result<()> {
    rate::serve("wacore-libsignal 0.7.0", OPS, &prepare_call)
}

/// A device with one contact.
struct Device {
    store: Store,
    peer: ProtocolAddress,
}

impl Device {
    fn new() -> Self {
        Self { store: Store::new(), peer: ProtocolAddress::new("peer", 1.into()) }
    }

    /// Fresh prekeys, as others would fetch them.
    fn publish_bundle(&mut self) -> PreKeyBundle {
        let mut rng = rand::rng();
        let spk = KeyPair::generate(&mut rng);
        let opk = KeyPair::generate(&mut rng);
        let identity = self.store.identity.clone();
        let signed =
            identity.private_key().calculate_signature(&spk.public_key.serialize(), &mut rng);
        let signature = signed.expect("a signature");
        self.store.pre_keys.0 = Some(PreKeyRecord::new(OPK_ID.into(), &opk));
        let record = SignedPreKeyRecord::new(
            SPK_ID.into(),
            Timestamp::from_epoch_millis(1),
            &spk,
            &signature,
        );
        self.store.signed_pre_keys.0 = Some(record);
        PreKeyBundle::new(
            4660,
            1.into(),
            Some((OPK_ID.into(), opk.public_key)),
            SPK_ID.into(),
            spk.public_key,
            signature.to_vec(),
            *identity.identity_key(),
        )
        .expect("a bundle")
    }

    fn process_bundle(&mut self, bundle: &PreKeyBundle) {
        let Store { sessions, identities, .. } = &mut self.store;
        let mut rng = rand::rng();
        let pq = UsePQRatchet::No;
        block_on(process_prekey_bundle(&self.peer, sessions, identities, bundle, &mut rng, pq))
            .expect("a session");
    }

    fn seal(&mut self, body: &[u8]) -> CiphertextMessage {
        let Store { sessions, identities, .. } = &mut self.store;
        block_on(message_encrypt(body, &self.peer, sessions, identities)).expect("a message")
    }

    fn open(&mut self, message: &CiphertextMessage) -> Vec<u8> {
        let Store { sessions, identities, pre_keys, signed_pre_keys, .. } = &mut self.store;
        let mut rng = rand::rng();
        let opened = match message {
            CiphertextMessage::PreKeySignalMessage(message) => block_on(message_decrypt_prekey(
                message,
                &self.peer,
                sessions,
                identities,
                pre_keys,
                signed_pre_keys,
                &mut rng,
                UsePQRatchet::No,
            )),
            CiphertextMessage::SignalMessage(message) => block_on(message_decrypt_signal(
                message, &self.peer, sessions, identities, &mut rng,
            )),
            _ => unreachable!("no groups here"),
        };
        opened.expect("a body").plaintext
    }
}

/// A device and what the other one published.
fn make_pair() -> (Device, Device, PreKeyBundle) {
    let near = Device::new();
    let mut far = Device::new();
    let bundle = far.publish_bundle();
    (near, far, bundle)
}

/// Both sides after a message each way and one more from the first.
fn exchange_messages() -> (Device, Device) {
    let (mut near, mut far, bundle) = make_pair();
    near.process_bundle(&bundle);
    carry_message(&mut near, &mut far, b"hello");
    carry_message(&mut far, &mut near, b"reply");
    carry_message(&mut near, &mut far, b"again");
    (near, far)
}

fn carry_message(from: &mut Device, to: &mut Device, body: &[u8]) {
    let message = from.seal(body);
    black_box(to.open(&message));
}

fn prepare_call(op: &str, size: usize, calls: usize) -> Result<Call, String> {
    let body = vec![7; size];
    match op {
        "seal" => {
            let (mut near, _far) = exchange_messages();
            Ok(Box::new(move |_| drop(black_box(near.seal(&body)))))
        }
        "open" => {
            let (mut near, mut far) = exchange_messages();
            let sealed: Vec<_> = (0..calls).map(|_| near.seal(&body)).collect();
            Ok(Box::new(move |n| drop(black_box(far.open(&sealed[n])))))
        }
        "turn" => {
            let (mut near, mut far) = exchange_messages();
            Ok(Box::new(move |n| match n % 2 {
                0 => carry_message(&mut far, &mut near, &body),
                _ => carry_message(&mut near, &mut far, &body),
            }))
        }
        "init" => {
            let mut pairs: Vec<_> = (0..calls).map(|_| make_pair()).collect();
            Ok(Box::new(move |n| {
                let (near, _, bundle) = &mut pairs[n];
                near.process_bundle(bundle);
                black_box(near.seal(&body));
            }))
        }
        "resp" => {
            let mut pairs: Vec<_> = (0..calls).map(|_| make_pair()).collect();
            let first = |(near, _, bundle): &mut (Device, Device, PreKeyBundle)| {
                near.process_bundle(bundle);
                near.seal(&body)
            };
            let firsts: Vec<_> = pairs.iter_mut().map(first).collect();
            Ok(Box::new(move |n| drop(black_box(pairs[n].1.open(&firsts[n])))))
        }
        _ => Err(format!("no operation {op}")),
    }
}
