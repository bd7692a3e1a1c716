//! `mezza mixnet config`.

mod said;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use data_encoding::HEXLOWER;
use mezza_mixnet::config::{Config, ServicePolicy, SignatureSet, SignedConfig};
use mezza_mixnet::privacy::NetworkPromise;
use serde_json::{Value, json};

use super::serve;
use crate::faces::cli::args::MixnetConfigCommand;
use crate::faces::cli::show::{self, Out};
use mezza_host::api::network_uri::NetworkUri;
use mezza_host::api::words::mixnet::law_name;
use mezza_host::api::{Exit, Fault, figures};
use mezza_host::clock;
use mezza_host::process::home::private;
use mezza_servers::mixnet::key::ServerKey;
use mezza_servers::mixnet::network::{self, ConfigArchive};
use mezza_servers::mixnet::written::{self, Predecessor};

/// `mezza mixnet config ..`
pub(super) fn run_config(out: Out, what: &MixnetConfigCommand) -> Result<Exit, Fault> {
    match what {
        MixnetConfigCommand::Example => {
            show::print_raw(written::EXAMPLE.trim_end());
            Ok(Exit::Done)
        }
        MixnetConfigCommand::New { file, after, out: to } => {
            new(out, file, after.as_deref(), to.as_deref())
        }
        MixnetConfigCommand::Sign { file, key, after, yes } => {
            sign_config(out, file, key, after.as_deref(), *yes)
        }
        MixnetConfigCommand::Verify { files } => verify_chain(out, files.iter().map(AsRef::as_ref)),
        MixnetConfigCommand::Show { file, qr } => show_config(out, file, *qr),
    }
}

/// Shows a config. For the first config it also shows the link, which pins its hash.
fn show_config(out: Out, file: &Path, qr: bool) -> Result<Exit, Fault> {
    let signed = network::read_config(file)?;
    print_config(out, &signed);
    let config = signed.config();
    if config.seq == 0 {
        let address = config.coordinator.address.clone();
        serve::say_link(out, &NetworkUri { genesis: config.hash(), address }, qr)?;
    } else {
        out.print_line(
            "link     is that of the first config, which `mezza mixnet config show` prints",
        );
    }
    Ok(Exit::Done)
}

/// Writes the config to a file or to standard output, and the comments on it to the other one.
fn new(out: Out, file: &Path, after: Option<&Path>, to: Option<&Path>) -> Result<Exit, Fault> {
    let text = fs::read_to_string(file).map_err(|error| private::cannot_read(file, &error))?;
    let before = after.map(network::read_config).transpose()?;
    let now = clock::now();
    let predecessor = before.as_ref().map(|before| Predecessor { config: before.config(), now });
    let config = written::read_after(&text, predecessor)?;
    if let Some(Predecessor { config: before, .. }) = predecessor {
        check_prev(file, &config, before)?;
        network::check_succession(before, &config, now)?;
    }
    check_promise(&config)?;
    let signed = SignedConfig::new(config);
    let bytes = signed.encode();
    if let Some(to) = to {
        private::replace_shared(to, &bytes)?;
        print_config(out, &signed);
    } else if out.json {
        let mut value = describe_config(&signed);
        value["bytes"] = HEXLOWER.encode(&bytes).into();
        out.print_value(&value);
    } else {
        show::print_bytes(&bytes);
        for line in list_lines(&signed) {
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }
    Ok(Exit::Done)
}

fn print_config(out: Out, signed: &SignedConfig) {
    out.print_value(&describe_config(signed));
    for line in list_lines(signed) {
        out.print_line(line);
    }
}

/// Signs a config after showing its values: the first config of a network as a whole, a later one
/// compared with the one before it (MIX-47, MIX-48).
fn sign_config(
    out: Out,
    file: &Path,
    key: &Path,
    after: Option<&Path>,
    yes: bool,
) -> Result<Exit, Fault> {
    let mut signed = network::read_config(file)?;
    let before = after.map(network::read_config).transpose()?;
    check_follows(file, &signed, before.as_ref())?;
    let told = before.as_ref().map_or_else(
        || list_lines(&signed),
        |before| list_difference(before.config(), signed.config()),
    );
    let key = ServerKey::load(key)?;
    if network::sign_config(&mut signed, before.as_ref(), &key) == 0 {
        return Err(not_a_guardian(signed.config(), &key));
    }
    for line in &told {
        out.print_line(line);
    }
    if !yes {
        confirm_signing(out)?;
    }
    // Replace the file atomically: a full disk must not lose signatures of other guardians.
    private::replace_shared(file, &signed.encode())?;
    let (valid, needed) = count_valid(&signed, SignatureSet::Own);
    let text = format!("signed: {valid} of {needed} needed guardian signatures");
    out.print_either(&json!({ "valid": valid, "needed": needed, "shown": told }), text);
    Ok(Exit::Done)
}

/// Refuses a config that does not continue the config before (MIX-86).
fn check_follows(
    path: &Path,
    signed: &SignedConfig,
    before: Option<&SignedConfig>,
) -> Result<(), Fault> {
    let config = signed.config();
    let file = path.display();
    match before {
        None if config.seq == 0 => Ok(()),
        None => {
            let text = format!("{file} changes another config, and only what it changes is shown");
            Err(Fault::new(Exit::Usage, text, "name the config before it with `--after`"))
        }
        Some(before) => {
            check_prev(path, config, before.config())?;
            network::check_succession(before.config(), config, clock::now())
        }
    }
}

/// Refuses a config that names another predecessor.
fn check_prev(file: &Path, config: &Config, before: &Config) -> Result<(), Fault> {
    if config.prev == before.hash() {
        return Ok(());
    }
    let text = format!("{} does not follow that config", file.display());
    Err(Fault::new(Exit::No, text, "name the config whose hash is its `prev`"))
}

/// Returns the changes that a guardian signs, compared with the config before.
fn list_difference(before: &Config, next: &Config) -> Vec<String> {
    let mut lines = vec![
        format!("hash     {}", hex(&next.hash())),
        format!("changes  config {}, {}", before.seq, hex(&before.hash())),
    ];
    lines.extend(said::list_changes(before, next));
    lines.extend(said::list_consequences(next));
    lines
}

/// Asks the user. Fails without a terminal.
fn confirm_signing(out: Out) -> Result<(), Fault> {
    let asked = show::ask_person(out, "Sign this?").ok_or_else(|| {
        let text = "nobody is here to say whether this is to be signed";
        Fault::new(Exit::Usage, text, "read it, then say so with `--yes`")
    })?;
    if asked {
        return Ok(());
    }
    let next = "ask whoever made it why it is so, then sign or leave it";
    Err(Fault::new(Exit::No, "nothing was signed", next))
}

fn not_a_guardian(config: &Config, key: &ServerKey) -> Fault {
    let public = key.public();
    let mut servers = [&config.coordinator.key, &config.bucket.key].into_iter();
    let server = servers.any(|key| *key == public) || config.mix_keys().any(|key| *key == public);
    let text = if server {
        "this is the key of a server, and servers do not sign configs"
    } else {
        "this key is no guardian of the config"
    };
    Fault::new(Exit::No, text, "use a key whose public half stands under `guardians`")
}

fn verify_chain<'a>(out: Out, files: impl Iterator<Item = &'a Path>) -> Result<Exit, Fault> {
    let network = ConfigArchive::load(files)?;
    let chain = &network.chain;
    let genesis = hex(&chain.genesis_hash());
    let head = hex(&chain.head_hash());
    let in_force = chain.current_config(clock::now()).map(|config| config.seq);
    out.print_value(&json!({ "genesis": genesis, "head": head, "in_force": in_force }));
    out.print_line(format!("genesis  {genesis}"));
    out.print_line(format!("head     {head}, number {}", chain.head_config().seq));
    out.print_line(match in_force {
        Some(seq) => format!("in force number {seq}"),
        None => "in force none: the time of each is over, or has not come".into(),
    });
    Ok(Exit::Done)
}

fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Returns how many guardians of a set have signed, and how many must.
fn count_valid(signed: &SignedConfig, set: SignatureSet) -> (usize, usize) {
    let config = signed.config();
    (signed.count_signatures(set, &config.guardians), config.threshold.into())
}

/// Returns the content of a config as JSON.
fn describe_config(signed: &SignedConfig) -> Value {
    let config = signed.config();
    let (valid, needed) = count_valid(signed, SignatureSet::Own);
    let mix = |mix: &mezza_mixnet::config::MixServer| json!({ "key": hex(&mix.server.key), "address": mix.server.address, "operator": mix.operator });
    json!({
        "hash": hex(&config.hash()), "network": hex(&config.network.0), "seq": config.seq,
        "prev": hex(&config.prev), "threshold": config.threshold,
        "guardians": config.guardians.iter().map(|key| hex(key)).collect::<Vec<_>>(),
        "valid_from_ms": config.valid_from.as_ms(), "valid_until_ms": config.valid_until.as_ms(),
        "entry": config.coordinator.address, "entry_key": hex(&config.coordinator.key),
        "bucket": config.bucket.address, "bucket_key": hex(&config.bucket.key),
        "mixes": config.mixes.iter().map(mix).collect::<Vec<_>>(), "users_max": config.users_max, "promise": describe_promise(config),
        "services": config.services.iter().map(|policy| describe_service(config, policy)).collect::<Vec<_>>(),
        "signatures": { "valid": valid, "needed": needed },
    })
}

/// Returns the promise over one year of all services as JSON.
fn describe_promise(config: &Config) -> Value {
    let promise = NetworkPromise::from_config(config);
    json!({
        "epsilon": promise.epsilon, "delta": promise.delta, "none": promise.is_none(),
        "kept": promise.is_kept(), "delta_reached": promise.reached_after(1),
        "delta_after_two_years": promise.reached_after(2),
    })
}

/// Refuses a promise that the noise does not keep over the rounds of all services together.
fn check_promise(config: &Config) -> Result<(), Fault> {
    let promise = NetworkPromise::from_config(config);
    if promise.is_none() || promise.is_kept() {
        return Ok(());
    }
    let text = format!(
        "config: over a year of all services the noise reaches delta {:.2e}, and {:.2e} is promised",
        promise.reached_after(1),
        promise.delta
    );
    let next = "take more noise, fewer rounds or a larger delta (`preset = \"standard\"` keeps its \
                promise), or promise nothing with `rounds = 4_294_967_295`";
    Err(Fault::new(Exit::Malformed, text, next))
}

fn describe_service(config: &Config, policy: &ServicePolicy) -> Value {
    let (epsilon, delta) = figures::promised(policy);
    json!({
        "id": policy.service.number(), "base_round": policy.base_round,
        "base_time_ms": policy.base_time.as_ms(), "interval_ms": policy.interval_ms, "ask_ms": policy.ask_ms,
        "lead_ms": policy.lead_ms, "collect_ms": policy.collect_ms,
        "mix_limit_ms": policy.mix_limit_ms, "slots": policy.slots, "buckets": policy.buckets,
        "mode": law_name(policy.mode), "mu": policy.mu, "scale": policy.scale,
        "trap_singles": policy.traps.singles, "trap_pairs": policy.traps.pairs,
        "rounds": policy.rounds,
        "epsilon": epsilon, "delta": delta,
        "client_day_bytes": figures::day_bytes(config, policy),
    })
}

/// Returns the content of a config as lines for the user.
fn list_lines(signed: &SignedConfig) -> Vec<String> {
    let config = signed.config();
    let (valid, needed) = count_valid(signed, SignatureSet::Own);
    let hash = format!("hash     {}", hex(&config.hash()));
    let signatures = format!("signed   {valid} of {needed} needed guardian signatures");
    let said = said::list_values(config).into_iter().chain(said::list_consequences(config));
    [hash].into_iter().chain(said).chain([signatures]).collect()
}
