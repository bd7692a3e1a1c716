//! The command line: every command, its texts, its exit codes (CLI-1 to CLI-4).
//!
//! Commands about notes and contacts ask a running node over its HTTP interface; `init`,
//! `card show`, `config` and `relay` work on their own.

pub(crate) mod args;
pub(crate) mod backup;
pub(crate) mod client;
pub(crate) mod cpu;
pub(crate) mod follow;
pub(crate) mod hibe;
pub(crate) mod lab;
pub(crate) mod link;
pub(crate) mod mesh;
pub(crate) mod mixnet;
pub(crate) mod moving;
pub(crate) mod people;
pub(crate) mod person;
pub(crate) mod purge;
pub(crate) mod ratchet;
pub(crate) mod relay;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod talk;
pub(crate) mod whom;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::faces::config::LoadedSettings;
use args::{Cli, CliCommand};
use client::ApiClient;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::Home;
use mezza_host::process::memory;
use show::Out;

/// The function behind `mezza up`. It is handed in, because `demo` depends on the command line.
pub(crate) type Demo = fn(&CliContext, &args::UpArgs) -> Result<Exit, Fault>;

/// Runs the program.
pub(crate) fn main(demo: Demo) -> ExitCode {
    memory::protect_memory();
    let (done, json) = match Cli::try_parse() {
        Ok(cli) => {
            let json = cli.json;
            (run_command(cli, demo), json)
        }
        Err(said) => (Ok(print_help(&said)), false),
    };
    // An answer that got lost on its way is no answer.
    match done.and_then(|exit| show::lost_output().map_or(Ok(exit), Err)) {
        Ok(exit) => exit.into(),
        Err(fault) => {
            show::print_fault(&fault, json);
            fault.code.into()
        }
    }
}

/// Prints the help that was asked for, or what is wrong with the words.
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
    /// Where answers go.
    pub out: Out,
}

impl CliContext {
    /// The running node of this home.
    ///
    /// # Errors
    /// If none is running.
    pub(crate) fn client(&self) -> Result<ApiClient, Fault> {
        ApiClient::for_home(&self.home)
    }

    /// The settings: flags, then environment, then file.
    ///
    /// # Errors
    /// An unknown key, or a value that cannot be.
    pub(crate) fn load_settings(&self, flags: &[(&str, String)]) -> Result<LoadedSettings, Fault> {
        LoadedSettings::load(&self.home.config(), std::env::vars_os(), flags)
    }
}

fn run_command(cli: Cli, demo: Demo) -> Result<Exit, Fault> {
    let out = Out { json: cli.json };
    cli.command.kernel().map_or(Ok(()), cpu::apply_kernel_choice)?;
    match cli.command {
        CliCommand::Completions { shell } => return Ok(print_completions(shell)),
        CliCommand::Man { dir } => return write_man_pages(&dir, out),
        CliCommand::Lab { words } => {
            if out.json || cli.home.is_some() {
                return Err(lab::own_options());
            }
            return lab::exec_lab(&words);
        }
        CliCommand::Link { place, what } => return link::run_link(out, &place, &what),
        CliCommand::Openapi => {
            show::print_raw(crate::faces::web::describe_interface()?.trim_end());
            return Ok(Exit::Done);
        }
        _ => {}
    }
    let home = Home::find(cli.home.as_deref())?;
    let context = CliContext { home, home_is_named: cli.home.is_some(), out };
    let name = cli.command.contact().map(str::to_owned);
    match name {
        Some(name) => run_contact_command(&context, &cli.command)
            .map_err(|fault| show::name_contact(fault, &name)),
        None => run_other_command(&context, cli.command, demo),
    }
}

/// The commands about one contact, whom they name.
fn run_contact_command(context: &CliContext, command: &CliCommand) -> Result<Exit, Fault> {
    let done = match command {
        CliCommand::Contacts(asked) => people::list_contacts(context, asked),
        CliCommand::Verify { name, matches } => people::verify_contact(context, name, *matches),
        CliCommand::Set(set) => people::change_contact(context, set),
        CliCommand::Send(send) => return talk::run_send(context, send),
        CliCommand::Log(log) => talk::show_log(context, log),
        _ => Err(Fault::bug("a command names a contact and is not about one")),
    };
    done.map(|()| Exit::Done)
}

/// All other commands on a home.
fn run_other_command(context: &CliContext, command: CliCommand, demo: Demo) -> Result<Exit, Fault> {
    let done = match command {
        CliCommand::Up(up) => return demo(context, &up),
        CliCommand::Node { what } => return serve::run_node(context, &what),
        CliCommand::Relay { what } => return relay::run_relay(context, &what),
        CliCommand::Hibe { what } => return hibe::run_hibe(context, &what),
        CliCommand::Mesh { what } => return mesh::run_mesh(context, &what),
        CliCommand::Mixnet { what } => return mixnet::run_mixnet(context, &what),
        CliCommand::Ratchet { what } => return ratchet::run_ratchet(context, &what),
        CliCommand::Doctor => return Ok(person::run_doctor(context)),
        CliCommand::Cpu(asked) => return Ok(cpu::show_cpu(context, &asked)),
        CliCommand::Init(init) => person::init_identity(context, &init),
        CliCommand::Backup { what } => backup::run_backup(context, &what),
        CliCommand::Restore(file) => backup::restore_home(context, &file),
        CliCommand::Move { what } => moving::move_identity(context, &what),
        CliCommand::Export(export) => backup::export_thread(context, &export),
        CliCommand::Purge(asked) => purge::purge_home(context, &asked),
        CliCommand::Lock => person::lock_vault(context),
        CliCommand::Unlock(key) => person::unlock_vault(context, &key),
        CliCommand::Url => person::print_url(context),
        CliCommand::Card(card) => person::run_card(context, &card),
        CliCommand::Config { what } => person::run_config(context, &what),
        CliCommand::Add(add) => people::add_contact(context, &add),
        CliCommand::Requests { what } => people::run_requests(context, what.as_ref()),
        CliCommand::Outbox { what } => talk::run_outbox(context, what.as_ref()),
        CliCommand::Carriers => talk::show_carriers(context),
        command => run_contact_command(context, &command).map(drop),
    };
    done.map(|()| Exit::Done)
}

fn print_completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mezza", &mut script);
    show::print_bytes(&script);
    Exit::Done
}

fn write_man_pages(dir: &std::path::Path, out: Out) -> Result<Exit, Fault> {
    let written = std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir));
    written.map_err(|error| {
        let text = format!("the man pages cannot be written: {error}");
        Fault::new(Exit::CannotWrite, text, "choose another folder")
    })?;
    let value = serde_json::json!({ "folder": show::format_path(dir) });
    out.print_either(&value, format!("man pages are in {}", dir.display()));
    Ok(Exit::Done)
}
