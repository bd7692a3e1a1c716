//! Our side, in this process.

use mezza_core::{Machine, PortableBackend, PublicKey, SuiteId};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::{
    Conversation, IdentityKey, IdentityKeyPair, OneTimePrekey, Padding, Prekeys, SignalBundle,
    SignalKem, wire,
};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::device::{Device, FIRST, Message, PLAIN};
use mezza_testing::{hex, unhex, unhex_array};

use crate::fixture::draw;
use crate::people::START;

/// One-time keys handed in at a time.
const STOCK: usize = 2;
/// The type byte of a key of Kyber1024, in hex.
const KEM_TYPE: &str = "08";
/// The largest number of an install.
const REGISTRATION_MAX: u32 = 16_380;

/// A device of this crate, with one contact.
pub struct Ours {
    suite: SuiteId,
    rng: ChaCha20Rng,
    registration: u32,
    identity: IdentityKeyPair,
    prekeys: Prekeys,
    one_time: Vec<OneTimePrekey>,
    talk: Option<Conversation<PortableBackend>>,
}

impl Ours {
    /// A new device that speaks `suite` alone.
    pub fn new(suite: SuiteId) -> Self {
        Self::draw(suite, ChaCha20Rng::seed_from_u64(11))
    }

    fn draw(suite: SuiteId, mut rng: ChaCha20Rng) -> Self {
        let identity = IdentityKeyPair::new(draw(&mut rng).into_static());
        let prekeys = Prekeys::new(identity.duplicate()).offer_suites(&[suite]);
        let registration = 1 + rng.next_u32() % REGISTRATION_MAX;
        let one_time = Vec::new();
        let talk = None;
        let mut device = Self { suite, rng, registration, identity, prekeys, one_time, talk };
        device.prekeys.wake(START, &mut device.rng);
        device.settle();
        device
    }

    /// Hands the prekeys what they ask for.
    fn settle(&mut self) {
        while let Some(output) = self.prekeys.poll() {
            match output {
                Output::Need { spk, opk } => {
                    let mut fresh =
                        |count| (0..count).map(|_| draw(&mut self.rng).into_static()).collect();
                    let fresh = Input::Fresh { spk: fresh(spk), opk: fresh(opk.min(STOCK)) };
                    self.prekeys.handle(fresh, START, &mut self.rng).expect("asked for");
                }
                Output::Publish { one_time, .. } => self.one_time.extend(one_time),
                Output::Store(_) | Output::Low => {}
            }
        }
    }

    pub fn identity(&self) -> &IdentityKeyPair {
        &self.identity
    }

    fn talk(&mut self, remote: IdentityKey) -> &mut Conversation<PortableBackend> {
        let local = self.identity.public_key();
        self.talk.get_or_insert_with(|| Conversation::new(local, remote))
    }
}

impl Device for Ours {
    fn bundle(&mut self) -> Vec<String> {
        *self = Self::draw(self.suite, ChaCha20Rng::from_rng(&mut self.rng));
        let mut bundle = self.prekeys.signal_bundle(self.registration).expect("a signed prekey");
        bundle.one_time = self.one_time.pop();
        fields(&bundle, &self.identity.public_key())
    }

    fn process(&mut self, bundle: &[String]) -> Result<(), String> {
        let (bundle, remote) = parse(bundle);
        let checked =
            bundle.check(self.suite, &remote, self.registration).map_err(|e| format!("{e:?}"))?;
        let base = draw(&mut self.rng);
        let began = checked.initiate_session(&self.identity, base, bundle.one_time, &mut self.rng);
        let (session, _) = began.map_err(|e| format!("{e:?}"))?;
        let _ = self.talk(remote).add_session(session, START);
        Ok(())
    }

    fn enc(&mut self, body: &[u8]) -> Result<Message, String> {
        let talk = self.talk.as_mut().ok_or("no session")?;
        let kind = if talk.is_pending() { FIRST } else { PLAIN };
        let fresh = talk.needs_ephemeral().then(|| draw(&mut self.rng));
        let sealed = talk.seal(body, &[], Padding::Blocks, fresh, START);
        let (bytes, _) = sealed.map_err(|e| format!("{e:?}"))?;
        Ok(Message { kind, bytes })
    }

    fn dec(&mut self, message: &Message) -> Result<Vec<u8>, String> {
        if self.talk.is_none() {
            let remote = wire::first_identity(&message.bytes).ok_or("no session")?;
            self.talk(remote);
        }
        let talk = self.talk.as_mut().ok_or("no session")?;
        let before = (talk.encode(), self.prekeys.encode());
        let opened = talk.open(&message.bytes, &[], &self.identity, &mut self.prekeys, START);
        if opened.is_err() {
            assert!(before == (talk.encode(), self.prekeys.encode()), "an error changed it");
        }
        opened.map(|opened| opened.body.to_vec()).map_err(|e| format!("{e:?}"))
    }
}

/// `REG OPKID OPK SPKID SPK SIG IK [KEMID KEMPK KEMSIG]`.
fn fields(bundle: &SignalBundle, identity: &IdentityKey) -> Vec<String> {
    let one_time = bundle.one_time.expect("in stock");
    let mut fields = vec![
        bundle.registration.to_string(),
        one_time.id.to_string(),
        ser(&one_time.key.0),
        bundle.spk_id.to_string(),
        ser(&bundle.spk.0),
        hex(&bundle.signature),
        ser(identity.as_bytes()),
    ];
    if let Some(kem) = &bundle.kem {
        let key = format!("{KEM_TYPE}{}", hex(&kem.key));
        fields.extend([kem.id.to_string(), key, hex(&kem.signature)]);
    }
    fields
}

/// The bundle in the fields of a line, and whose it is.
pub fn parse(fields: &[String]) -> (SignalBundle, IdentityKey) {
    let number = |at: usize| fields[at].parse().expect("a number");
    let one_time = (fields[2] != "-")
        .then(|| OneTimePrekey { id: number(1), key: PublicKey(key(&fields[2])) });
    let bundle = SignalBundle {
        registration: number(0),
        spk_id: number(3),
        spk: PublicKey(key(&fields[4])),
        signature: unhex_array(&fields[5]),
        one_time,
        kem: fields.get(7).map(|_| SignalKem {
            id: number(7),
            key: unhex(fields[8].strip_prefix(KEM_TYPE).expect("the type of the key")),
            signature: unhex_array(&fields[9]),
        }),
    };
    (bundle, IdentityKey::decode(&key(&fields[6])).expect("a key"))
}

/// A public key as it stands on a line.
pub fn ser(key: &[u8; 32]) -> String {
    format!("05{}", hex(key))
}

/// The key of a field of 33 bytes.
pub fn key(field: &str) -> [u8; 32] {
    unhex_array(field.strip_prefix("05").expect("the type of the key"))
}
