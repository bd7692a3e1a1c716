//! The relay's frames: every case of `vectors/messenger/frames`, right and wrong.

use std::process::Command;

use mezza_messenger::relay_wire::{
    ClientFrame, MailboxKind, RawOneTimePrekey, RelayDeframer, RelayFrame,
};
use mezza_testing::{hex, read_cases, vector_folder};

#[test]
fn every_case_decodes_as_it_says() {
    for case in read_cases("messenger/frames", 47) {
        let (result, frame) = meaning(case.text("side"), &case.bytes("bytes"));
        assert_eq!(result, case.text("result"), "{}", case.name());
        assert_eq!(frame.as_deref(), case.texts("frame").next(), "{}", case.name());
    }
}

/// How a stream ends, and what its one frame says. A right frame encodes to the same bytes.
fn meaning(side: &str, bytes: &[u8]) -> (&'static str, Option<String>) {
    let mut input = bytes;
    let frame = match RelayDeframer::default().next_frame(&mut input) {
        Err(_) => return ("refused", None),
        Ok(None) => return ("short", None),
        Ok(Some(frame)) => frame,
    };
    assert!(input.is_empty());
    let found = match side {
        "client" => ClientFrame::decode(&frame).map(|f| (client(&f), f.encode().unwrap())),
        _ => RelayFrame::decode(&frame).map(|f| (relay(&f), f.encode().unwrap())),
    };
    match found {
        Err(_) => ("refused", None),
        Ok((text, again)) => {
            assert_eq!(again, bytes, "{text}");
            ("ok", Some(text))
        }
    }
}

fn client(frame: &ClientFrame) -> String {
    match frame {
        ClientFrame::Open { req, token, kind } => {
            let kind = u8::from(*kind == MailboxKind::Intro);
            format!("OPEN req={req} token={} kind={kind}", hex(token.expose()))
        }
        ClientFrame::Close { req, token } => {
            format!("CLOSE req={req} token={}", hex(token.expose()))
        }
        ClientFrame::Put { req, address, ttl_h, envelope } => {
            let address = hex(&address.0);
            let envelope = hex(envelope);
            format!("PUT req={req} address={address} ttl_h={ttl_h} envelope={envelope}")
        }
        ClientFrame::Watch { req, number, token } => {
            format!("WATCH req={req} box={number} token={}", hex(token.expose()))
        }
        ClientFrame::Taken { number, mails } => {
            let mails: Vec<_> = mails.iter().map(u32::to_string).collect();
            format!("TAKEN box={number} mails={}", mails.join(","))
        }
        ClientFrame::BundleSet { req, token, fresh, bundle, keys } => {
            let token = hex(token.expose());
            let fresh = u8::from(*fresh);
            let bundle = hex(bundle);
            let keys: Vec<_> = keys.iter().map(key).collect();
            let keys = keys.join(",");
            format!("BUNDLE_SET req={req} token={token} fresh={fresh} bundle={bundle} keys={keys}")
        }
        ClientFrame::BundleGet { req, address } => {
            format!("BUNDLE_GET req={req} address={}", hex(&address.0))
        }
        ClientFrame::Ping => "PING".to_owned(),
    }
}

fn relay(frame: &RelayFrame) -> String {
    match frame {
        RelayFrame::Hello { version, now_ms, envelope_bytes_max, ttl_h_max } => format!(
            "HELLO version={version} now_ms={now_ms} envelope_bytes_max={envelope_bytes_max} \
             ttl_h_max={ttl_h_max}"
        ),
        RelayFrame::Mail { number, nr, envelope } => {
            format!("MAIL box={number} nr={nr} envelope={}", hex(envelope))
        }
        RelayFrame::Bundle { req, bundle, key: one } => {
            let one = one.as_ref().map(key).unwrap_or_default();
            format!("BUNDLE req={req} bundle={} key={one}", hex(bundle))
        }
        RelayFrame::Stock { number, left } => format!("STOCK box={number} left={left}"),
        RelayFrame::Displaced { number, over } => {
            format!("DISPLACED box={number} over={}", u8::from(*over))
        }
        RelayFrame::Done { req, code, retry_s } => {
            format!("DONE req={req} code={} retry_s={retry_s}", code.to_byte())
        }
        RelayFrame::Ping => "PING".to_owned(),
    }
}

fn key(key: &RawOneTimePrekey) -> String {
    format!("{}/{}", key.id, hex(&key.key))
}

#[test]
fn the_second_implementation_agrees() {
    let script = vector_folder("messenger/frames").join("reference.py");
    match Command::new("python3").arg("-B").arg(script).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => {
            println!("SKIPPED frames in Python: {error}; apt install python3");
            let required = std::env::var_os("MEZZA_REQUIRE_ALL").is_some_and(|v| v == "1");
            assert!(!required, "MEZZA_REQUIRE_ALL=1, but there is no python3");
        }
    }
}
