//! `mezza ratchet peer`: our ratchet with a line protocol, for tests of other implementations.
//!
//! Each input line has one output line. Fields are separated by one space, bytes are lower-case
//! hex, keys are `05 | key`, 33 bytes. A refused line gets `err CODE TEXT`; only the end of the
//! input ends the peer.
//!
//! ```text
//! bundle  /  offer  /  rotate                   ok REG OPKID OPK SPKID SPK SIG IK [KEMID KEMPK KEMSIG]
//!                                               ok BUNDLE OPK IK     in our own suites
//! process ..the same fields; OPK may be `-`     ok
//! enc HEX                                       ok TYPE HEX     3 a first message, 2 any other
//! dec TYPE HEX                                  ok HEX
//! now MS                                        ok
//! hash                                          ok HEX
//! number ID_LOCAL ID_REMOTE IK_REMOTE           ok DIGITS SCANNABLE
//! sign HEX  /  verify IK HEX SIG                ok SIG  /  ok 1|0
//! ```

use std::io::{self, BufRead, Read as _, Write};

use data_encoding::HEXLOWER;
use mezza_core::{PublicKey, SuiteId, Time};
use mezza_ratchet::safety::NamedIdentity;
use mezza_ratchet::{IdentityKey, OneTimePrekey, SignalBundle, SignalKem};

use super::device::{Given, PeerDevice};
use super::refusal::Refusal;
use super::{is_container, number};
use mezza_host::api::{Exit, Fault};

/// Longest line in bytes.
const LINE_BYTES_MAX: usize = 8 << 20;
/// The type byte before a key.
const KEY_TYPE: u8 = 5;
/// The type byte before a key of Kyber1024.
const KEM_TYPE: u8 = 8;
/// The kind of a first message, and of every other message.
const KINDS: [&str; 2] = ["3", "2"];

/// The field for an absent one-time key.
const NO_KEY: &str = "-";

/// Responds to each line until the input ends.
pub(super) fn serve_lines(
    given: Given,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<Exit, Fault> {
    let suite = given.suite;
    let mut device = PeerDevice::new(given).map_err(|refusal| Fault::bug(refusal.text))?;
    loop {
        let line = read_line(&mut input).map_err(|error| {
            let text = format!("standard input cannot be read: {error}");
            Fault::new(Exit::Malformed, text, "the words are in docs/protocols/ratchet.md")
        })?;
        let Some(line) = line else { return Ok(Exit::Done) };
        let answer = match line.and_then(|line| answer_line(&mut device, suite, &line)) {
            Ok(fields) => [vec!["ok".to_owned()], fields].concat().join(" "),
            Err(Refusal { code, text }) => format!("err {code} {text}"),
        };
        // A closed output ends the peer without an error.
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            return Ok(Exit::Done);
        }
    }
}

/// Reads the next line without its end, or a refusal of it; `None` at the end of the input. The
/// rest of a too long line is skipped.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Result<String, Refusal>>> {
    let mut line = Vec::new();
    input.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
    let ended = line.pop_if(|byte| *byte == b'\n').is_some();
    if !ended && line.is_empty() {
        return Ok(None);
    }
    if line.len() > LINE_BYTES_MAX {
        input.skip_until(b'\n')?;
        let text = format!("a line is longer than {LINE_BYTES_MAX} bytes");
        return Ok(Some(Err(Refusal::new("long-line", text))));
    }
    Ok(Some(String::from_utf8(line).map_err(|_| Refusal::new("not-utf8", "a line is not UTF-8"))))
}

fn answer_line(
    device: &mut PeerDevice,
    suite: SuiteId,
    line: &str,
) -> Result<Vec<String>, Refusal> {
    let words: Vec<&str> = line.split(' ').collect();
    Ok(match words[..] {
        ["bundle"] => {
            device.start_anew()?;
            offer_bundle(device, suite)?
        }
        ["offer"] => offer_bundle(device, suite)?,
        ["rotate"] => {
            device.rotate_keys()?;
            offer_bundle(device, suite)?
        }
        ["process", ref fields @ ..] => {
            if is_container(suite) {
                process_bundle(device, fields)?;
            } else {
                process_signal(device, fields)?;
            }
            Vec::new()
        }
        ["enc", body] => {
            let (first, message) = device.seal(&unhex(body)?)?;
            vec![KINDS[usize::from(!first)].into(), hex(&message)]
        }
        ["dec", kind, message] if KINDS.contains(&kind) => {
            vec![hex(&device.open(&unhex(message)?)?)]
        }
        ["now", ms] => {
            device.set_clock(Time::from_ms(parse_number(ms)?))?;
            Vec::new()
        }
        ["hash"] => vec![hex(&device.hash_state())],
        ["number", local, remote, key] => answer_numbers(device, suite, [local, remote], key)?,
        ["sign", text] => vec![hex(&device.sign_text(&unhex(text)?))],
        ["verify", key, text, signature] => {
            let good = device.verifies(&key_of(key)?, &unhex(text)?, &parse_array(signature)?);
            vec![u8::from(good).to_string()]
        }
        _ => {
            let word = words.first().copied().unwrap_or_default();
            return Err(Refusal::line(format!("`{word}` is not known, or has other fields")));
        }
    })
}

fn answer_numbers(
    device: &PeerDevice,
    suite: SuiteId,
    ids: [&str; 2],
    key: &str,
) -> Result<Vec<String>, Refusal> {
    let local = unhex(ids[0])?;
    let remote = unhex(ids[1])?;
    let here = device.public();
    let there = key_of(key)?;
    let local = NamedIdentity { key: &here, id: &local };
    let remote = NamedIdentity { key: &there, id: &remote };
    let (digits, code) = number::compute_number(suite, local, remote).map_err(Refusal::field)?;
    Ok(vec![digits, hex(&code)])
}

/// Returns the current bundle and the next one-time key.
fn offer_bundle(device: &mut PeerDevice, suite: SuiteId) -> Result<Vec<String>, Refusal> {
    let one_time = device.one_time();
    if is_container(suite) {
        let one_time = one_time.map_or(NO_KEY.into(), |key| hex(&key.encode()));
        return Ok(vec![hex(device.bundle()), one_time, hex_key(device.public().as_bytes())]);
    }
    let bundle = device.signal_bundle()?;
    let mut fields = vec![
        bundle.registration.to_string(),
        one_time.map_or(0, |key| key.id).to_string(),
        one_time.map_or(NO_KEY.into(), |key| hex_key(&key.key.0)),
        bundle.spk_id.to_string(),
        hex_key(&bundle.spk.0),
        hex(&bundle.signature),
        hex_key(device.public().as_bytes()),
    ];
    if let Some(kem) = &bundle.kem {
        let key = hex(&[&[KEM_TYPE], kem.key.as_slice()].concat());
        fields.extend([kem.id.to_string(), key, hex(&kem.signature)]);
    }
    Ok(fields)
}

fn process_bundle(device: &mut PeerDevice, fields: &[&str]) -> Result<(), Refusal> {
    let [bundle, one_time, identity] = fields else {
        return Err(Refusal::line("three fields are needed"));
    };
    let one_time = match *one_time {
        NO_KEY => None,
        text => Some(OneTimePrekey::decode(&unhex(text)?)?),
    };
    device.process_bundle(&unhex(bundle)?, one_time, key_of(identity)?)
}

fn process_signal(device: &mut PeerDevice, fields: &[&str]) -> Result<(), Refusal> {
    let [registration, opk_id, opk, spk_id, spk, signature, identity, kem @ ..] = fields else {
        return Err(Refusal::line("seven fields are needed, or ten"));
    };
    let one_time = match *opk {
        NO_KEY => None,
        text => Some(OneTimePrekey { id: parse_number(opk_id)?, key: PublicKey(raw_key(text)?) }),
    };
    let bundle = SignalBundle {
        registration: parse_number(registration)?,
        spk_id: parse_number(spk_id)?,
        spk: PublicKey(raw_key(spk)?),
        signature: parse_array(signature)?,
        one_time,
        kem: signal_kem(kem)?,
    };
    device.process_signal(&bundle, key_of(identity)?)
}

fn signal_kem(fields: &[&str]) -> Result<Option<SignalKem>, Refusal> {
    match fields {
        [] => Ok(None),
        [id, key, signature] => match unhex(key)?.as_slice() {
            [KEM_TYPE, key @ ..] => {
                let id = parse_number(id)?;
                let signature = parse_array(signature)?;
                Ok(Some(SignalKem { id, key: key.to_vec(), signature }))
            }
            _ => Err(Refusal::field("a KEM key is of another type")),
        },
        _ => Err(Refusal::line("seven fields are needed, or ten")),
    }
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn unhex(text: &str) -> Result<Vec<u8>, Refusal> {
    let bytes = HEXLOWER.decode(text.as_bytes());
    bytes.map_err(|error| Refusal::field(format!("a field is no lower-case hex: {error}")))
}

/// Parses an unsigned number that fits its type.
fn parse_number<N: std::str::FromStr>(text: &str) -> Result<N, Refusal> {
    let bits = 8 * size_of::<N>();
    text.parse().map_err(|_| Refusal::field(format!("a field is no number of {bits} bits")))
}

fn parse_array<const N: usize>(text: &str) -> Result<[u8; N], Refusal> {
    let bytes = unhex(text)?.try_into();
    bytes.map_err(|_| Refusal::field(format!("a field does not have {N} bytes")))
}

fn hex_key(key: &[u8; 32]) -> String {
    hex(&[&[KEY_TYPE], key.as_slice()].concat())
}

fn raw_key(text: &str) -> Result<[u8; 32], Refusal> {
    match parse_array::<33>(text)? {
        [KEY_TYPE, key @ ..] => Ok(key),
        _ => Err(Refusal::field("a key is of another type")),
    }
}

fn key_of(text: &str) -> Result<IdentityKey, Refusal> {
    Ok(IdentityKey::decode(&raw_key(text)?)?)
}
