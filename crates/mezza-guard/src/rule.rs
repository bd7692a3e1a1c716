//! Rules as data: the allowed content of each field of a handshake frame. Guard and audit use the
//! same table, so they cannot differ.

use alloc::vec::Vec;

use crate::coin::{CoinEncoding, CoinPurpose};
use crate::keys::sha256;

/// The owner's pins for a destination's link; IDs have 6 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pins {
    /// The ID of the client's end.
    pub own: [u8; 6],
    /// The ID of the other end.
    pub peer: [u8; 6],
    /// The number of the link.
    pub link: u16,
}

/// The pinned value that a field must equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPin {
    /// The client's ID.
    Own,
    /// The other end's ID.
    Peer,
    /// The link's number.
    Link,
}

impl Pins {
    fn pinned_value(&self, pin: FieldPin) -> Vec<u8> {
        match pin {
            FieldPin::Own => self.own.to_vec(),
            FieldPin::Peer => self.peer.to_vec(),
            FieldPin::Link => self.link.to_be_bytes().to_vec(),
        }
    }
}

/// The check of a field of an outgoing frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The field equals these bytes.
    Constant(&'static [u8]),
    /// The field is the key that client and guard generated together.
    Element(CoinEncoding, CoinPurpose),
    /// The field equals SHA-256(label | bytes of this frame from the first offset to the second),
    /// truncated to its length.
    Derived(&'static [u8], &'static [(u16, u16)]),
    /// The field equals the bytes at this offset of the handshake's first frame.
    Echo(u16),
    /// The field equals the last of the 4 bytes at this offset of the frame.
    LowByte(u16),
    /// The field equals a value that the owner pinned.
    Pinned(FieldPin),
    /// The field is a u32 that increases by 1 to 16; a gap counts as a refused handshake.
    Counter,
    /// The field is a MAC whose key the guard lacks; it is a closed channel only while the peer
    /// accepts.
    Mac,
    /// The client chooses the field freely, so it is an open channel.
    Body,
}

/// One field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset of its first byte.
    pub at: u16,
    /// Length of the field in bytes.
    pub len: u16,
    /// Check of the field.
    pub check: Check,
}

impl Field {
    /// Creates a field.
    pub const fn new(at: u16, len: u16, check: Check) -> Self {
        Self { at, len, check }
    }

    fn field_bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(usize::from(self.at)..usize::from(self.at + self.len)).unwrap_or_default()
    }
}

/// The rule of one kind of frame, which has a fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRule {
    /// Kind of the frame.
    pub kind: u8,
    /// Length of the frame in bytes.
    pub bytes: u16,
    /// The fields, which cover the frame without gaps.
    pub fields: &'static [Field],
}

/// The rules of a handshake of three frames: initiator, responder, initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleTable {
    rules: [FrameRule; 3],
}

/// Error: the fields do not cover the frame of this kind exactly (GUARD-30).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fields of frame {0:#04x} do not tile it; correct the table")]
pub struct TableError(pub u8);

impl RuleTable {
    /// Creates a table whose fields cover their frames exactly.
    ///
    /// # Errors
    /// [`TableError`] for a gap, an overlap, or fields that end before or after the frame.
    pub fn new(rules: [FrameRule; 3]) -> Result<Self, TableError> {
        for rule in &rules {
            let end = rule.fields.iter().try_fold(0, |at, field| {
                (field.at == at && field.len > 0).then(|| at.checked_add(field.len)).flatten()
            });
            // A byte without a rule would be free for the client (GUARD-30).
            if end != Some(rule.bytes) || rule.bytes < 2 {
                return Err(TableError(rule.kind));
            }
        }
        Ok(Self { rules })
    }

    /// Returns the rules in the order of the handshake.
    pub const fn rules(&self) -> &[FrameRule; 3] {
        &self.rules
    }

    /// Returns the rule of the frame at a step, 0 to 2.
    pub fn rule_at(&self, step: usize) -> Option<&FrameRule> {
        self.rules.get(step)
    }
}

/// The facts for checking an outgoing frame.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// The link that the owner pinned, or that of the first handshake; `None` before it.
    pub pins: Option<&'a Pins>,
    /// The key that an element field must contain; `None` if the slot has no point.
    pub public: Option<&'a [u8; 32]>,
    /// The first frame of the handshake.
    pub first: &'a [u8],
    /// The last counter.
    pub counter: Option<u32>,
}

/// The reason why a frame is not passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameRuleError {
    /// The frame has another kind or size than the rule of this step.
    #[error("the frame is not the one that comes next")]
    Form,
    /// The field at this offset violates its rule.
    #[error("the field at byte {0} holds what its rule does not allow")]
    Field(u16),
}

/// Facts about a frame that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The counter in the frame, if there is one.
    pub counter: Option<u32>,
    /// True if the counter skipped numbers, which is a channel of 4 bits.
    pub has_gap: bool,
    /// True if the frame has a MAC that the guard cannot verify.
    pub has_mac: bool,
}

/// Largest step of a counter.
const COUNTER_STEP_MAX: u32 = 16;

impl FrameRule {
    /// Returns true if a frame has the size and kind of the rule.
    pub fn fits_frame(&self, frame: &[u8]) -> bool {
        frame.len() == usize::from(self.bytes) && frame.get(1) == Some(&self.kind)
    }

    /// Returns true if an incoming frame repeats the fields of the first frame unchanged.
    pub fn echoes_first(&self, frame: &[u8], first: &[u8]) -> bool {
        self.fields.iter().all(|field| match field.check {
            Check::Echo(at) => {
                let (from, len) = (usize::from(at), usize::from(field.len));
                first.get(from..from + len) == Some(field.field_bytes(frame))
            }
            // The guard has no keys, so the client checks the other fields of an answer.
            _ => true,
        })
    }

    /// Returns the names and the number in a frame, if its rule has pinned fields.
    pub fn read_pins(&self, frame: &[u8]) -> Pins {
        let mut pins = Pins { own: [0; 6], peer: [0; 6], link: 0 };
        for field in self.fields {
            let seen = field.field_bytes(frame);
            match field.check {
                Check::Pinned(FieldPin::Own) => pins.own = seen.try_into().unwrap_or_default(),
                Check::Pinned(FieldPin::Peer) => pins.peer = seen.try_into().unwrap_or_default(),
                Check::Pinned(FieldPin::Link) => {
                    pins.link = seen.try_into().map_or(0, u16::from_be_bytes);
                }
                _ => {}
            }
        }
        pins
    }

    /// Checks an outgoing frame field by field.
    ///
    /// # Errors
    /// [`FrameRuleError`] with the first field that violates its rule.
    pub fn judge_frame(&self, frame: &[u8], judge: &Judge<'_>) -> Result<Judged, FrameRuleError> {
        // Size and kind are checked first, so that every field is inside the frame.
        if !self.fits_frame(frame) {
            return Err(FrameRuleError::Form);
        }
        let mut judged = Judged::default();
        for field in self.fields {
            let seen = field.field_bytes(frame);
            let holds = match field.check {
                Check::Constant(bytes) => seen == bytes,
                // Without a stored point no key may be sent (GUARD-22).
                Check::Element(..) => judge.public.is_some_and(|public| seen == public),
                Check::Derived(label, over) => {
                    let part = |(from, to): &(u16, u16)| {
                        frame.get(usize::from(*from)..usize::from(*to)).unwrap_or_default()
                    };
                    let parts: Vec<&[u8]> =
                        core::iter::once(label).chain(over.iter().map(part)).collect();
                    // The client has no choice here, because other bytes of the frame determine
                    // these.
                    sha256(&parts).starts_with(seen)
                }
                Check::Echo(at) => {
                    let from = usize::from(at);
                    judge.first.get(from..from + seen.len()) == Some(seen)
                }
                Check::LowByte(at) => frame.get(usize::from(at) + 3) == seen.first(),
                // The first handshake is free and then learned (GUARD-44). The audit shows its
                // bits.
                Check::Pinned(pin) => judge.pins.is_none_or(|pins| pins.pinned_value(pin) == seen),
                Check::Counter => {
                    let value = seen.try_into().map(u32::from_be_bytes).ok();
                    let step = value.map(|value| match judge.counter {
                        Some(last) => value.saturating_sub(last),
                        // The first counter is free, which the audit charges with 32 bits.
                        None => 1,
                    });
                    judged.counter = value;
                    judged.has_gap = step.is_some_and(|step| step > 1);
                    step.is_some_and(|step| (1..=COUNTER_STEP_MAX).contains(&step))
                }
                Check::Mac => {
                    // The guard has no key for the MAC, so the channel is closed only while the
                    // peer accepts (GUARD-35).
                    judged.has_mac = true;
                    true
                }
                Check::Body => true,
            };
            if !holds {
                return Err(FrameRuleError::Field(field.at));
            }
        }
        Ok(judged)
    }
}
