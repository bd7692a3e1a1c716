//! The rules of a guard for the three handshake frames of SEKA, in the words of the crate that has
//! them: `mezza-seka` publishes offsets and classes, and a test compares both.

use mezza_core::PortableBackend;
use mezza_guard::coin::{CoinEncoding, CoinPurpose};
use mezza_guard::rule::{Check, Field, FieldPin, FrameRule, RuleTable};
use mezza_host::api::Fault;
use mezza_seka::suite::LinkSuite as _;
use mezza_seka::suite::default::DefaultSuite;
use mezza_seka::wire::{Ke1, Ke2, Ke3, VERSION};

/// The allowed lengths of a record's body, bytes: those of SEKA's streams.
pub const RECORD_LENGTHS: &[u16] = &[256, 512, 1_024, 2_048, 4_096, 16_384];
/// The encoding of keys in handshakes of SEKA.
pub const ENCODING: CoinEncoding = CoinEncoding::X25519;

/// The number of the one suite with streams.
const SUITE: u8 = DefaultSuite::<PortableBackend>::NUMBER;
const KE1: &[u8] = &[VERSION, Ke1::KIND];
const KE2: &[u8] = &[VERSION, Ke2::KIND];
const KE3: &[u8] = &[VERSION, Ke3::KIND];

/// The header: version and kind, suite, flags and the zero byte of the index, link, low byte of the
/// attempt.
const fn header(kind: &'static [u8]) -> [Field; 4] {
    [
        Field::new(0, 2, Check::Constant(kind)),
        Field::new(2, 3, Check::Constant(&[SUITE, 0, 0])),
        Field::new(5, 2, Check::Pinned(FieldPin::Link)),
        Field::new(7, 1, Check::LowByte(36)),
    ]
}

const H1: [Field; 4] = header(KE1);
const H2: [Field; 4] = header(KE2);
const H3: [Field; 4] = header(KE3);

const KE1_FIELDS: &[Field] = &[
    H1[0],
    H1[1],
    H1[2],
    H1[3],
    Field::new(8, 6, Check::Pinned(FieldPin::Own)),
    Field::new(14, 6, Check::Pinned(FieldPin::Peer)),
    Field::new(20, 16, Check::Derived(b"seka1 s", &[(8, 14), (40, 72)])),
    Field::new(36, 4, Check::Counter),
    Field::new(40, 32, Check::Element(ENCODING, CoinPurpose::LinkDialling)),
    Field::new(72, 16, Check::Mac),
];
const KE2_FIELDS: &[Field] = &[
    H2[0],
    H2[1],
    H2[2],
    H2[3],
    Field::new(8, 6, Check::Echo(14)),
    Field::new(14, 6, Check::Echo(8)),
    Field::new(20, 16, Check::Echo(20)),
    Field::new(36, 4, Check::Echo(36)),
    Field::new(40, 32, Check::Element(ENCODING, CoinPurpose::LinkAnswering)),
    Field::new(72, 16, Check::Mac),
];
const KE3_FIELDS: &[Field] = &[
    H3[0],
    H3[1],
    H3[2],
    H3[3],
    Field::new(8, 6, Check::Pinned(FieldPin::Own)),
    Field::new(14, 6, Check::Pinned(FieldPin::Peer)),
    Field::new(20, 16, Check::Echo(20)),
    Field::new(36, 4, Check::Echo(36)),
    Field::new(40, 16, Check::Mac),
];

/// Returns the rules of the handshake.
///
/// # Errors
/// A table whose fields do not tile their frames, which only a bug can cause (GUARD-30).
pub fn link_rules() -> Result<RuleTable, Fault> {
    let rules = [
        FrameRule { kind: Ke1::KIND, bytes: Ke1::BYTES as u16, fields: KE1_FIELDS },
        FrameRule { kind: Ke2::KIND, bytes: Ke2::BYTES as u16, fields: KE2_FIELDS },
        FrameRule { kind: Ke3::KIND, bytes: Ke3::BYTES as u16, fields: KE3_FIELDS },
    ];
    RuleTable::new(rules).map_err(|error| Fault::bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_seka::wire::{FieldClass, HandshakeFrame, WireField};

    /// Returns true if a check closes a field of this class.
    fn fits(class: FieldClass, check: Check) -> bool {
        match class {
            FieldClass::Pinned => {
                matches!(check, Check::Pinned(_) | Check::Constant(_) | Check::Echo(_))
            }
            FieldClass::Counter => {
                matches!(check, Check::Counter | Check::LowByte(_) | Check::Echo(_))
            }
            FieldClass::Derived => matches!(check, Check::Derived(..) | Check::Echo(_)),
            FieldClass::Echo => matches!(check, Check::Echo(_)),
            FieldClass::Element => matches!(check, Check::Element(..)),
            FieldClass::Mac => check == Check::Mac,
            FieldClass::Coins => false,
        }
    }

    fn covers<F: HandshakeFrame>(fields: &[Field]) {
        for WireField { name, offset, bytes, class } in F::FIELDS {
            for at in *offset..offset + bytes {
                let is_at = |field: &&Field| {
                    let from = usize::from(field.at);
                    (from..from + usize::from(field.len)).contains(&at)
                };
                let field = fields.iter().find(is_at).expect("a rule for each byte");
                assert!(fits(*class, field.check), "{name} at {at}: {:?}", field.check);
            }
        }
    }

    #[test]
    fn guard_40_the_rules_are_those_of_the_frames_that_seka_sends() {
        let table = link_rules().expect("fields that tile");
        assert_eq!(table.rules().map(|rule| rule.bytes), [88, 88, 56]);
        covers::<Ke1>(KE1_FIELDS);
        covers::<Ke2>(KE2_FIELDS);
        covers::<Ke3>(KE3_FIELDS);
        let lengths = mezza_seka::stream::BODY_BYTES.map(|bytes| bytes as u16);
        assert_eq!(RECORD_LENGTHS, lengths);
    }
}
