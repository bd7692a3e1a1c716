//! Every message between two devices. Nothing else knows bytes.

use mezza_core::SuiteId;

/// How a body is filled up before it is sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// To the next multiple of 160 bytes.
    #[default]
    Blocks,
    /// So that the whole message has exactly this many bytes.
    To(usize),
}

/// The identity key in a first message, 32 bytes, unauthenticated: to find the contact. `None` if
/// this is no first message.
pub fn first_identity(message: &[u8]) -> Option<[u8; 32]> {
    let _ = message;
    todo!()
}

/// The suite that a message claims, `None` if the bytes are no message.
pub fn suite(message: &[u8]) -> Option<SuiteId> {
    let _ = message;
    todo!()
}

/// The length of the body inside a padded text; `None` if the padding is not `80 00..`.
pub(crate) fn unpadded(text: &[u8]) -> Option<usize> {
    let end = text.iter().rposition(|byte| *byte != 0)?;
    (text[end] == 0x80).then_some(end)
}
