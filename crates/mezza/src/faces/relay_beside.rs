//! The relay of this home in the program that runs the node, as the page starts it.

use tokio::sync::{Mutex, watch};

use crate::faces::cli::relay::{public_of, relay_config, relay_fault};
use crate::faces::config::{self, LoadedSettings};
use mezza_host::api::Fault;
use mezza_host::process::home::Home;
use mezza_servers::relay::{self, RelayHandle};

/// The relay that runs beside the node.
pub(crate) struct RelayBeside {
    stop: watch::Sender<bool>,
    running: Mutex<Option<RelayHandle>>,
}

impl Default for RelayBeside {
    fn default() -> Self {
        Self { stop: watch::channel(false).0, running: Mutex::default() }
    }
}

impl RelayBeside {
    /// Makes the relay of a home, if there is none, and runs it from now on whenever the node runs.
    /// With `public` (host and port) it listens on all addresses. A relay that runs already stays
    /// as it is.
    ///
    /// # Errors
    /// An address that nobody can reach, a port that is taken, or the fault of the disk.
    pub(crate) async fn set_up(&self, home: &Home, public: Option<&str>) -> Result<(), Fault> {
        let mut kept = vec![("relay_with_node", "true".to_owned())];
        if let Some(public) = public {
            let mut settings = load_settings(home)?;
            public.clone_into(&mut settings.relay_public);
            // Checked before it is stored: a wrong address would keep the relay from starting.
            if let Some((_, port)) = public_of(&settings)? {
                kept.push(("relay_listen", format!("0.0.0.0:{port}")));
                kept.push(("relay_public", public.to_owned()));
            }
        }
        config::store_settings(&home.config(), &kept)?;
        self.start(home).await
    }

    /// Starts the relay, unless it runs.
    ///
    /// # Errors
    /// A port that is taken, or the fault of the disk.
    pub(crate) async fn start(&self, home: &Home) -> Result<(), Fault> {
        let mut running = self.running.lock().await;
        let config = relay_config(home, &load_settings(home)?)?;
        if running.is_some() || relay::running_address(&config.dir).is_some() {
            return Ok(());
        }
        let fault = |error| relay_fault(&error);
        home.make_folders()?;
        relay::init(&config.dir, &config.store).await.map_err(fault)?;
        *running = Some(relay::start_relay(config, self.stop.subscribe()).await.map_err(fault)?);
        Ok(())
    }

    /// Stops the relay. Everything that it confirmed is durable.
    pub(crate) async fn stop(&self) {
        let _ = self.stop.send(true);
        if let Some(handle) = self.running.lock().await.take()
            && let Err(error) = handle.wait().await
        {
            tracing::warn!(target: "mezza", %error, "the relay of this home");
        }
    }
}

/// Returns the settings of the file. The environment of this process is not the relay's.
fn load_settings(home: &Home) -> Result<config::Settings, Fault> {
    Ok(LoadedSettings::load(&home.config(), std::iter::empty(), &[])?.settings)
}
