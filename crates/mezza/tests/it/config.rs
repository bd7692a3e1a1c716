//! Settings in four layers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;

use mezza::config::{Config, Settings, environment};
use mezza::exit::{Exit, Fault};
use tempfile::tempdir;

use crate::program;

fn load(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, Fault> {
    let dir = tempdir().unwrap();
    let path = dir.path().join("config.toml");
    if !file.is_empty() {
        fs::write(&path, file).unwrap();
    }
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let flags: Vec<_> = flags.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
    Config::load(&path, environment, &flags)
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
    insta::assert_snapshot!(config.print(true), @r#"
    idle_lock_s = 0                          # environment
    log = "info"                             # config.toml
    observe = true                           # flag
    relay_boxes_max = 1000000                # default
    relay_connections_max = 256              # default
    relay_listen = "127.0.0.1:7101"          # default
    relay_opens_day_max = 4000               # default
    relay_put_bytes_day_max = 1073741824     # default
    relay_store = "sqlite"                   # default
    relay_store_bytes_max = 10737418240      # default
    web_port = 3                             # flag
    "#);
}

#[test]
fn what_is_printed_can_be_read() {
    let config = load("web_port = 9\nlog = \"debug\"\n", &[], &[]).unwrap();
    let again = load(&config.print(false), &[], &[]).unwrap();
    assert_eq!(again.settings, config.settings);
    assert_eq!(load(&config.print(true), &[], &[]).unwrap().settings, config.settings);
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
fn a_variable_that_is_no_text_is_refused_if_it_is_ours() {
    let no_text = OsString::from_vec(vec![b'a', 0xff]);
    let variables = |name: &str| [(OsString::from(name), no_text.clone())].into_iter();
    for others in ["PATH", "MEZZA_HOME", "MEZZA_TEST_X", "MEZZ"] {
        assert!(environment(variables(others)).unwrap().is_empty(), "{others}");
    }
    let name = [(no_text.clone(), OsString::from("value"))].into_iter();
    assert!(environment(name).unwrap().is_empty());
    let fault = environment(variables("MEZZA_LOG")).unwrap_err();
    assert_eq!(fault.code, Exit::Config);
    insta::assert_snapshot!(fault, @"the variable MEZZA_LOG is no UTF-8 text (environment); write it again, or take it away with `unset MEZZA_LOG`");
    // The program itself, with a variable of somebody else beside it.
    let home = tempdir().unwrap();
    let run = |name: &str| {
        let mut command = program::command(home.path(), &["config", "print"]);
        command.env(name, &no_text).output().unwrap()
    };
    assert_eq!(run("LANG").status.code(), Some(0));
    let output = run("MEZZA_LOG");
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("unset MEZZA_LOG"));
}
