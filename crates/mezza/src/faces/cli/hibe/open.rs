//! `mezza hibe open`: tries files in one batch.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use mezza_hibe::{
    CarriedEnvelope, EnvelopeTime, HeldKeys, KeyTree, Life, OpenedEnvelope, System, Tick, Trial,
    trial_open_batch, trial_open_carried,
};
use serde_json::json;

use super::lives::life_name;
use super::{ahead_text, format_minute, read_envelope};
use crate::faces::cli::CliContext;
use crate::faces::cli::args::OpenArgs;
use crate::faces::cli::show::{self, Out, clean_text};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use mezza_host::store::tree_folder::tree_fault;

/// The outcome of one file, in a word and with its reason.
struct Outcome {
    word: &'static str,
    text: String,
    tick: Option<Tick>,
}

impl Outcome {
    fn new(word: &'static str, text: impl Into<String>) -> Self {
        Self { word, text: text.into(), tick: None }
    }
}

/// `mezza hibe open`
pub(super) fn open(context: &CliContext, asked: &OpenArgs) -> Result<Exit, Fault> {
    let out = context.out;
    let now = asked.tree.at.tick(context);
    let folder = asked.tree.open(context)?;
    let tree = folder.tree();
    if let Some(dir) = &asked.out {
        private::make_folder(dir)?;
    }
    let system = System::new();
    let lives: Vec<Life> = match asked.life {
        Some(life) => vec![life.into()],
        None => tree.card().lives().collect(),
    };
    let held = load_held(&system, tree, &lives, now)?;
    let read: Vec<_> = asked.files.iter().map(|path| read_envelope(path)).collect();
    let mut opened = 0;
    let mut missing = 0;
    for (path, read) in asked.files.iter().zip(&read) {
        let outcome = match read {
            Err(error) => {
                missing += 1;
                Outcome::new("missing", format!("it cannot be read: {error}"))
            }
            Ok(bytes) => match try_lives(&system, &held, &lives, bytes) {
                Trial::Opened(envelope) => {
                    opened += 1;
                    output_payload(asked, path, &envelope)?
                }
                Trial::NotForMe => Outcome::new("not for me", "or changed on its way"),
                Trial::NoKey => no_key(tree, bytes[1], now),
                Trial::Malformed => Outcome::new("malformed", "it is no envelope"),
            },
        };
        report_outcome(out, path, &outcome);
    }
    Ok(match opened {
        0 if missing == asked.files.len() => Exit::NotFound,
        0 => Exit::No,
        _ => Exit::Done,
    })
}

/// Tries an envelope without a header: for each life, with all ticks that have a key and the low
/// byte in the envelope's byte 1. If no key opens it, the outcome is that of the first life,
/// because byte 1 alone does not show the life.
fn try_lives(system: &System, held: &HeldKeys, lives: &[Life], envelope: &[u8]) -> Trial {
    let mut first = trial_open_batch(system, &HeldKeys::new(), &[envelope]).pop();
    let low = envelope.get(1).copied().unwrap_or_default();
    for (at, life) in lives.iter().enumerate() {
        for tick in held.find_ticks(*life, low) {
            let time = Some(EnvelopeTime { life: *life, tick });
            let carried = CarriedEnvelope { envelope, time };
            match trial_open_carried(system, held, &[carried]).pop() {
                Some(opened @ Trial::Opened(_)) => return opened,
                other if at == 0 => first = other,
                _ => (),
            }
        }
    }
    first.unwrap_or(Trial::Malformed)
}

/// Returns the keys of these lives for the previous, the current and the next epoch, except erased
/// ones.
fn load_held(
    system: &System,
    tree: &KeyTree,
    lives: &[Life],
    now: Tick,
) -> Result<HeldKeys, Fault> {
    // A time before the card begins, or after its end, is reported.
    tree.card().epoch_of(now).map_err(tree_fault)?;
    let mut held = HeldKeys::new();
    for life in lives {
        tree.hold_keys(system, *life, now, &mut held, &mut OsRng).map_err(tree_fault)?;
    }
    Ok(held)
}

/// Writes the payload to standard output if it is the only one, else into the given folder.
fn output_payload(
    asked: &OpenArgs,
    path: &Path,
    envelope: &OpenedEnvelope,
) -> Result<Outcome, Fault> {
    let payload = envelope.payload.as_slice();
    let life = life_name(envelope.life);
    let mut text = format!("{} bytes of {}", payload.len(), format_minute(envelope.tick));
    if envelope.life != Life::Minute {
        text = format!("{text}, life {life}");
    }
    if let Some(dir) = &asked.out {
        let place = store_payload(dir, path, envelope)?;
        text = format!("{text}, in {}", place.display());
    } else if asked.files.len() == 1 {
        show::print_bytes(payload);
    } else {
        text += "; read it with `--out DIR`";
    }
    Ok(Outcome { word: "opened", text, tick: Some(envelope.tick) })
}

/// Writes the payload into a file with the name of its envelope. If that name exists, the id of the
/// envelope is appended: nothing is overwritten, because the key of lost content may be erased
/// (HIBE-78).
fn store_payload(dir: &Path, path: &Path, envelope: &OpenedEnvelope) -> Result<PathBuf, Fault> {
    let name = path.file_name().ok_or_else(|| {
        Fault::new(Exit::Usage, "an envelope has no file name", "name files, not folders")
    })?;
    let place = dir.join(name);
    if private::create(&place, &envelope.payload)? {
        return Ok(place);
    }
    let mut longer = name.to_owned();
    longer.push(format!("-{}", HEXLOWER.encode(&envelope.id.0)));
    let place = dir.join(longer);
    if !private::create(&place, &envelope.payload)? {
        // The same envelope was opened before: the id is a hash, so the file holds the same
        // payload.
        private::replace(&place, &envelope.payload)?;
    }
    Ok(place)
}

/// Explains a missing key: the tick next to now with this low byte is outside of the held range.
fn no_key(tree: &KeyTree, low: u8, now: Tick) -> Outcome {
    let ahead = low.wrapping_sub(now.0 as u8);
    let tick = if ahead < 128 {
        Tick(now.0.saturating_add(ahead.into()))
    } else {
        Tick(now.0.saturating_sub(256 - u32::from(ahead)))
    };
    let at = format_minute(tick);
    let text = match tree.card().epoch_of(tick) {
        Ok(epoch) if epoch >= tree.floor() => {
            format!("this envelope is for {at}; open it with `--at tick:{}`", tick.0)
        }
        // The folder does not store when the keys were erased; this is when they were due.
        outside => {
            let due = outside.map_or(String::new(), |epoch| {
                let due = format_minute(tree.card().first_tick(epoch.plus(2)));
                format!(", due at {due}")
            });
            // If the floor is ahead of the clock, an envelope that is sent again before the clock
            // has reached the floor would not open either.
            let next =
                ahead_text(tree, now).unwrap_or_else(|| "ask the sender to send again".into());
            format!("this envelope is for {at}, the keys for that minute were erased{due}; {next}")
        }
    };
    Outcome { word: "no key", text, tick: Some(tick) }
}

/// Prints one line per file; with a single file, standard output carries only its payload.
fn report_outcome(out: Out, path: &Path, outcome: &Outcome) {
    let Outcome { word, text, tick } = outcome;
    let name = show::format_path(path);
    out.print_value(&json!({
        "file": show::format_path(path), "outcome": word, "text": text, "tick": tick.map(|tick| tick.0),
    }));
    out.print_aside(&format!("{}: {word}: {text}", clean_text(&name)));
}
