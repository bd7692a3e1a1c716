//! The command line: every command, its texts, its exit codes (CLI-1 to CLI-4).
//!
//! Commands about notes and contacts send requests to a running node over its HTTP interface;
//! `init`, `card show`, `config` and `relay` need no node.

pub(crate) mod args;
pub(crate) mod backup;
mod changes;
pub(crate) mod client;
pub(crate) mod cpu;
pub(crate) mod follow;
pub(crate) mod guard;
pub(crate) mod help;
pub(crate) mod hibe;
pub(crate) mod lab;
pub(crate) mod link;
pub(crate) mod manual;
pub(crate) mod mesh;
pub(crate) mod mixnet;
pub(crate) mod moving;
pub(crate) mod paste;
pub(crate) mod people;
pub(crate) mod person;
pub(crate) mod purge;
pub(crate) mod ratchet;
pub(crate) mod relay;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod talk;
pub(crate) mod whom;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::faces::config::LoadedSettings;
use args::{Cli, CliCommand, LinkCommand};
use client::ApiClient;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::Home;
use mezza_host::process::memory;
use show::Out;

/// The function behind `mezza up`, passed as an argument because `demo` depends on the command
/// line.
pub(crate) type Demo = fn(&CliContext, &args::UpArgs) -> Result<Exit, Fault>;

/// Runs the program.
pub(crate) fn main(demo: Demo) -> ExitCode {
    memory::protect_memory();
    let parsed = help::grouped_command().try_get_matches();
    let (done, json) = match parsed.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => {
            let json = cli.json;
            (run_command(cli, demo), json)
        }
        Err(said) => (Ok(print_help(&said)), false),
    };
    // A command whose output was lost has failed.
    match done.and_then(|exit| show::lost_output().map_or(Ok(exit), Err)) {
        Ok(exit) => exit.into(),
        Err(fault) => {
            show::print_fault(&fault, json);
            fault.code.into()
        }
    }
}

/// Prints the requested help, or the error in the arguments.
fn print_help(said: &clap::Error) -> Exit {
    let printed = said.print();
    if said.use_stderr() {
        return Exit::Usage;
    }
    show::remember_error(printed);
    Exit::Done
}

/// The context of a command.
pub(crate) struct CliContext {
    /// The folder of this identity.
    pub home: Home,
    /// True if it was named with `--home`.
    pub home_is_named: bool,
    /// The form of the output.
    pub out: Out,
}

impl CliContext {
    /// Returns the client of this home's running node.
    ///
    /// # Errors
    /// If no node is running.
    pub(crate) fn client(&self) -> Result<ApiClient, Fault> {
        ApiClient::for_home(&self.home)
    }

    /// Loads the settings: flags override the environment, which overrides the file.
    ///
    /// # Errors
    /// An unknown key, or an invalid value.
    pub(crate) fn load_settings(&self, flags: &[(&str, String)]) -> Result<LoadedSettings, Fault> {
        LoadedSettings::load(&self.home.config(), std::env::vars_os(), flags)
    }
}

fn run_command(cli: Cli, demo: Demo) -> Result<Exit, Fault> {
    cli.command.kernel().map_or(Ok(()), cpu::apply_kernel_choice)?;
    let name = cli.command.contact().map(str::to_owned);
    let done = dispatch_command(cli, demo);
    match name {
        Some(name) => done.map_err(|fault| show::name_contact(fault, &name)),
        None => done,
    }
}

/// Calls the function of a command.
///
/// The match has no arm for all others: a command that is added without a function does not compile.
fn dispatch_command(cli: Cli, demo: Demo) -> Result<Exit, Fault> {
    let Cli { json, home, command } = cli;
    let out = Out { json };
    // A closure, because some commands work without a home and must not need one.
    let context = || -> Result<CliContext, Fault> {
        let home_is_named = home.is_some();
        let home = Home::find(home.as_deref())?;
        paste::remember_home(&home);
        Ok(CliContext { home, home_is_named, out })
    };
    let done = |()| Exit::Done;
    match command {
        CliCommand::Completions { shell } => Ok(print_completions(shell)),
        CliCommand::Man { dir } => write_man_pages(&dir, out),
        // The options of the lab are its own, and stand after the word.
        CliCommand::Lab { .. } if json || home.is_some() => Err(lab::own_options()),
        CliCommand::Lab { words } => lab::exec_lab(&words),
        CliCommand::Link { what: LinkCommand::PairContact(asked), place } => {
            link::refuse_place(&place)?;
            link::pair_contact(&context()?, &asked)
        }
        CliCommand::Link { place, what } => {
            paste::remember_link(&place);
            link::run_link(out, &place, &what)
        }
        CliCommand::Guard { place, what } => {
            paste::remember_guard(&place);
            guard::run_guard(&context()?, &place, &what)
        }
        CliCommand::Openapi => {
            show::print_raw(crate::faces::web::describe_interface()?.trim_end());
            Ok(Exit::Done)
        }
        CliCommand::Up(up) => demo(&context()?, &up),
        CliCommand::Node { what } => serve::run_node(&context()?, &what),
        CliCommand::Relay { what } => relay::run_relay(&context()?, &what),
        CliCommand::Hibe { what } => hibe::run_hibe(&context()?, &what),
        CliCommand::Mesh { what } => mesh::run_mesh(&context()?, &what),
        CliCommand::Mixnet { what } => mixnet::run_mixnet(&context()?, &what),
        CliCommand::Ratchet { what } => ratchet::run_ratchet(&context()?, &what),
        CliCommand::Status => Ok(status::show_status(&context()?)),
        CliCommand::Doctor => Ok(person::run_doctor(&context()?)),
        CliCommand::Cpu(asked) => Ok(cpu::show_cpu(&context()?, &asked)),
        CliCommand::Send(send) => talk::run_send(&context()?, &send),
        CliCommand::Init(init) => person::init_identity(&context()?, &init).map(done),
        CliCommand::Backup { what } => backup::run_backup(&context()?, &what).map(done),
        CliCommand::Restore(file) => backup::restore_home(&context()?, &file).map(done),
        CliCommand::Move { what } => moving::move_identity(&context()?, &what).map(done),
        CliCommand::Export(export) => backup::export_thread(&context()?, &export).map(done),
        CliCommand::Purge(asked) => purge::purge_home(&context()?, &asked).map(done),
        CliCommand::Lock => person::lock_vault(&context()?).map(done),
        CliCommand::Unlock(key) => person::unlock_vault(&context()?, &key).map(done),
        CliCommand::Url => person::print_url(&context()?).map(done),
        CliCommand::Card(card) => person::run_card(&context()?, &card).map(done),
        CliCommand::Config { what } => person::run_config(&context()?, &what).map(done),
        CliCommand::Add(add) => people::add_contact(&context()?, &add).map(done),
        CliCommand::Contacts(asked) => people::list_contacts(&context()?, &asked).map(done),
        CliCommand::Requests { what } => people::run_requests(&context()?, what.as_ref()).map(done),
        CliCommand::Verify { name, matches } => {
            people::verify_contact(&context()?, &name, matches).map(done)
        }
        CliCommand::Set(set) => people::change_contact(&context()?, &set).map(done),
        CliCommand::Log(log) => talk::show_log(&context()?, &log).map(done),
        CliCommand::Outbox { what } => talk::run_outbox(&context()?, what.as_ref()).map(done),
        CliCommand::Carriers => talk::show_carriers(&context()?).map(done),
    }
}

fn print_completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mezza", &mut script);
    show::print_bytes(&script);
    Exit::Done
}

fn write_man_pages(dir: &std::path::Path, out: Out) -> Result<Exit, Fault> {
    manual::write_pages(dir).map_err(|error| {
        let text = format!("the man pages cannot be written: {error}");
        Fault::new(Exit::CannotWrite, text, "choose another folder")
    })?;
    let value = serde_json::json!({ "folder": show::format_path(dir) });
    out.print_either(&value, format!("man pages are in {}", dir.display()));
    Ok(Exit::Done)
}
