//! The processes of an attempt as tests start them: `exec` against an authority that is a folder, and the real shim.
//!
//! The folder holds `order.json` (what redeeming or asking answers) and `artifact` (what is stored), and gets
//! `redeemed`, `report.json` and the artifact. `unavailable-N` files make the next answers to a call be lost, after
//! the call was done; a file `refuse-CALL` makes it a definite no.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use m87_authority::proto::{
    BriefReply, ContractReply, ExecuteReply, Job, PutArtifactReply, RecordReply, RecordRequest, RedeemReply,
    RedeemRequest, ReportRequest, ReportValidationRequest, ValidationOrderReply, VerifyReply, WaitRequest,
};
use m87_authority::{AuthorityClient, AuthorityError, Credentials, Denial};
use m87_worker::exec::{ExecArgs, FetchArgs, Fetched, Place, Task, fetch_for_check};
use m87_worker::shim::{CheckArgs, ShimArgs, main_check, main_shim};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["shim", "--work", work] => shim(&ShimArgs::Inherited { work: PathBuf::from(work) }),
        ["shim", "--connect", socket, "--work", work] => {
            shim(&ShimArgs::Connect { socket: PathBuf::from(socket), work: PathBuf::from(work) })
        }
        ["shim", "--stage", "tool"] => shim(&ShimArgs::Stage),
        ["shim", "--check", fetched, "--work", work, "--report", report] => return check(fetched, work, report),
        // As the command line of `m87 exec` does, but for the authority.
        ["exec", "--credentials", credentials, "--work", folder, "--report-grace", seconds, task @ ..] => {
            let place = Place::Machine { credentials: PathBuf::from(credentials), folder: PathBuf::from(folder) };
            // The folder that plays the authority stands where its address would.
            let read = Credentials::read(Path::new(credentials)).map_err(|error| error.to_string());
            read.and_then(|credentials| exec(credentials.address_file, place, seconds, task))
        }
        [
            "exec",
            "--listen",
            socket,
            "--peer",
            peer,
            "--authority",
            authority,
            "--report-grace",
            seconds,
            task @ ..,
        ] => {
            let patience = Duration::from_secs(5);
            let place = Place::Pod { socket: PathBuf::from(socket), peer: peer.parse().unwrap_or(u32::MAX), patience };
            exec(PathBuf::from(authority), place, seconds, task)
        }
        ["exec", "--fetch", folder, "--authority", authority, "--report", report] => fetch(folder, authority, report),
        other => Err(format!("unknown: {other:?}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn shim(args: &ShimArgs) -> Result<(), String> {
    main_shim(args).map_err(|error| error.to_string())
}

fn check(fetched: &str, work: &str, report: &str) -> ExitCode {
    let [fetched, work, report] = [fetched, work, report].map(PathBuf::from);
    ExitCode::from(main_check(&CheckArgs { fetched, work, report }).unwrap_or(255))
}

fn fetch(folder: &str, authority: &str, report: &str) -> Result<(), String> {
    let args = FetchArgs { folder: PathBuf::from(folder), report: PathBuf::from(report) };
    let fetched = runtime()?.block_on(fetch_for_check(&args, &Folder(PathBuf::from(authority))));
    match fetched.map_err(|error| error.to_string())? {
        Fetched::Ready => Ok(()),
        Fetched::Nothing => Err("there is nothing to check".to_owned()),
    }
}

fn exec(authority: PathBuf, place: Place, seconds: &str, task: &[&str]) -> Result<(), String> {
    let task = match task {
        ["--contract", id] => Task::Tool { contract_id: (*id).to_owned() },
        ["--validation"] => Task::Validation,
        other => return Err(format!("unknown: {other:?}")),
    };
    let report_grace = Duration::from_secs(seconds.parse().map_err(|error| format!("{error}"))?);
    let args = ExecArgs { place, task, report_grace };
    let authority = Arc::new(Folder(authority));
    runtime()?.block_on(m87_worker::exec::run(&args, authority)).map_err(|error| error.to_string())
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())
}

/// An authority that is a folder.
struct Folder(PathBuf);

impl Folder {
    /// Appends one line for each call, and says whether its answer gets through.
    fn called(&self, call: &str, detail: &str) -> Result<(), AuthorityError> {
        let log = std::fs::File::options().append(true).create(true).open(self.0.join("calls"));
        log.and_then(|mut log| writeln!(log, "{call} {detail}")).map_err(unavailable)?;
        if self.0.join(format!("refuse-{call}")).exists() {
            return Err(AuthorityError::refused(Denial::ContractVoid, "as the test wants it"));
        }
        if std::fs::remove_file(self.0.join(format!("lose-{call}"))).is_ok() || self.0.join("down").exists() {
            return Err(AuthorityError::Unavailable("as the test wants it".to_owned()));
        }
        Ok(())
    }

    fn order(&self) -> Result<String, AuthorityError> {
        std::fs::read_to_string(self.0.join("order.json")).map_err(unavailable)
    }

    /// Write-once, like the real one: the first report stands.
    fn store(&self, json: &str) -> Result<(), AuthorityError> {
        let path = self.0.join("report.json");
        if !path.exists() {
            let draft = self.0.join("report.draft");
            std::fs::write(&draft, json).and_then(|()| std::fs::rename(&draft, &path)).map_err(unavailable)?;
        }
        Ok(())
    }
}

fn unavailable(error: impl std::fmt::Display) -> AuthorityError {
    AuthorityError::Unavailable(error.to_string())
}

fn not_here<T>() -> Result<T, AuthorityError> {
    Err(AuthorityError::refused(Denial::NotYours, "a lane's"))
}

#[async_trait]
impl AuthorityClient for Folder {
    async fn brief(&self, _: Job) -> Result<BriefReply, AuthorityError> {
        not_here()
    }
    async fn record(&self, _: RecordRequest) -> Result<RecordReply, AuthorityError> {
        not_here()
    }
    async fn contract(&self, _: Job) -> Result<ContractReply, AuthorityError> {
        not_here()
    }
    async fn execute(&self, _: WaitRequest) -> Result<ExecuteReply, AuthorityError> {
        not_here()
    }
    async fn verify(&self, _: WaitRequest) -> Result<VerifyReply, AuthorityError> {
        not_here()
    }

    async fn redeem(&self, request: RedeemRequest) -> Result<RedeemReply, AuthorityError> {
        self.called("redeem", &request.nonce)?;
        Ok(RedeemReply { order: self.order()? })
    }

    async fn put_artifact(
        &self,
        _: String,
        nonce: String,
        mut data: BoxStream<'static, Bytes>,
    ) -> Result<PutArtifactReply, AuthorityError> {
        let mut file = std::fs::File::create(self.0.join("artifact")).map_err(unavailable)?;
        let mut size = 0;
        while let Some(piece) = data.next().await {
            file.write_all(&piece).map_err(unavailable)?;
            size += piece.len();
        }
        self.called("put_artifact", &nonce)?;
        let size = i64::try_from(size).map_err(unavailable)?;
        Ok(PutArtifactReply { sha256: String::new(), size })
    }

    async fn report(&self, request: ReportRequest) -> Result<(), AuthorityError> {
        self.called("report", &request.nonce)?;
        self.store(&request.json)
    }

    async fn get_artifact(&self, _: Job) -> Result<BoxStream<'static, Result<Bytes, AuthorityError>>, AuthorityError> {
        self.called("get_artifact", "")?;
        let bytes = std::fs::read(self.0.join("artifact")).map_err(unavailable)?;
        let pieces: Vec<_> = bytes.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        Ok(futures::stream::iter(pieces).boxed())
    }

    async fn validation_order(&self) -> Result<ValidationOrderReply, AuthorityError> {
        self.called("validation_order", "")?;
        Ok(ValidationOrderReply { order: self.order()? })
    }

    async fn report_validation(&self, request: ReportValidationRequest) -> Result<(), AuthorityError> {
        self.called("report_validation", "")?;
        self.store(&request.json)
    }
}
