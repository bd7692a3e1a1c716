//! The header of age v1 (C2SP age), which determines who can open a file.
//!
//! ```text
//! age-encryption.org/v1
//! -> scrypt SALT LOG_N          or   -> X25519 SHARE
//! BODY                               the file key, sealed
//! --- MAC                            HMAC-SHA-256 of everything up to ---
//! ```
//!
//! SALT, SHARE, BODY and MAC are base64 without padding.

use std::io::BufRead;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::hmac;
use data_encoding::BASE64_NOPAD;
use mezza_core::{AeadKey, CryptoRng, EphemeralKey, PublicKey, Secret, StaticKey};

use super::wrong_key;
use crate::api::Fault;
use crate::backend::{AwsLc, AwsLcChacha};
use crate::store::typed::in_one_form;

/// The first line.
const VERSION_LINE: &str = "age-encryption.org/v1";
/// The beginning of a stanza.
const STANZA: &str = "-> ";
const MAC: &str = "---";
/// Kinds of stanzas that this program writes and opens.
const SCRYPT: &str = "scrypt";
const X25519: &str = "X25519";
/// log2 of the cost of one guess: scrypt with N = 2^18, r = 8 takes 256 MiB and about a second.
const LOG_N: u8 = 18;
/// Maximum cost that is accepted from a file: more would need over 1 GiB of memory.
const LOG_N_MAX: u8 = 20;
/// Bytes of a file key, of a salt of scrypt, of the sealed file key and of a MAC.
pub(super) const FILE_KEY_BYTES: usize = 16;
const SALT_BYTES: usize = 16;
const BODY_BYTES: usize = FILE_KEY_BYTES + 16;
const MAC_BYTES: usize = 32;
/// Maximum length of a header, bytes. Our files have no longer header and no more stanzas.
const HEADER_BYTES_MAX: usize = 8 << 10;
const STANZAS_MAX: usize = 32;
/// Maximum length of a line of a stanza's body: 64 characters.
const COLUMNS: usize = 64;

/// The party that can open a backup.
pub enum Recipient<'a> {
    /// Everybody who knows this passphrase.
    Passphrase(&'a [u8]),
    /// The owner of the private key for this public key.
    Key(&'a PublicKey),
}

/// The secret that opens a backup.
pub enum Identity<'a> {
    /// A passphrase, stretched with scrypt.
    Passphrase(&'a [u8]),
    /// A private X25519 key.
    Key(&'a StaticKey),
}

/// The key of one file, 16 bytes, with the header that gives it to its recipient.
pub struct BackupKey {
    pub(super) key: Secret<FILE_KEY_BYTES>,
    pub(super) header: Vec<u8>,
}

impl BackupKey {
    /// Draws the key of a new file. With a passphrase this takes about a second and 256 MiB.
    ///
    /// # Errors
    /// Exit code 75 if there is not enough memory.
    pub fn draw(recipient: &Recipient<'_>, rng: &mut dyn CryptoRng) -> Result<Self, Fault> {
        let key = Secret::random(rng);
        let stanza = match recipient {
            Recipient::Passphrase(pass) => seal_by_passphrase(&key, pass, rng)?,
            Recipient::Key(public) => seal_to_key(&key, public, rng)?,
        };
        let mut header = format!("{VERSION_LINE}\n{stanza}{MAC}").into_bytes();
        let mac = BASE64_NOPAD.encode(hmac::sign(&mac_key(&key), &header).as_ref());
        header.extend_from_slice(format!(" {mac}\n").as_bytes());
        Ok(Self { key, header })
    }

    /// Returns true if a header names a recipient's key and no passphrase.
    pub(super) fn is_to_key(input: &mut impl BufRead) -> bool {
        let header = read_header(input).unwrap_or_default();
        parse_header(&header)
            .is_some_and(|header| header.stanzas.iter().any(|stanza| stanza.kind == X25519))
    }

    /// Reads a header and opens the file key.
    ///
    /// # Errors
    /// Exit code 77 if the identity does not open the key or the header is damaged, which cannot be
    /// distinguished (BACKUP-9). Exit code 75 if there is not enough memory for the passphrase.
    pub(super) fn open(input: &mut impl BufRead, identity: &Identity<'_>) -> Result<Self, Fault> {
        let header = read_header(input).ok_or_else(wrong_key)?;
        let parsed = parse_header(&header).ok_or_else(wrong_key)?;
        let key = match identity {
            Identity::Passphrase(pass) => open_by_passphrase(&parsed.stanzas, pass)?,
            Identity::Key(own) => open_with_key(&parsed.stanzas, own),
        };
        let key = key.ok_or_else(wrong_key)?;
        // Constant time: the comparison is the library's.
        hmac::verify(&mac_key(&key), parsed.signed, &parsed.mac).map_err(|_| wrong_key())?;
        Ok(Self { key, header })
    }
}

/// One stanza: `-> kind arguments`, followed by its body.
struct Stanza {
    kind: String,
    arguments: Vec<String>,
    body: Vec<u8>,
}

struct ParsedHeader<'a> {
    stanzas: Vec<Stanza>,
    signed: &'a [u8],
    mac: [u8; MAC_BYTES],
}

/// Reads up to the end of the line with the MAC. Returns `None` if there is none within the limit.
fn read_header(input: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut header = Vec::new();
    loop {
        let start = header.len();
        let left = (HEADER_BYTES_MAX - start) as u64;
        let mut line = std::io::Read::take(&mut *input, left);
        // A file that is cut at the end of a line, or a header at its limit, gives nothing more.
        if line.read_until(b'\n', &mut header).ok()? == 0 || header.last() != Some(&b'\n') {
            return None;
        }
        if header[start..].starts_with(MAC.as_bytes()) {
            return Some(header);
        }
    }
}

fn parse_header(header: &[u8]) -> Option<ParsedHeader<'_>> {
    let text = std::str::from_utf8(header).ok()?;
    let mut lines = text.lines();
    if lines.next() != Some(VERSION_LINE) {
        return None;
    }
    let mut stanzas = Vec::new();
    let mut line = lines.next()?;
    while let Some(stanza) = line.strip_prefix(STANZA) {
        let mut words = stanza.split(' ').map(str::to_owned);
        let kind = words.next()?;
        let mut body = String::new();
        loop {
            let part = lines.next()?;
            body.push_str(part);
            // The last line of a body is shorter than the others.
            match part.len() {
                COLUMNS => {}
                len if len < COLUMNS => break,
                _ => return None,
            }
        }
        let body = BASE64_NOPAD.decode(body.as_bytes()).ok()?;
        stanzas.push(Stanza { kind, arguments: words.collect(), body });
        if stanzas.len() > STANZAS_MAX {
            return None;
        }
        line = lines.next()?;
    }
    let mac = line.strip_prefix(MAC)?.strip_prefix(' ')?;
    let mac = BASE64_NOPAD.decode(mac.as_bytes()).ok()?.try_into().ok()?;
    let signed = text.rfind(MAC)? + MAC.len();
    Some(ParsedHeader { stanzas, signed: &header[..signed], mac })
}

fn seal_by_passphrase(
    key: &Secret<FILE_KEY_BYTES>,
    pass: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<String, Fault> {
    let mut salt = [0; SALT_BYTES];
    rng.fill_bytes(&mut salt);
    let wrap = stretch(pass, &salt, LOG_N)?;
    let salt = BASE64_NOPAD.encode(&salt);
    Ok(format!("{STANZA}{SCRYPT} {salt} {LOG_N}\n{}\n", wrap_key(&wrap, key)))
}

fn open_by_passphrase(
    stanzas: &[Stanza],
    pass: &[u8],
) -> Result<Option<Secret<FILE_KEY_BYTES>>, Fault> {
    // A scrypt stanza must be the only one of its file, so that nobody without the passphrase can
    // make the file.
    let [Stanza { kind, arguments, body }] = stanzas else { return Ok(None) };
    let [salt, log_n] = arguments.as_slice() else { return Ok(None) };
    let salt = BASE64_NOPAD.decode(salt.as_bytes()).ok();
    let salt: Option<[u8; SALT_BYTES]> = salt.and_then(|salt| salt.try_into().ok());
    // The cost has only one form: no sign, no leading zero.
    let cost = log_n.parse::<u8>().ok().filter(|cost| cost.to_string() == *log_n);
    let cost = cost.filter(|cost| (1..=LOG_N_MAX).contains(cost));
    let (Some(salt), Some(cost), SCRYPT) = (salt, cost, kind.as_str()) else { return Ok(None) };
    let form = in_one_form(pass);
    let wrap = stretch(&form, &salt, cost)?;
    Ok(unwrap_key(&wrap, body))
}

/// Derives a key by scrypt (RFC 7914) with r = 8 and p = 1, over the salt of age.
fn stretch(pass: &[u8], salt: &[u8; SALT_BYTES], log_n: u8) -> Result<Secret<32>, Fault> {
    let form = in_one_form(pass);
    let salt = [b"age-encryption.org/v1/scrypt".as_slice(), salt].concat();
    let params = scrypt::Params::new(log_n, 8, 1).map_err(|_| Fault::bug("no such cost"))?;
    let mut done = Ok(());
    let key = Secret::init_with(|key| done = scrypt::scrypt(&form, &salt, &params, key));
    done.map(|()| key).map_err(|_| Fault::bug("scrypt refuses its input"))
}

fn seal_to_key(
    key: &Secret<FILE_KEY_BYTES>,
    public: &PublicKey,
    rng: &mut dyn CryptoRng,
) -> Result<String, Fault> {
    let fresh = EphemeralKey::random::<AwsLc>(rng);
    let share = *fresh.public_key();
    let shared = fresh.diffie_hellman::<AwsLc>(public).map_err(|_| wrong_key())?;
    let wrap = wrap_of_shared(&shared, &share, public);
    let share = BASE64_NOPAD.encode(&share.0);
    Ok(format!("{STANZA}{X25519} {share}\n{}\n", wrap_key(&wrap, key)))
}

fn open_with_key(stanzas: &[Stanza], own: &StaticKey) -> Option<Secret<FILE_KEY_BYTES>> {
    let mut ours = stanzas.iter().filter(|stanza| stanza.kind == X25519);
    ours.find_map(|stanza| {
        let [share] = stanza.arguments.as_slice() else { return None };
        let share = BASE64_NOPAD.decode(share.as_bytes()).ok()?;
        let share = PublicKey(share.try_into().ok()?);
        let shared = own.diffie_hellman::<AwsLc>(&share).ok()?;
        unwrap_key(&wrap_of_shared(&shared, &share, own.public_key()), &stanza.body)
    })
}

fn wrap_of_shared(shared: &Secret<32>, share: &PublicKey, public: &PublicKey) -> Secret<32> {
    let salt = [share.0, public.0].concat();
    derive(shared.expose(), &salt, b"age-encryption.org/v1/X25519")
}

fn wrap_key(wrap: &Secret<32>, key: &Secret<FILE_KEY_BYTES>) -> String {
    let mut body = zeroize::Zeroizing::new(key.expose().to_vec());
    // The wrapping key is used only once, so its nonce can be constant.
    let tag = AwsLcChacha::new(wrap.expose()).seal(&[0; 12], &[], &mut body);
    BASE64_NOPAD.encode(&[body.as_slice(), &tag].concat())
}

fn unwrap_key(wrap: &Secret<32>, body: &[u8]) -> Option<Secret<FILE_KEY_BYTES>> {
    let body: &[u8; BODY_BYTES] = body.try_into().ok()?;
    let (sealed, tag) = body.split_first_chunk::<FILE_KEY_BYTES>()?;
    let tag: &[u8; 16] = tag.try_into().ok()?;
    let mut opened = false;
    let key = Secret::init_with(|key| {
        key.copy_from_slice(sealed);
        opened = AwsLcChacha::new(wrap.expose()).open(&[0; 12], &[], key, tag);
    });
    opened.then_some(key)
}

fn mac_key(key: &Secret<FILE_KEY_BYTES>) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, derive(key.expose(), &[], b"header").expose())
}

/// The key of the payload.
pub(super) fn payload_key(key: &Secret<FILE_KEY_BYTES>, nonce: &[u8; 16]) -> Secret<32> {
    derive(key.expose(), nonce, b"payload")
}

/// Derives 32 bytes by HKDF-SHA-256 (RFC 5869).
#[expect(clippy::expect_used, reason = "32 bytes are within the limit of HKDF")]
fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Secret<32> {
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    Secret::init_with(|key| {
        extracted.expand(&[info], Bytes32).and_then(|okm| okm.fill(key)).expect("32 bytes");
    })
}

/// The length of a key for the library.
struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}
