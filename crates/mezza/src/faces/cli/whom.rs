//! Resolves a contact named on the command line. Commands cannot be undone, so nothing is guessed:
//! only a number or a whole name is accepted (CLI-5).

use mezza_messenger::name::{fold_name, looks_like};

use super::show;
use mezza_host::api::json::ContactJson;
use mezza_host::api::{Exit, Fault};

/// Maximum number of suggested contacts for an unknown name.
const PROPOSED_MAX: usize = 3;

/// Returns the contact that `word` names: by number, written `#2` or `2`, or by whole name in any
/// case and Unicode form. A word with `#` is never a name.
///
/// # Errors
/// Exit code 2 for no word at all, 66 if no contact or several match; contacts whose names begin
/// with the word are suggested.
pub(crate) fn choose_contact<'a>(
    all: &'a [ContactJson],
    word: &str,
) -> Result<&'a ContactJson, Fault> {
    let word = word.trim();
    if word.is_empty() {
        let next = "write a name or a number; `mezza contacts` lists both";
        return Err(Fault::new(Exit::Usage, "this names no contact", next));
    }
    let number = word.strip_prefix('#');
    let is_meant = |contact: &&ContactJson| match number {
        Some(number) => contact.id == number,
        None => contact.id == word || looks_like(&contact.name, word),
    };
    let meant: Vec<&ContactJson> = all.iter().filter(is_meant).collect();
    match meant[..] {
        [one] => Ok(one),
        [] => Err(unknown_contact(all, word)),
        [one, ..] => {
            let text = format!("{} may be {}", show::clean_text(word), list_names(&meant));
            let next = format!("name it by its number, like {}", show::handle(one));
            Err(Fault::new(Exit::NotFound, text, next))
        }
    }
}

fn unknown_contact(all: &[ContactJson], word: &str) -> Fault {
    let text = format!("no contact is called {}", show::clean_text(word));
    let begins = fold_name(word);
    let alike = all.iter().filter(|contact| fold_name(&contact.name).starts_with(&begins));
    let alike: Vec<&ContactJson> = alike.take(PROPOSED_MAX + 1).collect();
    let next = match alike.len() {
        1..=PROPOSED_MAX => format!("did you mean {}?", list_names(&alike)),
        _ => "`mezza contacts` lists those you have".into(),
    };
    Fault::new(Exit::NotFound, text, next)
}

fn list_names(contacts: &[&ContactJson]) -> String {
    let name =
        |contact: &&ContactJson| format!("{} (#{})", show::clean_text(&contact.name), contact.id);
    contacts.iter().map(name).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn contacts(names: &[&str]) -> Vec<ContactJson> {
        let contact = |(at, name): (usize, &&str)| {
            serde_json::from_value(json!({
                "id": (at + 1).to_string(), "name": name, "claimed_name": name, "standing": "open",
                "verified": null, "suites": [], "relay": null, "absent_parts": [], "unread": 0,
                "missing": 0, "trouble": null, "namesake": false, "last": null,
                "policy": { "carriers": ["relay"], "pin": 1, "fallback": "none", "timer_s": 0,
                            "delivered": true, "read": false },
            }))
            .unwrap()
        };
        names.iter().enumerate().map(contact).collect()
    }

    fn meant(names: &[&str], word: &str) -> Result<String, (u8, String)> {
        let all = contacts(names);
        let found = choose_contact(&all, word).map(|contact| contact.id.clone());
        found.map_err(|fault| (fault.code.number(), fault.to_string()))
    }

    #[test]
    fn cli_5_a_whole_name_or_a_number_acts_and_nothing_else() {
        let names = ["Bob", "Bobby", "Zoë"];
        for (word, id) in [
            ("Bob", "1"),
            ("bOB", "1"),
            (" bob ", "1"),
            ("#2", "2"),
            ("2", "2"),
            ("zoe\u{308}", "3"),
        ] {
            assert_eq!(meant(&names, word), Ok(id.into()), "{word}");
        }
        for word in ["", " ", "\t"] {
            let (code, text) = meant(&["Bob"], word).unwrap_err();
            assert_eq!(code, 2, "{text}");
        }
        for word in ["#", "#9", "9", "B", "o", "#Bob", "Bob#1"] {
            assert_eq!(meant(&names, word).unwrap_err().0, 66, "{word}");
        }
    }

    #[test]
    fn cli_5_a_beginning_is_answered_with_a_question() {
        let said = |names: &[&str], word| meant(names, word).unwrap_err().1;
        let question = "no contact is called b; did you mean bob (#1)?";
        assert_eq!(said(&["bob", "Zoë"], "b"), question);
        assert_eq!(
            said(&["Bob", "Bobby"], "BO"),
            "no contact is called BO; did you mean Bob (#1) or Bobby (#2)?"
        );
        let list = "no contact is called b; `mezza contacts` lists those you have";
        assert_eq!(said(&["b1", "b2", "b3", "b4"], "b"), list);
        assert_eq!(said(&["Zoë"], "b"), list);
    }

    #[test]
    fn cli_5_a_word_that_may_be_two_contacts_acts_on_none() {
        let said = |names: &[&str], word| meant(names, word).unwrap_err();
        let text = "Eve may be Eve (#1) or eve (#2); name it by its number, like '#1'".into();
        assert_eq!(said(&["Eve", "eve"], "Eve"), (66, text));
        // The name of one contact equals the number of another.
        assert_eq!(said(&["2", "Bob"], "2").0, 66);
        assert_eq!(meant(&["#2", "Bob"], "#2"), Ok("2".into()));
    }
}
