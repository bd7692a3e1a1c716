//! `mezza mesh net|bundle`: the network of a home, and cells in a file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mezza_core::Secret;
use mezza_mesh::{MeshCell, bundle};
use serde_json::json;

use super::super::{CliContext, show};
use super::{ask_lines, ask_node};
use crate::faces::cli::args::MeshNetCommand;
use crate::faces::qr::{Medium, QrImage};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use mezza_servers::mesh::control::{self, MeshAsk};
use mezza_servers::mesh::network::NetworkChoice;

/// Bytes of the largest bundle.
const BUNDLE_BYTES_MAX: u64 = 16 << 20;
/// Cells passed in one request: a line holds 64 KiB.
const AT_ONCE: usize = 8;

/// `mezza mesh net ..`
pub(super) fn run_net(context: &CliContext, what: &MeshNetCommand) -> Result<Exit, Fault> {
    let mut qr = false;
    let choice = match what {
        MeshNetCommand::Show => NetworkChoice::of_home(&context.home)?,
        MeshNetCommand::Create { name, closed, qr: drawn } => {
            qr = *drawn;
            let made = if *closed {
                NetworkChoice::make_closed(name, Secret::random(&mut OsRng))?
            } else {
                NetworkChoice::make_open(name)?
            };
            store_choice(context, made)?
        }
        MeshNetCommand::Join { network } => {
            let invited = network.starts_with("mezzavoce:");
            let choice = if invited {
                NetworkChoice::of_invitation(network)?
            } else {
                NetworkChoice::make_open(network)?
            };
            store_choice(context, choice)?
        }
        MeshNetCommand::Leave => store_choice(context, NetworkChoice::make_open("open")?)?,
    };
    let out = context.out;
    let invitation = choice.encode_invitation();
    out.print_value(&json!({
        "network": choice.name(), "closed": choice.is_closed(), "invitation": &*invitation,
    }));
    out.print_line(format!(
        "network  {}{}",
        choice.name(),
        if choice.is_closed() { ", closed" } else { "" }
    ));
    if choice.is_closed() {
        out.print_line(format!("invite   {}", &*invitation));
    }
    if qr {
        out.print_line(QrImage::draw(&invitation, Medium::Screen)?.to_terminal());
    }
    Ok(Exit::Done)
}

fn store_choice(context: &CliContext, choice: NetworkChoice) -> Result<NetworkChoice, Fault> {
    choice.save_to(&context.home)?;
    context.out.print_aside("a node that is started from now on is in it");
    Ok(choice)
}

/// `mezza mesh bundle export`
pub(super) fn export_bundle(context: &CliContext, file: &Path) -> Result<Exit, Fault> {
    let mut cells = Vec::new();
    let mut end = None;
    for line in ask_lines(context, &MeshAsk::Export)? {
        let line = line?;
        if let Some(count) = line["cells"].as_u64() {
            end = Some(count);
            continue;
        }
        let bytes = control::decode_base64(line["cell"].as_str().unwrap_or_default())?;
        cells.extend(MeshCell::decode(&bytes).ok());
    }
    // A node that ended during the export has sent only a part.
    if end != Some(cells.len() as u64) {
        let text =
            format!("the node told {} of its cells and ended; nothing is written", cells.len());
        return Err(Fault::new(Exit::No, text, "run it again"));
    }
    private::replace_shared(file, &bundle::encode(&cells))?;
    let value = json!({ "cells": cells.len(), "file": show::format_path(file) });
    context.out.print_either(&value, format!("{} cells are in {}", cells.len(), file.display()));
    Ok(Exit::Done)
}

/// `mezza mesh bundle import`
pub(super) fn import_bundle(context: &CliContext, file: &Path) -> Result<Exit, Fault> {
    let absent = |error| {
        let text = format!("{} cannot be read: {error}", file.display());
        Fault::new(Exit::NotFound, text, "name the file that `bundle export` made")
    };
    // A pipe has no length, so read up to the limit.
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(absent)?;
    opened.take(BUNDLE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(absent)?;
    if bytes.len() as u64 > BUNDLE_BYTES_MAX {
        return Err(Fault::new(Exit::Malformed, "a bundle has at most 16 MiB", "make a new one"));
    }
    let cells = bundle::decode(&bytes).map_err(|_| {
        let text = "this is no bundle of cells";
        Fault::new(Exit::Malformed, text, "export one with `mezza mesh bundle export FILE`")
    })?;
    let mut taken = 0;
    for some in cells.chunks(AT_ONCE) {
        let cells = some.iter().map(|cell| control::encode_base64(cell.bytes())).collect();
        taken += ask_node(context, &MeshAsk::Import { cells })?["taken"].as_u64().unwrap_or(0);
    }
    let of = cells.len();
    context.out.print_value(&json!({ "taken": taken, "of": of }));
    if taken == 0 {
        let text =
            format!("the bundle has {of} cells, none that is live and new here; nothing imported");
        context.out.print_line(text);
        return Ok(Exit::No);
    }
    context.out.print_line(format!("{taken} of {of} cells taken"));
    Ok(Exit::Done)
}
