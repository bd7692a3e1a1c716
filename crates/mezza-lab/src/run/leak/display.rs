//! The readings of an observer while the experiment runs: a bar on standard error, or with `--stream`
//! a line of JSON for each handshake on standard output.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Result;
use mezza::testing::api::json::{LeakBeginJson, LeakLineJson, LeakResultJson};

use super::Chosen;
use super::reader::{Reading, TakenLine};
use crate::asa::symbol::SECRET_BITS;
use crate::terminal::{print_error, print_line};

/// The form in which readings are shown.
pub enum Display {
    /// A bar, for people.
    Bar {
        /// True if the device chooses the observed element alone.
        is_open: bool,
    },
    /// Lines of JSON, for programs.
    Stream,
}

impl Display {
    /// Begins to show an experiment of this number of handshakes.
    ///
    /// # Errors
    /// If standard output does not take the first line.
    pub fn begin(chosen: &Chosen, reading: &Reading<'_>, handshakes: usize) -> Result<Self> {
        let is_open = chosen.element.is_open_behind(&chosen.firewall);
        if !chosen.is_stream {
            for line in legend(reading.block_bits(), is_open) {
                print_error(&line);
            }
            return Ok(Self::Bar { is_open });
        }
        print_json(&LeakLineJson::Begin(LeakBeginJson {
            variant: chosen.variant.name().to_owned(),
            group: chosen.group.clone(),
            element: chosen.element.name.to_owned(),
            firewall: chosen.firewall.clone(),
            is_open,
            secret_bits: SECRET_BITS,
            block_bits: reading.block_bits(),
            handshakes: handshakes as u64,
            expected: reading.expected(),
            seed: chosen.seed,
        }))?;
        Ok(Self::Stream)
    }

    /// Shows the reading after a handshake. The bar appears when a block was read for the first time.
    ///
    /// # Errors
    /// If standard output does not take the line.
    pub fn show_reading(&self, reading: &Reading<'_>, taken: &TakenLine) -> Result<()> {
        match self {
            Self::Stream => {
                print_json(&LeakLineJson::Reading(reading.to_json(taken.handshake)))?;
            }
            Self::Bar { is_open } if taken.is_new => {
                show_bar(&format_bar(reading, taken.handshake, *is_open), reading.complete());
            }
            Self::Bar { .. } => {}
        }
        Ok(())
    }

    /// Ends the stream; `agreed` is true if both ends had equal keys.
    ///
    /// # Errors
    /// If standard output does not take the line.
    pub fn end(self, reading: &Reading<'_>, agreed: bool) -> Result<()> {
        match self {
            Self::Bar { .. } => Ok(()),
            Self::Stream => {
                let complete = reading.complete();
                print_json(&LeakLineJson::Result(LeakResultJson { agreed, complete }))
            }
        }
    }
}

/// Returns the lines that explain the bar.
fn legend(block_bits: u32, is_open: bool) -> [String; 2] {
    let expectation = if is_open {
        "the device chooses the observed field alone: expect `#` only"
    } else {
        "the firewall changes the observed field: expect `x`, and `#` by chance only"
    };
    [
        format!(
            "an observer of the wire reads a secret of {SECRET_BITS} bits, one cell for each block of \
             {block_bits} bits:"
        ),
        format!("  # read as it is   x read wrong   . not read yet; {expectation}"),
    ]
}

/// Formats the bar after a handshake.
fn format_bar(reading: &Reading<'_>, handshake: u64, is_open: bool) -> String {
    let now = reading.to_json(handshake);
    let recovered = now.recovered_bits;
    let bar = format!(
        "handshake {handshake:>4}  [{}]  {recovered:>3} of {SECRET_BITS} bits recovered",
        reading.mark_blocks()
    );
    if is_open {
        // The prediction is that of a device whose choices reach the wire.
        let left = reading.handshakes_left().ceil();
        return format!("{bar}, about {left:>3.0} handshakes to go");
    }
    format!("{bar}, contradictions so far: {}", now.contradictions)
}

/// Prints the bar; on a terminal it overwrites the previous one until all blocks were read.
fn show_bar(line: &str, complete: Option<u64>) {
    let mut out = std::io::stderr().lock();
    let end = if out.is_terminal() && complete.is_none() { '\r' } else { '\n' };
    // Progress is only for display, so errors are ignored.
    let _ = write!(out, "{line}{end}");
    let _ = out.flush();
}

fn print_json(line: &LeakLineJson) -> Result<()> {
    print_line(&serde_json::to_string(line)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asa::Planted;
    use serde_json::json;

    /// A bar that a firewall fills with wrong blocks must not look like a recovered secret.
    #[test]
    fn guard_60_the_bar_tells_right_blocks_from_wrong_ones() {
        let planted = Planted::new([0xab; 16], 8);
        let mut reading = Reading::new(&planted, 54.0);
        for (handshake, index, block) in [(1, 0, 0xab), (2, 3, 0xac), (3, 3, 0xad)] {
            let said = json!({ "handshake": handshake, "index": index, "block": block });
            reading.take_line(&said).unwrap();
        }
        assert_eq!(
            format_bar(&reading, 3, false),
            "handshake    3  [#..x............]    8 of 128 bits recovered, contradictions so far: 1"
        );
        assert_eq!(
            format_bar(&reading, 3, true),
            "handshake    3  [#..x............]    8 of 128 bits recovered, about  53 handshakes to go"
        );
        let [what, marks] = legend(8, false);
        assert!(what.contains("block of 8 bits"), "{what}");
        assert!(marks.contains("x read wrong") && marks.contains("by chance"), "{marks}");
        assert!(!legend(8, true)[1].contains("firewall"));
    }
}
