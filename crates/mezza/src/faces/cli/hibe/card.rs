//! `mezza hibe card`: card blocks, as files, addresses and pictures.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use data_encoding::HEXLOWER;
use mezza_hibe::wire::card::PUBLIC_KEY_BYTES;
use mezza_hibe::{BlockPolicy, CardBlock, CardBlockError, Tick};
use mezza_messenger::uri;
use serde_json::json;

use super::format_day;
use super::lives::{describe_lives, describe_risk, life_name};
use crate::faces::cli::args::BlockArgs;
use crate::faces::cli::person::{BLOCK_FIRST_BYTES, read_source, write_picture};
use crate::faces::cli::show::{self, Out};
use crate::faces::qr::{Medium, QrImage};
use mezza_host::api::uri::read_block;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;

/// Bytes of a file that may be a card block: what is longer is read as text or picture.
const BLOCK_READ_BYTES: u64 = 1_024;
/// QR code sizes in modules: version 1 minus 4, the step per version, and the border of both sides.
const QR_MODULES: (usize, usize, usize) = (17, 4, 8);

/// Returns the card block named by an argument: a binary file, an address, a text file with an
/// address, or a picture.
///
/// # Errors
/// Exit code 65 for other content, 66 for a file that is missing.
pub(crate) fn read_card_block(source: &str) -> Result<CardBlock, Fault> {
    let bytes = match file_bytes(Path::new(source)) {
        Some(bytes) => bytes,
        None => read_block(&read_source(source)?)?,
    };
    CardBlock::decode(&bytes, BlockPolicy::Product).map_err(card_fault)
}

/// Returns the bytes of a file that begins like a card block.
fn file_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(BLOCK_READ_BYTES).read_to_end(&mut bytes).ok()?;
    bytes.first().is_some_and(|first| BLOCK_FIRST_BYTES.contains(first)).then_some(bytes)
}

fn card_fault(error: CardBlockError) -> Fault {
    let next = match error {
        CardBlockError::Suite | CardBlockError::Tree => "update the program",
        CardBlockError::Length { .. }
        | CardBlockError::Profile
        | CardBlockError::Origin
        | CardBlockError::Point(_) => "ask for the card again",
    };
    Fault::new(Exit::Malformed, error.to_string(), next)
}

/// `mezza hibe card`
pub(super) fn show_card(out: Out, asked: &BlockArgs) -> Result<Exit, Fault> {
    let card = read_card_block(&asked.source)?;
    let address = uri::encode_block(card.as_bytes(), true);
    let code = QrImage::draw(&address, Medium::Screen)?;
    let (first, step, border) = QR_MODULES;
    let version = (code.size() - border - first) / step;
    if let Some(path) = &asked.out {
        write_picture(path, &address)?;
    }
    let last = Tick(card.end_tick().0 - 1);
    let epoch_s = card.profile().epoch_ms() / 1_000;
    out.print_value(&json!({
        "hash": HEXLOWER.encode(&card.hash().0), "suite": 1, "epoch_s": epoch_s,
        "lives": describe_lives(&card),
        "first": format_day(card.origin()), "last": format_day(last), "bytes": card.as_bytes().len(),
        "public_key_bytes": PUBLIC_KEY_BYTES, "qr_version": version,
        "uri": uri::encode_block(card.as_bytes(), false),
        "file": asked.out.as_ref().map(|path| show::format_path(path)),
    }));
    if asked.qr {
        out.print_line(code.to_terminal());
    }
    out.print_line(format!("card     {}", HEXLOWER.encode(&card.hash().0)));
    out.print_line("suite    1, anonymous HIBE of Blazy, Kiltz and Pan on BLS12-381");
    if card.shape().has_lives() {
        for life in card.lives() {
            out.print_line(format!("lives    {}: {}", life_name(life), describe_risk(life)));
        }
    } else {
        out.print_line(format!("erased   what is older than {} s", 2 * epoch_s));
    }
    out.print_line(format!("life     {} to {}", format_day(card.origin()), format_day(last)));
    let bytes = card.as_bytes().len();
    out.print_line(format!(
        "size     {bytes} bytes, {PUBLIC_KEY_BYTES} of them public key; QR version {version}"
    ));
    if let Some(path) = &asked.out {
        out.print_line(format!("picture  {}", path.display()));
    }
    Ok(Exit::Done)
}

/// Writes an envelope atomically: if the disk refuses, the existing file stays.
///
/// # Errors
/// Exit code 64 if the file is the card for which the envelope is sealed, 73 if the disk refuses.
pub(super) fn write_envelope(path: &Path, card: &str, bytes: &[u8]) -> Result<(), Fault> {
    let is_card = fs::canonicalize(card)
        .is_ok_and(|card| fs::canonicalize(path).is_ok_and(|out| out == card));
    if is_card {
        let text = format!("{} is the card itself", path.display());
        return Err(Fault::new(Exit::Usage, text, "name another file with `--out FILE`"));
    }
    let refused = |text| Fault::new(Exit::CannotWrite, text, "choose another folder");
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        // A device or a pipe is written in place and not replaced.
        return fs::write(path, bytes)
            .map_err(|error| refused(format!("{} cannot be written: {error}", path.display())));
    }
    private::replace_shared(path, bytes).map_err(|fault| refused(fault.text))
}
