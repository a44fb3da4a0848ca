#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::conditions::{Finding, READY, set_condition};
use m87_core::time::Timestamp;

#[test]
fn a_status_that_nobody_wrote_says_so() {
    for value in [
        to_value(&GovernancePolicyStatus::default()),
        to_value(&ToolManifestStatus::default()),
        to_value(&GovernedRunStatus::default()),
    ] {
        assert_eq!(value, serde_json::json!({"observedGeneration": -1}));
    }
}

#[test]
fn a_text_is_cut_to_its_bytes_as_json() {
    let mut conditions = Vec::new();
    let message = "\u{1b}[31m\"\\\n😀".repeat(1000);
    set_condition(&mut conditions, 1, Timestamp::from_millis(0), Finding::new(READY, true, "Sealed", message));
    let status = GovernedRunStatus { conditions, ..Default::default() };
    let value = to_value(&status);
    let message = value["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("\u{fffd}[31m\"\\\n😀\u{fffd}") && message.ends_with('…'), "{message}");
    let size = serde_json::to_string(message).unwrap().len();
    assert!((1010..=1026).contains(&size), "{size}");
}
