//! `mezza ratchet peer`: our ratchet behind a line protocol, for other people's tests.
//!
//! One line there, one line back; fields are separated by one blank, bytes are lower-case hex,
//! keys are `05 | key`, 33 bytes. What fails is answered by `err TEXT`.
//!
//! ```text
//! bundle                                        ok REG OPKID OPK SPKID SPK SIG IK [KEMID KEMPK KEMSIG]
//!                                               ok BUNDLE OPK IK     in our own suites
//! process ..the same fields; OPK may be `-`     ok
//! enc HEX                                       ok TYPE HEX     3 a first message, 2 any other
//! dec TYPE HEX                                  ok HEX
//! number ID_LOCAL ID_REMOTE IK_REMOTE           ok DIGITS SCANNABLE
//! sign HEX  /  verify IK HEX SIG                ok SIG  /  ok 1|0
//! ```

use std::io::{BufRead, Read as _, Write};

use anyhow::{Context as _, Result, anyhow, bail};
use data_encoding::HEXLOWER;
use mezza_core::SuiteId;
use mezza_ratchet::safety::Named;
use mezza_ratchet::{IdentityKey, OneTime, SignalBundle, SignalKem};

use super::device::Device;
use super::{is_container, number};
use crate::exit::{Exit, Fault};

/// Longest line in bytes.
const LINE_BYTES_MAX: usize = 8 << 20;
/// What stands in front of a key.
const KEY_TYPE: u8 = 5;
/// What stands in front of a key of Kyber1024.
const KEM_TYPE: u8 = 8;
/// The kind of a first message, and of every other.
const KINDS: [&str; 2] = ["3", "2"];

/// Answers line by line until the input ends.
pub fn serve(
    suite: SuiteId,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<Exit, Fault> {
    let mut device = Device::new(suite).map_err(|error| Fault::bug(error.to_string()))?;
    loop {
        let Some(line) = read_line(&mut input)? else { return Ok(Exit::Done) };
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match answer(&mut device, suite, &words) {
            Ok(fields) => [vec!["ok".to_owned()], fields].concat().join(" "),
            Err(error) => format!("err {error:#}"),
        };
        // A reader that went away ends it, without blame.
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            return Ok(Exit::Done);
        }
    }
}

/// The next line without its end; `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> Result<Option<String>, Fault> {
    let mut line = Vec::new();
    let limit = LINE_BYTES_MAX as u64 + 1;
    let read = input.by_ref().take(limit).read_until(b'\n', &mut line);
    read.map_err(|error| malformed(format!("standard input cannot be read: {error}")))?;
    if line.pop_if(|byte| *byte == b'\n').is_none() && line.is_empty() {
        return Ok(None);
    }
    if line.len() > LINE_BYTES_MAX {
        return Err(malformed(format!("a line is longer than {LINE_BYTES_MAX} bytes")));
    }
    String::from_utf8(line).map(Some).map_err(|_| malformed("a line is not UTF-8"))
}

fn malformed(text: impl Into<String>) -> Fault {
    Fault::new(Exit::Malformed, text, "the words are in docs/protocols/ratchet.md")
}

fn answer(device: &mut Device, suite: SuiteId, words: &[&str]) -> Result<Vec<String>> {
    let container = is_container(suite);
    Ok(match words {
        ["bundle"] => {
            *device = Device::new(suite)?;
            if container { bundle(device)? } else { signal_bundle(device)? }
        }
        ["process", fields @ ..] => {
            if container {
                process(device, fields)?;
            } else {
                process_signal(device, fields)?;
            }
            Vec::new()
        }
        ["enc", body] => {
            let (first, message) = device.seal(&unhex(body)?)?;
            vec![KINDS[usize::from(!first)].into(), hex(&message)]
        }
        ["dec", kind, message] if KINDS.contains(kind) => {
            vec![hex(&device.open(&unhex(message)?)?)]
        }
        ["number", local, remote, key] => {
            let ids = [unhex(local)?, unhex(remote)?];
            let (here, there) = (device.public(), key_of(key)?);
            let (local, remote) =
                (Named { key: &here, id: &ids[0] }, Named { key: &there, id: &ids[1] });
            let (digits, code) = number::of(suite, local, remote)?;
            vec![digits, hex(&code)]
        }
        ["sign", text] => vec![hex(&device.sign(&unhex(text)?))],
        ["verify", key, text, signature] => {
            let good = device.verifies(&key_of(key)?, &unhex(text)?, &array(signature)?);
            vec![u8::from(good).to_string()]
        }
        [word, ..] => bail!("`{word}` is not known, or has other fields"),
        [] => bail!("the line is empty"),
    })
}

fn bundle(device: &Device) -> Result<Vec<String>> {
    let (bundle, one_time) = device.bundle();
    let one_time = one_time.context("no one-time key is left")?;
    Ok(vec![hex(bundle), hex(&one_time.encode()), ser(device.public().as_bytes())])
}

fn process(device: &mut Device, fields: &[&str]) -> Result<()> {
    let [bundle, one_time, identity] = fields else { bail!("three fields are needed") };
    let one_time = match *one_time {
        "-" => None,
        text => Some(OneTime::decode(&unhex(text)?)?),
    };
    device.process(&unhex(bundle)?, one_time, key_of(identity)?)
}

fn signal_bundle(device: &Device) -> Result<Vec<String>> {
    let bundle = device.signal_bundle().context("no signed prekey is left")?;
    let one_time = bundle.one_time.context("no one-time key is left")?;
    let mut fields = vec![
        bundle.registration.to_string(),
        one_time.id.to_string(),
        ser(&one_time.key),
        bundle.spk_id.to_string(),
        ser(&bundle.spk),
        hex(&bundle.signature),
        ser(device.public().as_bytes()),
    ];
    if let Some(kem) = &bundle.kem {
        let key = hex(&[&[KEM_TYPE], kem.key.as_slice()].concat());
        fields.extend([kem.id.to_string(), key, hex(&kem.signature)]);
    }
    Ok(fields)
}

fn process_signal(device: &mut Device, fields: &[&str]) -> Result<()> {
    let [registration, opk_id, opk, spk_id, spk, signature, identity, kem @ ..] = fields else {
        bail!("seven fields are needed, or ten");
    };
    let one_time = match *opk {
        "-" => None,
        text => Some(OneTime { id: opk_id.parse()?, key: raw_key(text)? }),
    };
    let bundle = SignalBundle {
        registration: registration.parse()?,
        spk_id: spk_id.parse()?,
        spk: raw_key(spk)?,
        signature: array(signature)?,
        one_time,
        kem: signal_kem(kem)?,
    };
    device.process_signal(&bundle, key_of(identity)?)
}

fn signal_kem(fields: &[&str]) -> Result<Option<SignalKem>> {
    match fields {
        [] => Ok(None),
        [id, key, signature] => match unhex(key)?.as_slice() {
            [KEM_TYPE, key @ ..] => {
                let (id, signature) = (id.parse()?, array(signature)?);
                Ok(Some(SignalKem { id, key: key.to_vec(), signature }))
            }
            _ => bail!("a KEM key is of another type"),
        },
        _ => bail!("seven fields are needed, or ten"),
    }
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    HEXLOWER.decode(text.as_bytes()).context("a field is no lower-case hex")
}

fn array<const N: usize>(text: &str) -> Result<[u8; N]> {
    unhex(text)?.try_into().map_err(|_| anyhow!("a field does not have {N} bytes"))
}

fn ser(key: &[u8; 32]) -> String {
    hex(&[&[KEY_TYPE], key.as_slice()].concat())
}

fn raw_key(text: &str) -> Result<[u8; 32]> {
    match array::<33>(text)? {
        [KEY_TYPE, key @ ..] => Ok(key),
        _ => bail!("a key is of another type"),
    }
}

fn key_of(text: &str) -> Result<IdentityKey> {
    Ok(IdentityKey::decode(&raw_key(text)?)?)
}
