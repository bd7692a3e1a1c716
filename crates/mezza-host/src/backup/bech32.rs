//! Keys as age writes them: bech32 (BIP 173) of 32 bytes, without a limit of its length.

use mezza_core::{PublicKey, Secret, StaticKey};

/// The prefix of a recipient.
const RECIPIENT: &str = "age";
/// The prefix of a private key, which is written in upper case.
const SECRET: &str = "age-secret-key-";
const LETTERS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// Letters of the checksum.
const CHECK_LETTERS: usize = 6;

/// Writes a public key as `age1..`.
pub fn recipient_text(key: &PublicKey) -> String {
    encode(RECIPIENT, &key.0)
}

/// Reads a public key; `None` if the text is none.
pub fn read_recipient(text: &str) -> Option<PublicKey> {
    // A code on paper or in a picture is in upper case.
    let lower = text.trim().to_ascii_lowercase();
    let is_one_case = lower == text.trim() || text.trim().to_ascii_uppercase() == text.trim();
    decode(RECIPIENT, &lower).filter(|_| is_one_case).map(PublicKey)
}

/// Reads a private key; `None` if the text is none.
pub(super) fn read_secret(text: &str) -> Option<Secret<32>> {
    let lower = zeroize::Zeroizing::new(text.to_ascii_lowercase());
    decode(SECRET, &lower).map(|scalar| Secret::copy_from(&zeroize::Zeroizing::new(scalar)))
}

/// Writes a private key as `AGE-SECRET-KEY-1..`.
pub(super) fn secret_text(key: &StaticKey) -> String {
    encode(SECRET, key.scalar().expose()).to_ascii_uppercase()
}

fn encode(prefix: &str, bytes: &[u8; 32]) -> String {
    let mut values = regroup(bytes, 8, 5);
    let check = checksum(prefix, &values);
    values.extend(check);
    let letters = values.iter().map(|value| char::from(LETTERS[usize::from(*value)]));
    format!("{prefix}1{}", letters.collect::<String>())
}

fn decode(prefix: &str, text: &str) -> Option<[u8; 32]> {
    let letters = text.strip_prefix(prefix)?.strip_prefix('1')?;
    let value = |letter: u8| LETTERS.iter().position(|known| *known == letter);
    let values = letters.bytes().map(|letter| Some(value(letter)? as u8));
    let values = values.collect::<Option<Vec<u8>>>()?;
    let (data, check) = values.split_at_checked(values.len().checked_sub(CHECK_LETTERS)?)?;
    if checksum(prefix, data) != check {
        return None;
    }
    let bytes = regroup(data, 5, 8);
    // The last letter has four bits that belong to no byte, and that must be zero.
    let (bytes, rest) = bytes.split_first_chunk::<32>()?;
    let is_whole = rest.iter().all(|byte| *byte == 0) && encode(prefix, bytes) == text;
    is_whole.then_some(*bytes)
}

/// Regroups bits into groups of another size. The last group is filled up with zeros.
fn regroup(values: &[u8], from: u32, to: u32) -> Vec<u8> {
    let mut groups = Vec::new();
    let mut held = 0_u32;
    let mut bits = 0;
    for value in values {
        held = held << from | u32::from(*value);
        bits += from;
        while bits >= to {
            bits -= to;
            groups.push((held >> bits & ((1 << to) - 1)) as u8);
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        groups.push((held << (to - bits)) as u8);
    }
    groups
}

/// The BCH code of BIP 173.
fn checksum(prefix: &str, values: &[u8]) -> [u8; CHECK_LETTERS] {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let high = prefix.bytes().map(|byte| byte >> 5);
    let low = prefix.bytes().map(|byte| byte & 31);
    let all = high.chain([0]).chain(low).chain(values.iter().copied()).chain([0; CHECK_LETTERS]);
    let mut sum = 1_u32;
    for value in all {
        let top = sum >> 25;
        sum = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
        for (i, generator) in GENERATOR.iter().enumerate() {
            if top >> i & 1 == 1 {
                sum ^= generator;
            }
        }
    }
    sum ^= 1;
    std::array::from_fn(|i| (sum >> (5 * (CHECK_LETTERS - 1 - i)) & 31) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipient_is_read_as_it_was_written() {
        let key = PublicKey(std::array::from_fn(|i| (i * 7) as u8));
        let text = recipient_text(&key);
        assert_eq!((text.len(), &text[..4]), (62, "age1"));
        for same in [text.clone(), text.to_ascii_uppercase(), format!(" {text}\n")] {
            assert_eq!(read_recipient(&same), Some(key));
        }
        let mut mixed = text.clone();
        mixed.replace_range(..1, "A");
        assert_eq!(read_recipient(&mixed), None);
        // The checksum detects every change of one letter.
        for at in 4..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'q' { b'p' } else { b'q' };
            assert_eq!(read_recipient(std::str::from_utf8(&wrong).unwrap()), None, "{at}");
        }
        assert_eq!(read_recipient(""), None);
        assert_eq!(read_recipient("age1"), None);
    }
}
