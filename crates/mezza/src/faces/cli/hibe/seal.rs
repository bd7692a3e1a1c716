//! `mezza hibe seal`: seals standard input into an envelope.

use std::io::{self, IsTerminal, Read};

use data_encoding::{BASE64, HEXLOWER};
use mezza_hibe::wire::envelope::PAYLOAD_BYTES_MAX;
use mezza_hibe::{
    Bucket, CardBlock, EncapsulateError, Envelope, EnvelopeId, EnvelopeKey, EnvelopeTime, System,
    Tick,
};
use serde_json::json;
use zeroize::Zeroizing;

use super::lives::{describe_risk, life_name, list_lives};
use super::{card, format_minute};
use crate::faces::cli::args::SealArgs;
use crate::faces::cli::{CliContext, show};
use mezza_host::api::words::group_digits;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::rng::OsRng;

/// Maximum bytes read from standard input, so that the size of a too long payload can be reported.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// `mezza hibe seal`
pub(super) fn seal(context: &CliContext, asked: &SealArgs) -> Result<Exit, Fault> {
    let out = context.out;
    if asked.out.is_none() && !out.json && io::stdout().is_terminal() {
        let text = "an envelope is binary, and standard output is a terminal";
        return Err(Fault::new(Exit::Usage, text, "write it into a file with `--out FILE`"));
    }
    let card = card::read_card_block(&asked.card)?;
    // Take the time after the input: typing the text may take minutes.
    let payload = read_payload()?;
    let tick = asked.at.tick(context);
    let life = asked.life.map_or(card.shortest_life(), Into::into);
    let time = EnvelopeTime { life, tick };
    let envelope = seal_envelope(&card, time, &payload, asked.bucket)?;
    match &asked.out {
        Some(path) => card::write_envelope(path, &asked.card, envelope.as_bytes())?,
        None if !out.json => show::print_bytes(envelope.as_bytes()),
        None => {}
    }
    let bytes = envelope.as_bytes();
    out.print_value(&json!({
        "tick": tick.0, "life": life_name(life), "bytes": bytes.len(), "id": HEXLOWER.encode(&EnvelopeId::from_envelope(bytes).0),
        "envelope": asked.out.is_none().then(|| BASE64.encode(bytes)),
    }));
    out.print_aside(&format!("{} bytes, to be opened at {}", bytes.len(), format_minute(tick)));
    out.print_aside(&describe_risk(life));
    Ok(Exit::Done)
}

/// Reads standard input.
pub(crate) fn read_payload() -> Result<Zeroizing<Vec<u8>>, Fault> {
    let mut payload = Zeroizing::new(Vec::with_capacity(PAYLOAD_BYTES_MAX + 1));
    let read = io::stdin().lock().take(INPUT_BYTES_MAX).read_to_end(&mut payload);
    read.map_err(|error| {
        let text = format!("standard input cannot be read: {error}");
        Fault::new(Exit::NotFound, text, "check what is piped in")
    })?;
    if payload.len() > PAYLOAD_BYTES_MAX {
        let bytes = group_digits(payload.len());
        let most = group_digits(PAYLOAD_BYTES_MAX);
        let text = format!("payload has {bytes} bytes, an envelope holds {most}");
        return Err(Fault::new(Exit::Malformed, text, "split it into several"));
    }
    Ok(payload)
}

pub(crate) fn seal_envelope(
    card: &CardBlock,
    time: EnvelopeTime,
    payload: &[u8],
    bucket: u8,
) -> Result<Envelope, Fault> {
    let EnvelopeTime { life, tick } = time;
    let bucket = Bucket::new(bucket).ok_or_else(|| Fault::bug("a bucket above 3"))?;
    let sealed = card.seal_key_for(life, tick).and_then(|key| {
        EnvelopeKey::new(&System::new(), &key, tick, &mut OsRng)?.seal(payload, bucket, tick)
    });
    sealed.map_err(|error| seal_fault(error, card, tick))
}

fn seal_fault(error: EncapsulateError, card: &CardBlock, tick: Tick) -> Fault {
    match error {
        EncapsulateError::NotYet => {
            let minutes = (card.origin().0 - tick.0).div_ceil(2);
            let text = format!("card starts {minutes} min in the future");
            let next = "either the clock here is behind, see `mezza mesh status`, or the one that made the card \
                        was ahead: then ask for a new card";
            Fault::new(Exit::Config, text, next)
        }
        EncapsulateError::Over => {
            let text =
                format!("the life of this card ended on {}", super::format_day(card.end_tick()));
            Fault::new(Exit::No, text, "ask for a new card")
        }
        EncapsulateError::NoLife => {
            let text = format!("{error}; it has {}", list_lives(card));
            Fault::new(
                Exit::Usage,
                text,
                "choose one of these with `--life`, or ask for a new card",
            )
        }
        EncapsulateError::TooLong => Fault::bug(error.to_string()),
    }
}
