//! The screen of `mezza up`: lines for people, one JSON event a line for programs.

use serde_json::json;

use super::check::CheckResult;
use super::link::Joined;
use super::{DemoRelay, ECHO, PERSON};
use crate::faces::cli::args::UpArgs;
use crate::faces::cli::{CliContext, show};
use crate::faces::served::ServedNode;
use mezza_host::api::Fault;
use mezza_servers::mixnet::demo::{DemoNetwork, MIXES};

/// Prints what has started.
pub(super) struct Screen<'a> {
    context: &'a CliContext,
    no_web: bool,
}

impl<'a> Screen<'a> {
    /// Makes a screen for these arguments.
    pub(super) fn new(context: &'a CliContext, args: &UpArgs) -> Self {
        Self { context, no_web: args.serve.no_web }
    }

    fn print_both(&self, value: &serde_json::Value, text: &str) {
        self.context.out.print_either(value, text);
    }

    /// Prints that the relay listens.
    pub(super) fn show_relay(&self, relay: &DemoRelay, context: &CliContext) {
        let address = relay.handle.address();
        let key = mezza_host::api::words::key_digits(&relay.entry.key);
        let folder = context.home.relay();
        let text = format!("relay    {address}   key {key}    {} (durable)", folder.display());
        self.print_both(&relay.to_json(), &text);
    }

    /// Prints that the demonstration's user is unlocked.
    pub(super) fn show_person(&self, context: &CliContext) {
        let vault = context.home.vault();
        let text =
            format!("you      {PERSON:<16} vault {} (demo passphrase: demo)", vault.display());
        self.print_both(
            &json!({ "event": "you", "name": PERSON, "vault": show::format_path(&vault) }),
            &text,
        );
    }

    /// Prints that the user's own identity is served.
    pub(super) fn show_own(&self, context: &CliContext, unlocked: bool) {
        let vault = context.home.vault();
        let state = if unlocked { "unlocked" } else { "locked, unlock it on the page" };
        let text = format!("you      vault {} ({state})", vault.display());
        self.print_both(
            &json!({ "event": "you", "vault": show::format_path(&vault), "unlocked": unlocked }),
            &text,
        );
    }

    /// Prints that echo runs.
    pub(super) fn show_echo(&self) {
        let text =
            "echo     a second device with its own vault and keys, reached like anybody else";
        self.print_both(&json!({ "event": "echo", "name": ECHO }), text);
    }

    /// Prints that the demonstration's mixnet runs.
    pub(super) fn show_network(&self, network: &DemoNetwork) {
        let interval_ms = network.interval_ms;
        let text = format!(
            "mixnet   {MIXES} servers and an entry, a round every {interval_ms} ms   DEMO NOISE: it hides nothing"
        );
        let value =
            json!({ "event": "mixnet", "mixes": MIXES, "interval_ms": interval_ms, "demo": true });
        self.print_both(&value, &text);
    }

    /// Prints that both devices are in a mesh, or why they are not.
    pub(super) fn show_mesh(&self, made: &Result<(), Fault>) {
        match made {
            Ok(()) => self.print_both(
                &json!({ "event": "mesh", "nodes": 2, "ok": true }),
                "mesh     a node for each of the two, on the loopback interface; no server between them",
            ),
            Err(fault) => self.print_both(
                &json!({ "event": "mesh", "ok": false, "error": fault.text, "next": fault.next }),
                &format!("mesh     is not there: {fault}"),
            ),
        }
    }

    /// Prints that the two devices are paired, or why there is no link.
    pub(super) fn show_link(&self, joined: &Result<Joined, Fault>) {
        match joined {
            Ok(Joined { address, digits }) => {
                let paired = digits.as_ref().map_or_else(
                    || "paired by an earlier start".into(),
                    |digits| format!("paired, since both devices showed {digits}"),
                );
                let value =
                    json!({ "event": "link", "address": address, "digits": digits, "ok": true });
                let text = format!("link     {address} is echo's device; {paired}");
                self.print_both(&value, &text);
            }
            Err(fault) => self.print_both(
                &json!({ "event": "link", "ok": false, "error": fault.text, "next": fault.next }),
                &format!("link     is not there: {fault}"),
            ),
        }
    }

    /// Prints the result of the check.
    pub(super) fn show_check(&self, proof: &Result<CheckResult, Fault>) {
        match proof {
            Ok(CheckResult { carrier, ms }) => {
                let text = format!(
                    "check    {PERSON} -> {ECHO} -> {PERSON}   {carrier}: delivered and answered in {ms} ms   OK"
                );
                self.print_both(
                    &json!({ "event": "check", "carrier": carrier, "ms": ms, "ok": true }),
                    &text,
                );
            }
            Err(fault) => {
                let value = json!({ "event": "check", "ok": false, "error": fault.text, "next": fault.next });
                self.print_both(
                    &value,
                    &format!("check    {PERSON} -> {ECHO} -> {PERSON}   FAILED: {fault}"),
                );
            }
        }
    }

    /// Prints the address to open.
    pub(super) fn open(&self, served: &ServedNode) {
        let file = self.context.home.run().join("url");
        if !self.no_web {
            let text = format!(
                "open     {}\n         (also in {}; works once, `{}` for another)",
                served.url,
                file.display(),
                self.context.home.format_command("url")
            );
            self.print_both(
                &json!({ "event": "open", "url": served.url, "port": served.port }),
                &text,
            );
        }
        let program = std::env::args_os().next().unwrap_or_else(|| "mezza".into());
        let home = self.context.home.root().display();
        self.context.out.print_line(format!(
            "try      {} --home {home} send {ECHO} \"hello\"   and watch the Observer page",
            program.display()
        ));
        self.context.out.print_line(
            "DEMO     everything runs on this machine; nothing here hides you from anybody. \
             Ctrl-C stops all.",
        );
    }
}
