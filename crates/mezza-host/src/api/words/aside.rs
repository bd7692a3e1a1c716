//! Texts for stored records that did not load, and the next step.

use mezza_messenger::view::{Part, SetAside};

use super::{format_count, mesh, mixnet, relay};
use crate::api::json::HealthLine;

/// Returns one health line for quarantined records; no two parts have the same name.
pub fn aside_line(aside: &SetAside) -> HealthLine {
    let (name, what, next) = part_words(aside);
    let notes = match aside.notes {
        0 => String::new(),
        n => format!(", {} among them", format_count(n as u64, "note", "notes")),
    };
    let records = format_count(aside.records as u64, "record", "records");
    let bytes = format_count(aside.bytes as u64, "byte", "bytes");
    let text = format!(
        "{what} could not be read and is quarantined, unchanged ({records}{notes}, {bytes})"
    );
    HealthLine::bad(&name, &text, next)
}

/// Name and description of a part, and the next step.
pub(super) type PartWords = (String, String, &'static str);

fn part_words(aside: &SetAside) -> PartWords {
    const UPDATE: &str = "install the newest version; if the line stays, keep a copy of the vault \
                          folder and tell us";
    let called = aside.name.as_deref();
    match aside.part {
        Part::Contact(id) => {
            let name = format!("contact {}", id.0);
            let what = called.map_or_else(|| name.clone(), |called| format!("{name} ({called})"));
            let next = "install the newest version; until then add the contact again from its \
                        card, and keep a copy of the vault folder";
            (name, what, next)
        }
        Part::Inviter(id) => {
            let name = format!("guest {}", id.0);
            (name, "somebody who invites".into(), UPDATE)
        }
        Part::Network => mixnet::network_aside(called),
        Part::NetworkRows => mixnet::rows_aside(called),
        Part::LeftNetworks => mixnet::left_aside(called),
        Part::Mailbox(id) => relay::mailbox_aside(id),
        Part::Notes => ("notes".into(), "a part of the notes".into(), UPDATE),
        Part::Parcels => {
            let next = "nothing is lost that has no receipt: it is sent again";
            ("parcels".into(), "what was on its way".into(), next)
        }
        Part::KeyTree => mesh::tree_aside(),
        Part::Prekeys => {
            let next = "publish fresh ones with `mezza ratchet keys --rotate`";
            ("prekeys".into(), "a part of the own prekeys".into(), next)
        }
        Part::Bundles => {
            let next = "nothing is to be done: they are fetched again";
            ("bundles".into(), "a contact's keys for an invitation".into(), next)
        }
        Part::Sealed => {
            let next = "if a copy of the vault folder has them, put it back as a whole; what they \
                        held is lost else, and the rest goes on";
            ("rows".into(), "what is damaged on the disk".into(), next)
        }
        Part::Other => ("records".into(), "what is none of this version".into(), UPDATE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_messenger::ContactId;

    #[test]
    fn a_line_names_the_part_and_ends_with_the_next_step() {
        let part = Part::Contact(ContactId(3));
        let name = Some("Bob".into());
        let line = aside_line(&SetAside { part, name, records: 1_240, notes: 17, bytes: 98_000 });
        assert_eq!((line.name.as_str(), line.ok), ("contact 3", false));
        assert_eq!(
            line.text,
            "contact 3 (Bob) could not be read and is quarantined, unchanged (1,240 records, 17 \
             notes among them, 98,000 bytes)"
        );
        assert!(line.next.is_some_and(|next| next.starts_with("install the newest version")));
        let name = Some("mix.example:7000".into());
        let line =
            aside_line(&SetAside { part: Part::Network, name, records: 2, notes: 0, bytes: 300 });
        assert!(line.text.starts_with("the mixnet mix.example:7000 could not be read"));
        let part = Part::NetworkRows;
        let name = Some("mix.example:7000".into());
        let line = aside_line(&SetAside { part, name, records: 1, notes: 0, bytes: 2_048 });
        assert_eq!(line.name, "mixnet rows");
        assert_eq!(
            line.text,
            "a part of what happened in the mixnet mix.example:7000 could not be read and is \
             quarantined, unchanged (1 record, 2,048 bytes)"
        );
        assert!(line.next.is_some_and(|next| next.starts_with("nothing is to be done")));
    }
}
