//! Handshakes over real wires: each end, the firewall and the observer are processes on loopback TCP.
//!
//! ```text
//! initiator ---> firewall ---> observer ---> responder
//!             inside        the wire
//! ```
//! The observer relays bytes and reads them. Each process is this program with the hidden command
//! `wire` and a [`WireJob`]. It prints its results on standard output, one JSON value per line.

pub mod child;
mod end;
mod hop;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use mezza_core::Deframer;
use mezza_guard::{Group, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::asa::Sequence;
use crate::asa::symbol::{AttackKey, Planted};
use crate::terminal::print_line;
use crate::variant::{GroupTask, Variant, with_group};

/// Maximum bytes of a message: two elements of 3072 bits and the kind.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Time limit for the next byte.
const PATIENCE: Duration = Duration::from_secs(30);

/// The work of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireJob {
    /// The role: `initiator`, `firewall`, `observer` or `responder`.
    pub role: String,
    /// The address to dial; `None` for a responder.
    pub dials: Option<SocketAddr>,
    /// The variant by name.
    pub variant: String,
    /// The group by name.
    pub group: String,
    /// The firewall by name.
    pub firewall: String,
    /// The number of handshakes.
    pub count: usize,
    /// The seed of this process' coins.
    pub seed: u64,
    /// The secret that a tampered initiator leaks and an observer reads.
    pub attack: Option<Attack>,
    /// True if the process prints every message.
    pub shows: bool,
}

/// An attack by rejection sampling.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attack {
    /// The name of the element.
    pub element: String,
    /// Bits of a block.
    pub lambda: u32,
    /// True if the device counts its messages.
    pub is_stateful: bool,
    /// The attacker's key.
    pub key: [u8; 16],
    /// The planted secret, which only the device has.
    pub secret: Option<[u8; 16]>,
}

impl Attack {
    /// Returns the attacker's key.
    pub fn key(&self) -> AttackKey {
        AttackKey::new(self.key)
    }

    /// Returns the secret in blocks.
    pub fn planted_secret(&self) -> Option<Planted> {
        self.secret.map(|secret| Planted::new(secret, self.lambda))
    }

    /// Returns the rule that determines which block a message carries.
    pub const fn sequence(&self) -> Sequence {
        if self.is_stateful { Sequence::Stateful } else { Sequence::Stateless }
    }
}

/// Runs the process of a job, given as JSON.
///
/// # Errors
/// An invalid job, or an error of its connections.
pub fn serve_job(job: &str) -> Result<()> {
    let job: WireJob = serde_json::from_str(job).context("not a job of this program")?;
    let group = job.group.clone();
    with_group(&group, job)
}

impl GroupTask for WireJob {
    type Given = ();

    fn run_with<G: Group + 'static>(self, group: G) -> Result<()> {
        let variant = Variant::find_named(&self.variant)?;
        match self.role.as_str() {
            "initiator" => end::run_initiator(&group, variant, &self),
            "responder" => end::run_responder(&group, variant, &self),
            "firewall" => hop::run_firewall(&group, variant, &self),
            "observer" => hop::run_observer(&group, variant, &self),
            role => bail!("there is no role {role}"),
        }
    }
}

/// A connection that carries messages, each with its length in 2 bytes before it.
struct Connection {
    stream: TcpStream,
    deframer: Deframer<2, 1, MESSAGE_BYTES_MAX>,
    /// Received bytes that are no whole message yet.
    waiting: Vec<u8>,
}

impl Connection {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, deframer: Deframer::default(), waiting: Vec::new() })
    }

    fn dial_next(job: &WireJob) -> Result<Self> {
        let address = job.dials.context("nobody to dial")?;
        Self::new(TcpStream::connect(address).context("the next process does not answer")?)
    }

    /// Listens on a free port of loopback, prints the port, and accepts one connection.
    fn accept_one() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        print_value(&json!({ "listens": listener.local_addr()?.port() }))?;
        Self::new(listener.accept()?.0)
    }

    fn send_bytes(&mut self, message: &[u8]) -> Result<()> {
        let length = u16::try_from(message.len()).context("a message is too long")?;
        let frame = [&length.to_be_bytes()[..], message].concat();
        Ok(self.stream.write_all(&frame)?)
    }

    fn receive_bytes(&mut self) -> Result<Vec<u8>> {
        loop {
            let mut input = self.waiting.as_slice();
            let message = self.deframer.next_frame(&mut input).context("not a message")?;
            self.waiting = input.to_vec();
            if let Some(message) = message {
                return Ok(message);
            }
            let mut bytes = [0; 2_048];
            let count = self.stream.read(&mut bytes).context("the other end is silent")?;
            if count == 0 {
                bail!("the other end has closed");
            }
            self.waiting.extend_from_slice(&bytes[..count]);
        }
    }

    fn send_message<G: Group>(&mut self, group: &G, message: &Message<G>) -> Result<()> {
        self.send_bytes(&message.encode(group))
    }

    fn receive_message<G: Group>(&mut self, group: &G) -> Result<Message<G>> {
        Ok(Message::decode(group, &self.receive_bytes()?)?)
    }
}

/// Prints a line for the parent process.
fn print_value(value: &Value) -> Result<()> {
    print_line(&value.to_string())
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}
