//! The link to a network: `mezza-net:1:HASH@host:port`, HASH the 64 hex digits of the first
//! config's hash.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;

use crate::api::{Fault, words};

/// A network, and the address of its entry when the link was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkUri {
    /// The hash of the first config, which pins the network.
    pub genesis: [u8; 32],
    /// `host:port` of the entry.
    pub address: String,
}

impl FromStr for NetworkUri {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let parts = text.strip_prefix("mezza-net:1:").and_then(|rest| rest.split_once('@'));
        let sound = parts.and_then(|(hash, address)| {
            let genesis = HEXLOWER.decode(hash.as_bytes()).ok()?.try_into().ok()?;
            let (host, port) = address.rsplit_once(':')?;
            port.parse::<u16>().ok().filter(|_| !host.is_empty())?;
            Some(Self { genesis, address: address.into() })
        });
        sound.ok_or_else(words::mixnet::no_link)
    }
}

impl fmt::Display for NetworkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mezza-net:1:{}@{}", HEXLOWER.encode(&self.genesis), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Exit;

    #[test]
    fn a_link_is_read_as_it_is_written() {
        let uri = NetworkUri { genesis: [0xab; 32], address: "[::1]:7000".into() };
        assert_eq!(uri.to_string().parse(), Ok(uri.clone()));
        let text = uri.to_string();
        assert_eq!(format!("\u{feff}{text} \r\n").parse(), Ok(uri.clone()));
        for wrong in
            [&text[1..], &text.replace("ab", "AB"), &text.replace(":1:", ":2:"), "", &text[..80]]
        {
            assert_eq!(wrong.parse::<NetworkUri>().unwrap_err().code, Exit::Malformed, "{wrong}");
        }
    }
}
