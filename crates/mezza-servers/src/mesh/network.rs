//! The network that this home belongs to: its name, and its key if it is closed.
//!
//! A file of the home holds one line: the name of an open network, or the invitation of a closed
//! one, `mezzavoce:n1/` and base32 of `key[32] | len u8 | name`.

use std::path::PathBuf;

use data_encoding::BASE32_NOPAD;
use mezza_core::{Reader, Secret};
use mezza_mesh::MeshNetwork;
use mezza_mesh::network::NAME_BYTES_MAX;
use zeroize::Zeroizing;

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::{Home, private};

/// The prefix of an invitation to a closed network.
const PREFIX: &str = "mezzavoce:n1/";
/// The name of the network that a home without a choice belongs to.
const OPEN: &str = "open";
/// Bytes of the file, at most.
const FILE_BYTES_MAX: usize = 256;

/// The chosen network as it is stored.
pub struct NetworkChoice {
    name: String,
    key: Option<Secret<32>>,
}

impl NetworkChoice {
    /// Makes an open network.
    ///
    /// # Errors
    /// Exit code 2 if the name is empty or longer than 32 bytes.
    pub fn make_open(name: &str) -> Result<Self, Fault> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), key: None })
    }

    /// Makes a closed network with this key.
    ///
    /// # Errors
    /// As [`make_open`](Self::make_open).
    pub fn make_closed(name: &str, key: Secret<32>) -> Result<Self, Fault> {
        Ok(Self { key: Some(key), ..Self::make_open(name)? })
    }

    /// Decodes an invitation.
    ///
    /// # Errors
    /// Exit code 65 if `text` is no invitation.
    pub fn of_invitation(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            let text = "this is no invitation to a mesh network";
            Fault::new(Exit::Malformed, text, "it begins with mezzavoce:n1/ and is pasted whole")
        };
        let code = text.trim().strip_prefix(PREFIX).ok_or_else(wrong)?;
        let code = Zeroizing::new(code.to_uppercase());
        let bytes = Zeroizing::new(BASE32_NOPAD.decode(code.as_bytes()).map_err(|_| wrong())?);
        let mut reader = Reader::new(&bytes);
        let key = Secret::read_from(&mut reader).map_err(|_| wrong())?;
        let name = reader.read_var8().map_err(|_| wrong())?;
        reader.expect_end().map_err(|_| wrong())?;
        Self::make_closed(std::str::from_utf8(name).map_err(|_| wrong())?, key)
    }

    /// Returns the secret or name that others need to join: the invitation of a closed network, the name of an open one.
    pub fn encode_invitation(&self) -> Zeroizing<String> {
        let Some(key) = &self.key else { return Zeroizing::new(self.name.clone()) };
        let bytes = [key.expose().as_slice(), &[self.name.len() as u8], self.name.as_bytes()];
        let bytes = Zeroizing::new(bytes.concat());
        Zeroizing::new(format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_lowercase()))
    }

    /// Reads the network of this home.
    ///
    /// # Errors
    /// Exit codes 65 or 77 if its file is damaged, or accessible to other users.
    pub fn of_home(home: &Home) -> Result<Self, Fault> {
        let path = choice_path(home);
        if path.symlink_metadata().is_err() {
            return Self::make_open(OPEN);
        }
        let bytes = Zeroizing::new(private::read(&path, FILE_BYTES_MAX)?);
        let text = std::str::from_utf8(&bytes).unwrap_or_default().trim();
        if text.starts_with(PREFIX) { Self::of_invitation(text) } else { Self::make_open(text) }
    }

    /// Stores the choice; a node started later uses it.
    ///
    /// # Errors
    /// Exit codes 73 or 77 if the file cannot be written, or has wrong permissions.
    pub fn save_to(&self, home: &Home) -> Result<(), Fault> {
        private::make_folder(home.root())?;
        private::replace(&choice_path(home), self.encode_invitation().as_bytes())
    }

    /// Returns the name of the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the network is closed.
    pub fn is_closed(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the network in the form that the node's state machine uses.
    pub fn into_network(self) -> MeshNetwork {
        MeshNetwork::new(&self.name, self.key)
    }
}

fn choice_path(home: &Home) -> PathBuf {
    home.mesh()
}

fn check_name(name: &str) -> Result<(), Fault> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let text = format!("the name of a network has 1 to {NAME_BYTES_MAX} bytes");
        return Err(Fault::new(Exit::Usage, text, "choose another"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_comes_back_and_damage_is_refused() {
        let made = NetworkChoice::make_closed("friends", Secret::copy_from(&[7; 32])).unwrap();
        let text = made.encode_invitation();
        let read = NetworkChoice::of_invitation(&text).unwrap();
        assert!(read.is_closed() && read.name() == "friends" && read.key == made.key);
        for bad in
            ["", "mezzavoce:n1/", "mezzavoce:n1/aaaa", &text[..text.len() - 2], "mezzavoce:c1/aa"]
        {
            let fault = NetworkChoice::of_invitation(bad).err().unwrap();
            assert_eq!(fault.code, Exit::Malformed, "{bad}");
        }
        assert!(
            NetworkChoice::make_open("").is_err()
                && NetworkChoice::make_open(&"n".repeat(33)).is_err()
        );
    }

    #[test]
    fn a_home_remembers_its_network() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(&folder.path().join("home"))).unwrap();
        assert_eq!(NetworkChoice::of_home(&home).unwrap().name(), "open");
        NetworkChoice::make_closed("friends", Secret::copy_from(&[9; 32]))
            .unwrap()
            .save_to(&home)
            .unwrap();
        assert!(NetworkChoice::of_home(&home).unwrap().is_closed());
        NetworkChoice::make_open("town").unwrap().save_to(&home).unwrap();
        let town = NetworkChoice::of_home(&home).unwrap();
        assert!(!town.is_closed() && town.name() == "town");
    }
}
