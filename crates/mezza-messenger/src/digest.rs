//! The one hash of this crate: a label, then the parts, into as many bytes as the caller needs.

use mezza_core::blake2b;

/// Unkeyed BLAKE2b (RFC 7693) of `N` bytes, 1 to 64, over `u8 len(label) | label | parts`.
///
/// The parts follow one another without lengths: where two of them vary in length, the caller
/// puts the length in. Labels are constants of at most 255 bytes.
pub fn h<const N: usize>(label: &str, parts: &[&[u8]]) -> [u8; N] {
    debug_assert!(label.len() <= 0xff);
    let mut input: alloc::vec::Vec<&[u8]> = alloc::vec::Vec::with_capacity(parts.len() + 2);
    let label_bytes = [label.len() as u8];
    input.push(&label_bytes);
    input.push(label.as_bytes());
    input.extend_from_slice(parts);
    let mut out = [0; N];
    blake2b(&mut out, &[], "", &input);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's hashlib: `blake2b(b"\x0amezza/slot" + bytes(32), digest_size=16)`.
    #[test]
    fn a_slot_address_equals_that_of_hashlib() {
        let expected = [
            0x34, 0x2d, 0x8e, 0x16, 0x1e, 0x1c, 0x41, 0xd1, 0x1a, 0x02, 0x25, 0xd0, 0xfc, 0x7f,
            0x9d, 0xf4,
        ];
        assert_eq!(h::<16>("mezza/slot", &[&[0; 32]]), expected);
        assert_eq!(h::<16>("mezza/slot", &[&[0; 5], &[0; 27]]), expected);
    }

    #[test]
    fn the_length_of_the_label_keeps_label_and_parts_apart() {
        assert_ne!(h::<32>("mezza/a", &[b"bc"]), h::<32>("mezza/ab", &[b"c"]));
    }
}
