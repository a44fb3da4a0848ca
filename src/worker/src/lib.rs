//! What the lanes do with their jobs, and the processes in which tools run.
//!
//! - [`lanes`]: the jobs of the process, by lane.
//! - [`exec`]: the authority-facing process of one attempt. It redeems the contract, has the tool run, and reports.
//! - [`shim`]: the tool-facing process. It knows neither token nor authority.
//! - [`sandbox`]: what both use to hold a tool and everything that descends from it.
//! - [`executor`]: how a local authority starts `exec`.

pub mod exec;
pub mod executor;
pub mod lanes;
pub mod sandbox;
pub mod shim;
