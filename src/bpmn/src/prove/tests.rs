#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use super::*;
use crate::model;

#[test]
fn the_shipped_process_is_proved() {
    let proof = prove(&model::parse(crate::EXECUTABLE.as_bytes()).unwrap()).unwrap();
    println!("{proof}");
    assert_eq!(proof.ends.keys().copied().collect::<Vec<_>>(), Terminal::ALL);
}
