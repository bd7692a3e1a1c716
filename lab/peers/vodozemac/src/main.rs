//! vodozemac behind the line protocol of the lab: sessions of Olm, version 1, as Matrix has them.

use std::hint::black_box;
use std::io;

use mezza_lab_measuring::rate::{self, Call};
use vodozemac::Curve25519PublicKey;
use vodozemac::olm::{Account, OlmMessage, PreKeyMessage, Session, SessionConfig};

/// Operations that it measures.
const OPS: &[&str] = &["seal", "open", "turn", "init", "resp"];

fn main() -> io::Result<()> {
    rate::serve("vodozemac 0.11.1", OPS, &prepare_call)
}

/// Two devices; the second one has one-time keys out.
struct Devices {
    near: Account,
    far: Account,
    one_time: Curve25519PublicKey,
}

impl Devices {
    fn new() -> Self {
        let near = Account::new();
        let mut far = Account::new();
        far.generate_one_time_keys(1);
        let one_time = *far.one_time_keys().values().next().expect("one was made");
        Self { near, far, one_time }
    }

    fn initiate_session(&self, body: &[u8]) -> (Session, PreKeyMessage) {
        let config = SessionConfig::version_1();
        let session =
            self.near.create_outbound_session(config, self.far.curve25519_key(), self.one_time);
        let mut session = session.expect("a session");
        match session.encrypt(body).expect("a message") {
            OlmMessage::PreKey(message) => (session, message),
            OlmMessage::Normal(_) => unreachable!("nothing was answered yet"),
        }
    }

    fn accept_session(&mut self, first: &PreKeyMessage) -> Session {
        let config = SessionConfig::version_1();
        let made = self.far.create_inbound_session(config, self.near.curve25519_key(), first);
        made.expect("a session").session
    }
}

/// Both sides after a message each way and one more from the first.
fn exchange_messages() -> (Session, Session) {
    let mut devices = Devices::new();
    let (mut near, first) = devices.initiate_session(b"hello");
    let mut far = devices.accept_session(&first);
    carry_message(&mut far, &mut near, b"reply");
    carry_message(&mut near, &mut far, b"again");
    (near, far)
}

fn carry_message(from: &mut Session, to: &mut Session, body: &[u8]) {
    let message = from.encrypt(body).expect("a message");
    black_box(to.decrypt(&message).expect("a body"));
}

fn prepare_call(op: &str, size: usize, calls: usize) -> Result<Call, String> {
    let body = vec![7; size];
    match op {
        "seal" => {
            let (mut near, _far) = exchange_messages();
            Ok(Box::new(move |_| drop(black_box(near.encrypt(&body)))))
        }
        "open" => {
            let (mut near, mut far) = exchange_messages();
            let sealed: Vec<_> =
                (0..calls).map(|_| near.encrypt(&body).expect("a message")).collect();
            Ok(Box::new(move |n| drop(black_box(far.decrypt(&sealed[n]).expect("a body")))))
        }
        "turn" => {
            let (mut near, mut far) = exchange_messages();
            Ok(Box::new(move |n| match n % 2 {
                0 => carry_message(&mut far, &mut near, &body),
                _ => carry_message(&mut near, &mut far, &body),
            }))
        }
        "init" => {
            let devices: Vec<_> = (0..calls).map(|_| Devices::new()).collect();
            Ok(Box::new(move |n| drop(black_box(devices[n].initiate_session(&body)))))
        }
        "resp" => {
            let mut devices: Vec<_> = (0..calls).map(|_| Devices::new()).collect();
            let firsts: Vec<_> =
                devices.iter().map(|pair| pair.initiate_session(&body).1).collect();
            Ok(Box::new(move |n| drop(black_box(devices[n].accept_session(&firsts[n])))))
        }
        _ => Err(format!("no operation {op}")),
    }
}
