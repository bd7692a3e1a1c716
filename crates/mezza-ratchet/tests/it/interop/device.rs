//! Operations of the two ends of a conversation, for every implementation.

/// A first message, as envelopes are numbered in Signal's protocol.
pub const FIRST: u8 = 3;
/// Every other message.
pub const PLAIN: u8 = 2;

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// [`FIRST`] or [`PLAIN`].
    pub kind: u8,
    pub bytes: Vec<u8>,
}

/// One device with one contact. Errors are the texts of whoever refused.
pub trait Device {
    /// Becomes a new device; the fields of its bundle, with a one-time key.
    fn bundle(&mut self) -> Vec<String>;
    /// Begins a session from the fields of a bundle.
    fn process(&mut self, bundle: &[String]) -> Result<(), String>;
    /// Seals a body.
    fn enc(&mut self, body: &[u8]) -> Result<Message, String>;
    /// Opens a message.
    fn dec(&mut self, message: &Message) -> Result<Vec<u8>, String>;

    /// Seals a body that must go through.
    fn send(&mut self, body: &[u8]) -> Message {
        self.enc(body).expect("a sealed message")
    }
}

/// Which field of a bundle is the one-time key.
const ONE_TIME: usize = 2;

/// A bundle whose one-time keys are used up.
pub fn without_one_time(mut bundle: Vec<String>) -> Vec<String> {
    "-".clone_into(&mut bundle[ONE_TIME]);
    bundle
}
