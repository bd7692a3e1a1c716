//! Restricts the PostgreSQL servers of a relay: only on this machine, and without a password in any
//! argument or setting.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::StoreError;

/// Reads a URL, and the password from the file that `PGPASSFILE` names.
///
/// # Errors
/// [`StoreError::Setting`] for a URL that names another machine or holds a password.
pub(super) fn parse_url(url: &str) -> Result<Config, StoreError> {
    let mut config: Config = url.parse().map_err(|_| {
        StoreError::Setting(
            "this is no PostgreSQL address; write postgres://USER@localhost:5432/NAME",
        )
    })?;
    if config.get_password().is_some() {
        return Err(StoreError::Setting(
            "the PostgreSQL address holds a password; put it into the file that PGPASSFILE names \
             and remove it from the address",
        ));
    }
    if config.get_hosts().is_empty() || !config.get_hosts().iter().all(is_local) {
        return Err(StoreError::Setting(
            "the relay speaks with PostgreSQL on this machine only; use localhost or the folder of \
             its Unix socket",
        ));
    }
    if !config.get_hostaddrs().iter().all(IpAddr::is_loopback) {
        return Err(StoreError::Setting(
            "the relay speaks with PostgreSQL on this machine only; remove hostaddr",
        ));
    }
    config.application_name("mezza-relay");
    if let Some(file) = std::env::var_os("PGPASSFILE")
        && let Some(password) = password_from(Path::new(&file), &config)?
    {
        config.password(password);
    }
    Ok(config)
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}

/// Returns the password of the first matching line: `host:port:database:user:password`.
fn password_from(path: &Path, config: &Config) -> Result<Option<String>, StoreError> {
    let file = |source| StoreError::File { path: path.to_owned(), source };
    if fs::metadata(path).map_err(file)?.permissions().mode() & 0o077 != 0 {
        return Err(StoreError::Setting(
            "the file that PGPASSFILE names is open to other users; run chmod 600 on it",
        ));
    }
    let text = fs::read_to_string(path).map_err(file)?;
    let user = config.get_user().unwrap_or_default();
    let wanted = [
        match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.as_str(),
            _ => "localhost",
        }
        .to_owned(),
        config.get_ports().first().unwrap_or(&5432).to_string(),
        config.get_dbname().unwrap_or(user).to_owned(),
        user.to_owned(),
    ];
    Ok(text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = split_fields(line);
        let fits = fields.len() == 5
            && fields.iter().zip(&wanted).all(|(field, want)| field == "*" || field == want);
        if fits { fields.into_iter().nth(4) } else { None }
    }))
}

/// Splits a line at its colons; a backslash escapes the next character.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let kept = match c {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => chars.next(),
            c => Some(c),
        };
        if let Some(field) = fields.last_mut() {
            field.extend(kept);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_host::api::Exit;

    #[test]
    fn only_this_machine_and_no_password() {
        for good in [
            "postgres://mezza@localhost:5432/relay",
            "postgres://mezza@127.0.0.1/relay",
            "postgres://mezza@[::1]/relay",
            "postgres://mezza@%2Frun%2Fpostgresql/relay",
            "host=/run/postgresql user=mezza",
        ] {
            assert!(parse_url(good).is_ok(), "{good}");
        }
        for bad in [
            "postgres://mezza:secret@localhost/relay",
            "postgres://mezza@192.0.2.7/relay",
            "postgres://mezza@localhost,db.example/relay",
            "host=localhost hostaddr=192.0.2.7 user=mezza",
            "user=mezza",
            "http://localhost",
        ] {
            let error = parse_url(bad).map(drop).unwrap_err();
            assert_eq!(error.exit_code(), Exit::Config, "{bad}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn a_password_file_is_read_as_libpq_reads_it() {
        use std::io::Write as _;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "# all of ours\nother:*:*:*:no\nlocalhost:5433:relay:mezza:a\\:b\\\\c")
            .unwrap();
        let config: Config = "postgres://mezza@localhost:5433/relay".parse().unwrap();
        assert_eq!(password_from(file.path(), &config).unwrap().as_deref(), Some("a:b\\c"));
        let other: Config = "postgres://mezza@localhost:5434/relay".parse().unwrap();
        assert_eq!(password_from(file.path(), &other).unwrap(), None);
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(password_from(file.path(), &config).is_err());
    }
}
