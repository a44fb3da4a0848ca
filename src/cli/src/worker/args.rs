//! The arguments of `m87 worker`, and the ways that they describe.

use crate::args::Jobs;
use clap::Args;
use m87_authority::client::{Address, CaSource, TokenSource};
use m87_authority::{Credentials, Reach};
use m87_core::lane::Lane;
use m87_zeebe::{Client, Prefix, Tls, Token, connect};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
#[group(id = "way", required = true, args = ["credentials", "authority"])]
pub(crate) struct WorkerArguments {
    /// Which lane.
    #[arg(long, value_parser = lane)]
    pub(crate) lane: Lane,
    /// The Zeebe gateway, as host:port.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) engine: String,
    /// The lane's credentials, as `m87 run --lanes external` writes them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ca_file", "token_file"])]
    pub(crate) credentials: Option<PathBuf>,
    /// The authority on a cluster, as host:port.
    #[arg(long, value_name = "HOST:PORT", requires_all = ["ca_file", "token_file"])]
    pub(crate) authority: Option<String>,
    /// The certificate authority of the authority and, unless --zeebe, of the engine, PEM; read anew at each connection.
    #[arg(long, value_name = "FILE", requires = "authority")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The token by which the authority and, unless --zeebe, the engine know the lane; read anew at each call.
    #[arg(long, value_name = "FILE", requires = "authority")]
    pub(crate) token_file: Option<PathBuf>,
    /// The engine is a real Zeebe, not m87's own: it is not shown the lane's token.
    #[arg(long)]
    pub(crate) zeebe: bool,
    /// The certificate authority of the engine, if it has one of its own; without any, plain text is spoken.
    #[arg(long, value_name = "FILE")]
    pub(crate) engine_ca_file: Option<PathBuf>,
    /// A token for the engine alone; read anew at each call.
    #[arg(long, value_name = "FILE")]
    pub(crate) engine_token_file: Option<PathBuf>,
    /// What process ids and job types begin with in a shared Zeebe.
    #[arg(long, value_name = "PREFIX", default_value = "", requires = "zeebe")]
    pub(crate) prefix: Prefix,
    /// Serve /livez and /readyz here: ready is who is accepted by the engine and by the authority.
    #[arg(long, value_name = "ADDR")]
    pub(crate) health: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
}

impl WorkerArguments {
    /// The way to the authority.
    pub(crate) fn reach(&self) -> anyhow::Result<Reach> {
        match (&self.credentials, &self.authority, &self.ca_file, &self.token_file) {
            (Some(file), ..) => Ok(Credentials::read(file)?.into()),
            (None, Some(address), Some(ca), Some(token)) => Ok(Reach {
                address: Address::Fixed(address.clone()),
                ca: CaSource::File(ca.clone()),
                token: TokenSource::File(token.clone()),
            }),
            (None, ..) => anyhow::bail!("write --credentials, or --authority with --ca-file and --token-file"),
        }
    }

    /// A client of the engine.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let ours = |file: &Option<PathBuf>| if self.zeebe { None } else { file.clone() };
        let tls = match self.engine_ca_file.clone().or_else(|| ours(&self.ca_file)) {
            Some(path) => Tls::CaFile { path, name: None },
            None => Tls::Plain,
        };
        let client = Client::new(connect(&self.engine, tls)?).with_prefix(self.prefix.clone());
        Ok(match self.engine_token_file.clone().or_else(|| ours(&self.token_file)) {
            Some(file) => client.with_token(Arc::new(Token::File(file))),
            None => client,
        })
    }
}

fn lane(text: &str) -> Result<Lane, String> {
    let all = Lane::ALL.map(Lane::name).join(", ");
    Lane::parse(text).ok_or_else(|| format!("{text:?} is not a lane; write one of {all}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        it: WorkerArguments,
    }

    fn parse(more: &str) -> Result<WorkerArguments, String> {
        let line = format!("m87 --lane runner --engine e:1 {more}");
        Line::try_parse_from(line.split_whitespace()).map(|line| line.it).map_err(|error| error.to_string())
    }

    #[test]
    fn a_lane_has_one_whole_way_to_the_authority() {
        assert!(parse("--credentials c").is_ok());
        assert!(parse("--authority a:1 --ca-file c --token-file t").is_ok());
        for bad in [
            "",
            "--authority a:1",
            "--authority a:1 --ca-file c",
            "--ca-file c --token-file t",
            "--credentials c --authority a:1 --ca-file c --token-file t",
            "--credentials c --token-file t",
            "--credentials c --prefix blue-",
            "--credentials c --zeebe --prefix 1",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_real_zeebe_never_sees_the_lanes_own_token() {
        let way = "--authority a:1 --ca-file /no/ca --token-file /no/token";
        let error = |more: &str| {
            let client = parse(&format!("{way} {more}")).unwrap().client().unwrap();
            async move { client.topology().await.unwrap_err().to_string() }
        };
        assert!(error("").await.contains("/no/token"));
        assert!(!error("--zeebe").await.contains("/no/"));
        assert!(error("--zeebe --engine-token-file /other/token").await.contains("/other/token"));
        assert!(error("--zeebe --engine-ca-file /other/ca").await.contains("/other/ca"));
    }
}
