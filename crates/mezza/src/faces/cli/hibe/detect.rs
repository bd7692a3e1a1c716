//! `mezza hibe detect-key` and `detect`: keys that recognise envelopes and open none.

use mezza_core::Reader;
use mezza_hibe::detect::LENT_EPOCHS_MAX;
use mezza_hibe::{DetectKey, Detected, Epoch, KeyTree, System, Tick, TreeError};
use serde_json::json;

use super::{format_minute, read_envelope};
use crate::faces::cli::args::{DetectArgs, DetectKeyArgs};
use crate::faces::cli::show::clean_text;
use crate::faces::cli::{CliContext, show};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use mezza_host::store::tree_folder::tree_fault;

/// Bytes of a file with keys at most: a year of the longest keys.
const KEYS_BYTES_MAX: usize = 1 << 20;

/// `mezza hibe detect-key`
pub(super) fn lend_keys(context: &CliContext, asked: &DetectKeyArgs) -> Result<Exit, Fault> {
    let out = context.out;
    let now = asked.tree.at.tick(context);
    let folder = asked.tree.open(context)?;
    let tree = folder.tree();
    let epochs = asked.span_ms.div_ceil(tree.card().profile().epoch_ms());
    if epochs > LENT_EPOCHS_MAX.into() && !asked.yes {
        let text = format!(
            "that are {epochs} epochs; whoever has the key knows who receives what, for ever"
        );
        return Err(Fault::new(Exit::Usage, text, "say it again with `--yes`"));
    }
    let keys = keys_in_span(tree, now, u32::try_from(epochs).unwrap_or(u32::MAX))?;
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.encode().to_vec()).collect();
    private::replace(&asked.out, &bytes)?;
    let (from, _) = keys[0].ticks();
    let (_, to) = keys[keys.len() - 1].ticks();
    out.print_value(&json!({
        "file": show::format_path(&asked.out), "keys": keys.len(), "bytes": bytes.len(), "from": from.0, "to": to.0,
    }));
    out.print_line(format!(
        "{} keys, {} bytes, in {}",
        keys.len(),
        bytes.len(),
        asked.out.display()
    ));
    out.print_line(format!("covered  {} to {}", format_minute(from), format_minute(to)));
    Ok(Exit::Done)
}

/// Returns the keys of all unexpanded nodes that begin in the span, the largest possible subtrees.
fn keys_in_span(tree: &KeyTree, now: Tick, epochs: u32) -> Result<Vec<DetectKey>, Fault> {
    let shape = tree.card().shape();
    let first = tree.card().epoch_of(now).map_err(tree_fault)?.max(tree.floor());
    let end = first.plus(epochs).min(tree.last_epoch().plus(1));
    let mut next = first;
    let mut keys = Vec::new();
    while next < end {
        match largest_key(tree, next, end) {
            Ok(key) => {
                next = next.plus(key.epoch_count());
                keys.push(key);
            }
            // A leaf that was already expanded has no detection key to give to others.
            Err(TreeError::Leaf) => next = next.plus(1),
            Err(error) => return Err(tree_fault(error)),
        }
        if keys.len() * shape.depth() * 192 > KEYS_BYTES_MAX {
            let text = "that are more keys than a file may hold";
            return Err(Fault::new(Exit::Usage, text, "ask for a shorter span"));
        }
    }
    if keys.is_empty() {
        let text = "every key of that span is expanded already";
        return Err(Fault::new(Exit::No, text, "ask for a longer span: it begins within 65 min"));
    }
    Ok(keys)
}

/// Returns the key of the largest subtree that begins at an epoch and ends before `end`.
fn largest_key(tree: &KeyTree, start: Epoch, end: Epoch) -> Result<DetectKey, TreeError> {
    let shape = tree.card().shape();
    let depth = shape.path_to(start).depth();
    if start.plus(shape.subtree_epochs(depth)) <= end {
        return tree.detect_key(start, depth, &mut OsRng);
    }
    // The subtree reaches too far, and a single epoch has no separate key.
    Err(TreeError::Leaf)
}

/// `mezza hibe detect`
pub(super) fn run_detect(context: &CliContext, asked: &DetectArgs) -> Result<Exit, Fault> {
    let out = context.out;
    let near = asked.at.tick(context);
    let keys = read_keys(&private::read(&asked.key, KEYS_BYTES_MAX + 1)?)?;
    let system = System::new();
    let mut matches = 0;
    for path in &asked.files {
        let (word, tick) = match read_envelope(path) {
            Err(_) => ("missing", None),
            Ok(bytes) => match combine_outcomes(&system, &keys, &bytes, near) {
                Detected::Match(tick) => {
                    matches += 1;
                    ("match", Some(tick))
                }
                Detected::Other => ("other", None),
                Detected::NoKey => ("no key", None),
                Detected::Malformed => ("malformed", None),
            },
        };
        let name = show::format_path(path);
        out.print_value(
            &json!({ "file": show::format_path(path), "outcome": word, "tick": tick.map(|tick| tick.0) }),
        );
        let at = tick.map_or(String::new(), |tick| format!(", {}", format_minute(tick)));
        out.print_line(format!("{}: {word}{at}", clean_text(&name)));
    }
    Ok(if matches > 0 { Exit::Done } else { Exit::No })
}

/// Combines the results of all keys for an envelope: the key that covers its tick decides.
fn combine_outcomes(system: &System, keys: &[DetectKey], envelope: &[u8], near: Tick) -> Detected {
    let each = keys
        .iter()
        .filter_map(|key| mezza_hibe::detect_envelopes(system, key, &[envelope], near).pop());
    let mut best = Detected::NoKey;
    for outcome in each {
        match outcome {
            Detected::NoKey => {}
            Detected::Other => best = outcome,
            decided => return decided,
        }
    }
    best
}

fn read_keys(bytes: &[u8]) -> Result<Vec<DetectKey>, Fault> {
    let wrong = |_| {
        let text = "this is no file of detect keys";
        Fault::new(Exit::Malformed, text, "make one with `mezza hibe detect-key`")
    };
    let mut reader = Reader::new(bytes);
    let mut keys = Vec::new();
    while !reader.is_empty() {
        keys.push(DetectKey::read_from(&mut reader).map_err(wrong)?);
    }
    if keys.is_empty() { Err(wrong(mezza_core::DecodeError::Truncated)) } else { Ok(keys) }
}
