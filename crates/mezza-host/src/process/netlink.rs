//! Answers of the kernel over netlink (RFC 3549): attributes of a message.

/// Returns the content of the first attribute of a kind, or `None` if there is none or a length is wrong.
/// An attribute is `length u16 | kind u16 | content`, in the byte order of the machine, and its length counts
/// the four bytes of its head.
#[must_use]
pub fn find_attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let head = bytes.first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The two highest bits of a kind are flags.
        let found = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let content = bytes.get(4..len)?;
        if found == kind {
            return Some(content);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_found_and_a_wrong_length_is_not_followed() {
        let mut bytes = Vec::new();
        for (kind, content) in [(1_u16, &[7_u8, 8, 9][..]), (4, &[1, 2, 3, 4])] {
            bytes.extend_from_slice(&(4 + content.len() as u16).to_ne_bytes());
            bytes.extend_from_slice(&kind.to_ne_bytes());
            bytes.extend_from_slice(content);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        assert_eq!(find_attribute(&bytes, 1), Some(&[7, 8, 9][..]));
        assert_eq!(find_attribute(&bytes, 4), Some(&[1, 2, 3, 4][..]));
        assert_eq!(find_attribute(&bytes, 2), None);
        // A length of zero would be read for ever, and one that is too long goes beyond the end.
        for length in [0_u16, 3, 200] {
            bytes[..2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(find_attribute(&bytes, 4), None);
        }
    }
}
