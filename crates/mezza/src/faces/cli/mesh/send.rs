//! `mezza mesh send`: sends an envelope to the owner of a card, and reports its progress.

use mezza_core::Time;
use mezza_hibe::{CardBlock, EnvelopeTime, Tick};
use serde_json::{Value, json};

use super::super::{CliContext, hibe};
use super::{ask_lines, ask_node, gone_fault};
use crate::faces::cli::args::{CarriedWait, MeshSendArgs};
use mezza_host::api::{Exit, Fault, words};
use mezza_servers::mesh::control::{self, MeshAsk};

/// `mezza mesh send`
pub(super) fn run_send(context: &CliContext, asked: &MeshSendArgs) -> Result<Exit, Fault> {
    let card = hibe::card::read_card_block(&asked.card)?;
    // Request the time after the input: typing the text may take minutes.
    let payload = hibe::seal::read_payload()?;
    match send_payload(context, asked, &card, &payload) {
        // The tick ended between the query and the request: seal the same text again.
        Err(fault) if fault.code == Exit::No => send_payload(context, asked, &card, &payload),
        done => done,
    }
}

/// Seals the text for the present tick, and reports its progress.
fn send_payload(
    context: &CliContext,
    asked: &MeshSendArgs,
    card: &CardBlock,
    payload: &[u8],
) -> Result<Exit, Fault> {
    let out = context.out;
    let status = ask_node(context, &MeshAsk::Status)?;
    let tick = Tick(u32::try_from(status["cur"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX));
    let within_ms = status["within_ms"].as_u64().unwrap_or(u64::MAX);
    if within_ms > Time::MINUTE_MS && status["state"] != "agreed" {
        out.print_aside(
            "your clock may be off by more than a minute, and the receiver may have no key for it; if it is \
             right, say so with `mezza mesh clock --confirm`",
        );
    }
    let life = asked.life.map_or(card.shortest_life(), Into::into);
    let time = EnvelopeTime { life, tick };
    let envelope = hibe::seal::seal_envelope(card, time, payload, asked.bucket)?;
    out.print_aside(&hibe::lives::describe_risk(life));
    let life = life.number();
    let envelope = control::encode_base64(envelope.as_bytes());
    let mut reached = None;
    for line in ask_lines(context, &MeshAsk::Send { life, tick: tick.0, envelope, follower: None })?
    {
        let line = line?;
        out.print_value(&line);
        let event = line["event"].as_str().unwrap_or_default();
        match event {
            "accepted" => {
                let around = line["neighbours"].as_u64().unwrap_or(0);
                out.print_line(match around {
                    0 => "accepted; nobody is heard: the message waits for its minute".to_owned(),
                    1 => "accepted; 1 neighbour is heard".to_owned(),
                    _ => format!("accepted; {around} neighbours are heard"),
                });
                reached = Some(CarriedWait::Accepted);
            }
            "handed" | "carried" => {
                out.print_line(format!("announced by {}", count_neighbours(&line)));
                reached = reached.max(Some(if event == "handed" {
                    CarriedWait::Handed
                } else {
                    CarriedWait::Carried
                }));
            }
            _ => out.print_line("its time is over"),
        }
        if reached >= Some(asked.wait) && asked.wait != CarriedWait::Carried {
            return Ok(Exit::Done);
        }
        if event == "expired" {
            let far = reached.unwrap_or(CarriedWait::Accepted);
            let enough = far >= CarriedWait::Handed;
            out.print_value(&json!({ "event": "end", "announced": enough }));
            return Ok(if enough { Exit::Done } else { Exit::No });
        }
    }
    Err(gone_fault())
}

/// Counts names and not people: one liar can have many names.
fn count_neighbours(line: &Value) -> String {
    words::format_count(line["names"].as_u64().unwrap_or(0), "neighbour", "neighbours")
}
