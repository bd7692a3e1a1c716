//! `mezza link pair-contact`: pair with the device of a contact, through the node.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::super::args::{LinkPlace, PairContactArgs};
use super::super::client::ApiClient;
use super::super::people::find_contact;
use super::super::{CliContext, show};
use super::ask_yes;
use mezza_host::api::json::{
    LinkDigitsRequest, LinkPairRequest, LinkPairingJson, LinkPairingState,
};
use mezza_host::api::{Exit, Fault};

/// The port of links.
pub(crate) const PORT: u16 = 4_796;
/// How often the node is asked for the next step.
const LOOK: Duration = Duration::from_millis(200);
/// The path of the interface.
const PATH: &str = "/v1/links/pairing";

/// Refuses the options of tunnels (MSG-80).
///
/// # Errors
/// Exit code 2 if one of them is given.
pub(crate) fn refuse_place(place: &LinkPlace) -> Result<(), Fault> {
    if place.state.is_none() && place.config.is_none() {
        return Ok(());
    }
    let text = "--state and --config belong to tunnels, and this pairing to the identity of a home";
    Err(Fault::new(Exit::Usage, text, "name the home with --home instead"))
}

/// Pairs with the device of a contact.
///
/// # Errors
/// The contact is unknown, the pairing fails, or the digits differ.
pub(crate) fn pair_contact(context: &CliContext, asked: &PairContactArgs) -> Result<Exit, Fault> {
    let client = context.client()?;
    let contact = find_contact(&client, &asked.contact)?;
    let name = show::clean_text(&contact.name);
    let address = asked.address.as_deref().map(|address| with_port(address, PORT));
    if address.is_none() && context.load_settings(&[])?.settings.link_listen.trim().is_empty() {
        let text = "this device accepts no connection: the setting link_listen is empty";
        let next = "write `link_listen = \"eth0\"` into config.toml with the name of your interface, \
                    start the node again, or connect to the other device with --address";
        return Err(Fault::new(Exit::Config, text, next));
    }
    let waits = address.is_none();
    let request = LinkPairRequest { contact: contact.id.clone(), address };
    client.act_with("POST", PATH, &request)?;
    context.out.print_line(if waits {
        format!("waiting for the device of {name}, which must connect to this one")
    } else {
        format!("connecting to the device of {name}")
    });
    let paired = follow_pairing(context, &client, &name);
    if paired.is_err() {
        // A pairing that nobody follows would keep the next one out.
        let _ = client.act("DELETE", PATH);
    }
    paired?;
    let handle = show::handle_as(&contact, Some(&asked.contact));
    let line = json!({ "event": "paired", "contact": contact.id });
    context.out.print_either(
        &line,
        format!("paired with the device of {name}\nnext: `mezza set {handle} --carriers link`"),
    );
    Ok(Exit::Done)
}

/// Follows the pairing to its end, and asks the user about the digits.
fn follow_pairing(context: &CliContext, client: &ApiClient, name: &str) -> Result<(), Fault> {
    let mut is_asked = false;
    loop {
        let pairing: LinkPairingJson = client.get(PATH)?;
        match pairing.state {
            LinkPairingState::Paired => return Ok(()),
            LinkPairingState::Failed | LinkPairingState::None => {
                let trouble = pairing.trouble.unwrap_or_else(|| "the vault was locked".into());
                let text = format!("not paired: {trouble}");
                return Err(Fault::new(Exit::No, text, "run it again on both devices"));
            }
            LinkPairingState::Digits if !is_asked => {
                is_asked = true;
                let digits = pairing.digits.unwrap_or_default();
                let line = json!({ "event": "digits", "digits": digits });
                context.out.print_either(&line, format!("digits {digits}"));
                let question = format!("does the device of {name} show the same digits? [y/N] ");
                let equal = ask_yes(&question);
                let answer = LinkDigitsRequest { equal };
                client.act_with("POST", "/v1/links/pairing/digits", &answer)?;
            }
            LinkPairingState::Waiting | LinkPairingState::Digits => sleep(LOOK),
        }
    }
}

/// Adds a port to an address without one.
pub(crate) fn with_port(address: &str, port: u16) -> String {
    let address = address.trim();
    // A link-local address of IPv6 ends with its interface.
    let ip = address.split_once('%').map_or(address, |(ip, _)| ip);
    let is_bare_v6 = ip.parse::<std::net::Ipv6Addr>().is_ok();
    let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    match (is_bare_v6, has_port) {
        (true, _) => format!("[{address}]:{port}"),
        (false, true) => address.into(),
        (false, false) => format!("{address}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_has_the_port_of_links() {
        let cases = [
            ("10.9.0.2", "10.9.0.2:4796"),
            ("10.9.0.2:99", "10.9.0.2:99"),
            ("ben.local", "ben.local:4796"),
            ("fe80::2", "[fe80::2]:4796"),
            ("[fe80::2]", "[fe80::2]:4796"),
            ("[fe80::2]:99", "[fe80::2]:99"),
            ("fe80::2%eth0", "[fe80::2%eth0]:4796"),
            ("[fe80::2%eth0]:99", "[fe80::2%eth0]:99"),
        ];
        for (typed, whole) in cases {
            assert_eq!(with_port(typed, PORT), whole);
        }
    }
}
