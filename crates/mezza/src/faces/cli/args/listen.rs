//! `--listen ADDRESS:PORT`: one option for all commands that listen.
//!
//! The page is for this machine alone, so it takes loopback addresses only. The mesh receives on
//! each interface, so it takes only the address that stands for all.

use std::net::SocketAddr;

use clap::Args;

/// `--listen` of the page, and `--port`, which earlier versions had.
#[derive(Args)]
pub struct PageListen {
    /// Where the page and the interface listen: a loopback address and a port; if the port is taken,
    /// the next free one
    #[arg(id = "page_listen", long = "listen", value_name = "ADDRESS:PORT", value_parser = parse_loopback)]
    listen: Option<u16>,
    /// The port alone
    #[arg(
        id = "page_port",
        long = "port",
        value_name = "PORT",
        hide = true,
        conflicts_with = "page_listen"
    )]
    port: Option<u16>,
}

impl PageListen {
    /// Returns the port of the page, if one was named.
    pub(crate) fn port(&self) -> Option<u16> {
        self.listen.or(self.port)
    }
}

/// `--listen` of the mesh, and `--port`, which earlier versions had.
#[derive(Args)]
pub struct MeshListen {
    /// Where the node listens, on all interfaces that it uses: [::]:PORT
    #[arg(id = "mesh_listen", long = "listen", value_name = "ADDRESS:PORT", value_parser = parse_everywhere)]
    listen: Option<u16>,
    /// The port alone
    #[arg(
        id = "mesh_port",
        long = "port",
        value_name = "PORT",
        hide = true,
        conflicts_with = "mesh_listen"
    )]
    port: Option<u16>,
}

impl MeshListen {
    /// Returns the port of the mesh, if one was named.
    pub(crate) fn port(&self) -> Option<u16> {
        self.listen.or(self.port)
    }
}

/// Parses a loopback address with a port. Returns the port.
fn parse_loopback(text: &str) -> Result<u16, String> {
    let text = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.into(), |port| format!("127.0.0.1:{port}"));
    let address = text.parse::<SocketAddr>().map_err(|_| "write it like 127.0.0.1:7100")?;
    if address.ip().to_canonical().is_loopback() {
        return Ok(address.port());
    }
    Err("the page is for this machine alone: write it like 127.0.0.1:7100".into())
}

/// Parses the unspecified address with a port. Returns the port.
fn parse_everywhere(text: &str) -> Result<u16, String> {
    let address = text.parse::<SocketAddr>().map_err(|_| "write it like [::]:7106")?;
    if address.ip().is_unspecified() {
        return Ok(address.port());
    }
    Err("the mesh receives on whole interfaces: write it like [::]:7106, and choose them with --if"
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_15_the_page_listens_on_loopback_only() {
        for text in ["127.0.0.1:7100", "[::1]:7100", "localhost:7100", "127.0.0.2:7100"] {
            assert_eq!(parse_loopback(text), Ok(7_100), "{text}");
        }
        for text in ["0.0.0.0:7100", "[::]:7100", "192.0.2.1:7100", "7100", "localhost", ""] {
            assert!(parse_loopback(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cli_15_the_mesh_listens_on_whole_interfaces() {
        for text in ["[::]:7106", "0.0.0.0:7106"] {
            assert_eq!(parse_everywhere(text), Ok(7_106), "{text}");
        }
        for text in ["127.0.0.1:7106", "7106", "mesh:7106", ""] {
            assert!(parse_everywhere(text).is_err(), "{text}");
        }
    }
}
