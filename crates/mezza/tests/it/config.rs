//! Settings in four layers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;

use mezza::testing::api::{Exit, Fault};
use mezza::testing::faces::config::{self, LoadedSettings, Settings};
use tempfile::tempdir;

use crate::program;

fn load(
    file: &str,
    environment: &[(&str, &str)],
    flags: &[(&str, &str)],
) -> Result<LoadedSettings, Fault> {
    let dir = tempdir().unwrap();
    let path = dir.path().join("config.toml");
    if !file.is_empty() {
        fs::write(&path, file).unwrap();
    }
    let environment = environment.iter().map(|(k, v)| ((*k).into(), (*v).into()));
    let flags: Vec<_> = flags.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
    LoadedSettings::load(&path, environment, &flags)
}

fn refusal(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
    let fault = load(file, environment, flags).unwrap_err();
    assert_eq!(fault.code, Exit::Config, "{fault}");
    fault.to_string()
}

#[test]
fn without_anything_the_defaults_hold() {
    let config = load("", &[("PATH", "/bin"), ("MEZZA_HOME", "/m"), ("MEZZA_SEED", "4")], &[]);
    assert_eq!(config.unwrap().settings, Settings::default());
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = "web_port = 1\nidle_lock_s = 60\nlog = \"info\"\n";
    let environment = [("MEZZA_WEB_PORT", "2"), ("MEZZA_IDLE_LOCK_S", "0"), ("LANG", "C")];
    let config = load(file, &environment, &[("web_port", "3"), ("observe", "true")]).unwrap();
    let expected = Settings {
        web_port: 3,
        idle_lock_s: 0,
        log: "info".to_owned(),
        observe: true,
        ..Settings::default()
    };
    assert_eq!(config.settings, expected);
    insta::assert_snapshot!(config.format_settings(true), @r#"
    idle_lock_s = 0                          # environment
    link_listen = ""                         # default
    log = "info"                             # config.toml
    mesh = false                             # default
    mesh_ble = ""                            # default
    mesh_if = ""                             # default
    mesh_life = "minute"                     # default
    mesh_net = ""                            # default
    mesh_port = 7106                         # default
    observe = true                           # flag
    relay_boxes_max = 1000000                # default
    relay_connections_max = 256              # default
    relay_listen = "127.0.0.1:7101"          # default
    relay_opens_day_max = 4000               # default
    relay_public = ""                        # default
    relay_put_bytes_day_max = 1073741824     # default
    relay_store = "sqlite"                   # default
    relay_store_bytes_max = 10737418240      # default
    relay_with_node = false                  # default
    web_port = 3                             # flag
    "#);
}

#[test]
fn what_is_printed_can_be_read() {
    let config = load("web_port = 9\nlog = \"debug\"\n", &[], &[]).unwrap();
    let again = load(&config.format_settings(false), &[], &[]).unwrap();
    assert_eq!(again.settings, config.settings);
    assert_eq!(load(&config.format_settings(true), &[], &[]).unwrap().settings, config.settings);
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    insta::assert_snapshot!(refusal("web_prot = 1", &[], &[]), @"there is no setting web_prot (config.toml); `mezza config print` shows all keys");
    insta::assert_snapshot!(refusal("", &[("MEZZA_WEB_PROT", "1")], &[]), @"there is no setting web_prot (environment); `mezza config print` shows all keys");
    insta::assert_snapshot!(refusal("", &[], &[("web-port", "1")]), @"there is no setting web-port (flag); `mezza config print` shows all keys");
}

#[test]
fn a_wrong_value_names_its_key_and_origin() {
    insta::assert_snapshot!(refusal("web_port = 70000", &[], &[]), @"the setting web_port cannot be 70000 (config.toml); give it a value like 7100");
    insta::assert_snapshot!(refusal("log = 7", &[], &[]), @r#"the setting log cannot be 7 (config.toml); give it a value like "warn""#);
    insta::assert_snapshot!(refusal("", &[("MEZZA_IDLE_LOCK_S", "soon")], &[]), @r#"the setting idle_lock_s cannot be "soon" (environment); give it a value like 900"#);
    insta::assert_snapshot!(refusal("", &[], &[("relay_boxes_max", "-1")]), @"the setting relay_boxes_max cannot be -1 (flag); give it a value like 1000000");
    insta::assert_snapshot!(refusal("log = \"warn\"\nweb_port 7100\n", &[], &[]), @"line 2 is not a setting: key with no value, expected `=` (config.toml); write `key = value`; `mezza config print` shows all keys");
}

#[test]
fn msg_87_a_variable_that_is_no_utf_8_is_named_or_left_alone() {
    let odd = || OsString::from_vec(b"caf\xe9".to_vec());
    let file = tempdir().unwrap();
    let load = |name: OsString| {
        LoadedSettings::load(&file.path().join("none"), [(name, odd())].into_iter(), &[])
    };
    for other in ["LESS".into(), odd(), "MEZZA_HOME".into(), "MEZZA_TEST_X".into()] {
        assert_eq!(load(other).unwrap().settings, Settings::default());
    }
    let fault = load("MEZZA_LOG".into()).unwrap_err();
    assert_eq!(fault.code, Exit::Config);
    insta::assert_snapshot!(fault, @"the setting log is not UTF-8 (environment); write it in plain letters");
    // The program itself, with a variable of somebody else beside it.
    let home = tempdir().unwrap();
    let run = |name: &str| {
        let mut command = program::command(home.path(), &["config", "print"]);
        command.env(name, odd()).output().unwrap()
    };
    assert_eq!(run("LANG").status.code(), Some(0));
    let output = run("MEZZA_LOG");
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("write it in plain letters"));
}

#[test]
fn settings_are_kept_between_those_that_stand_there() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let keep = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        config::store_settings(&path, &pairs).map(|()| fs::read_to_string(&path).unwrap())
    };
    config::store_settings(&path, &[]).unwrap();
    assert!(!path.exists(), "nothing was said");
    assert_eq!(keep(&[("log", "info")]).unwrap(), "log = \"info\"\n");
    fs::write(&path, "# mine\nlog = \"info\" # loud\nrelay_public=\"a:1\"\nweb_port = 9").unwrap();
    let text = keep(&[("relay_public", "b \"c\":2"), ("relay_listen", "[::]:7")]).unwrap();
    let expected = "# mine\nlog = \"info\" # loud\nrelay_public = 'b \"c\":2'\nweb_port = 9\n";
    assert_eq!(text, format!("{expected}relay_listen = \"[::]:7\"\n"));
    // A value that spans lines is left to the person.
    let hard = "log = \"\"\"\nrelay_public = 1\n\"\"\"\n";
    fs::write(&path, hard).unwrap();
    let fault = keep(&[("relay_public", "a:1")]).unwrap_err();
    assert_eq!(fault.code, Exit::Config);
    assert!(fault.next.contains("write relay_public there"), "{fault}");
    assert_eq!(fs::read_to_string(&path).unwrap(), hard);
}
