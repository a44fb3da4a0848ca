//! `m87 engine`: the embedded engine as a server of its own, for any client of Zeebe.

use crate::args::EngineArguments;
use crate::exit::Exit;
use crate::say::tell;
use crate::signals;
use anyhow::Context;
use m87_engine::gateway::{Open, Protection};
use m87_engine::{Engine, EngineOptions};
use m87_zeebe::Leaf;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How often the files of the certificate and its key are read again.
const RELOAD: Duration = Duration::from_secs(10);

/// Serves until a signal to stop.
pub(crate) async fn run(arguments: &EngineArguments) -> anyhow::Result<Exit> {
    let protection = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            let files = Files { certificate: certificate.clone(), key: key.clone() };
            let shown = files.read()?;
            let leaf = Leaf::new(&shown.0, &shown.1)
                .with_context(|| format!("{} and {}", certificate.display(), key.display()))?;
            tokio::spawn(files.follow(leaf.clone(), shown));
            Protection::TlsBy(leaf)
        }
        _ if arguments.insecure => Protection::PlainAnywhere,
        _ => Protection::PlainOnLoopback,
    };
    if matches!(protection, Protection::PlainOnLoopback) && !arguments.listen.ip().is_loopback() {
        return Err(m87_engine::gateway::ServeError::NotLoopback(arguments.listen).into());
    }
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| arguments.listen.to_string())?;
    let options = EngineOptions { data: Some(arguments.data.clone()), ..EngineOptions::default() };
    let engine = Engine::open(options).await?;
    let stop = CancellationToken::new();
    signals::stop_on_signal(&stop)?;
    tell!("engine {} listens on {}", engine.id(), listener.local_addr()?);
    let served = engine.serve(listener, protection, Arc::new(Open), stop).await;
    engine.stop().await;
    served?;
    Ok(Exit::AsAsked)
}

/// A certificate and its key, which somebody replaces before they expire.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn read(&self) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
        Ok((read(&self.certificate)?, read(&self.key)?))
    }

    /// Shows what is in the files from then on. One file may be new and the other not yet: then the old pair stays.
    async fn follow(self, leaf: Arc<Leaf>, mut shown: (Vec<u8>, Vec<u8>)) {
        loop {
            tokio::time::sleep(RELOAD).await;
            let next = match self.read() {
                Ok(next) if next != shown => next,
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "the certificate is not read again; the old one stays"
                    );
                    continue;
                }
            };
            match leaf.replace(&next.0, &next.1) {
                Ok(()) => {
                    tell!("{}: the new certificate is shown from now on", self.certificate.display());
                    shown = next;
                }
                Err(error) => tracing::warn!(%error, "the new certificate cannot be shown; the old one stays"),
            }
        }
    }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| file.display().to_string())
}
