//! The governed loop as a drawing that runs: the BPMN model, its validation, its proof, its picture, and FEEL, the language
//! of its conditions. Pure: text in, values out.

pub mod feel;
pub mod lint;
pub mod model;
pub mod prefix;
pub mod prove;
#[cfg(test)]
mod structure;
pub mod svg;
pub mod validate;
mod xml;

/// The process as it runs: `m87-governed-loop`, executable.
pub const EXECUTABLE: &str = include_str!("../../../bpmn/executable/m87-governed-loop.bpmn");
/// The process as it is meant: the same nodes and flows, without how a worker is called.
pub const REFERENCE: &str = include_str!("../../../bpmn/reference/m87-governed-loop.bpmn");
