//! Receipts with any one byte changed, verified in this process: none passes.

use crate::mutate::mutated;
use crate::{fuzz, is_long, say};
use m87_core::receipt::verify;
use m87_core::sign::VerifyingKey;
use m87_tests::Scene;
use std::fs;
use std::path::Path;
use std::thread;

struct Receipts {
    key: VerifyingKey,
    bundles: Vec<Vec<u8>>,
}

/// What `m87 run -f policy/` leaves.
fn receipts() -> Receipts {
    let scene = Scene::new();
    let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy");
    let out = scene.out();
    let ran = scene.output(&["run", "-f", policy.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(ran.status.success(), "{ran:?}");
    let bundles: Vec<_> = scene.bundles().iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(bundles.len() >= 5, "{}", bundles.len());
    let pem = fs::read_to_string(scene.public_key()).unwrap();
    let key = VerifyingKey::from_pem(&pem).unwrap();
    assert!(bundles.iter().all(|bundle| verify(bundle, Some(&key)).passed()));
    Receipts { key, bundles }
}

fn change_each_byte(nth: usize, bundle: &[u8], key: &VerifyingKey) -> usize {
    let step = if is_long() { 1 } else { bundle.len() / 40 + 1 };
    let (mut changed, mut tried) = (bundle.to_vec(), 0);
    for at in (nth % step..bundle.len()).step_by(step) {
        for flip in [0x01, 0x20] {
            changed[at] ^= flip;
            assert!(!verify(&changed, Some(key)).passed(), "bundle {nth}, byte {at}, {flip:#x}");
            changed[at] ^= flip;
            tried += 1;
        }
    }
    tried
}

#[test]
fn any_one_changed_byte_fails() {
    let Receipts { key, bundles } = receipts();
    let key = &key;
    let tried: usize = thread::scope(|scope| {
        let changing: Vec<_> = bundles
            .iter()
            .enumerate()
            .map(|(nth, bundle)| scope.spawn(move || change_each_byte(nth, bundle, key)))
            .collect();
        changing.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    say(&format!("receipts: {tried} changed bytes in {} bundles, each refused", bundles.len()));
}

#[test]
fn mutated_receipts() {
    let Receipts { key, bundles } = receipts();
    fuzz("mutated_receipts", |random| {
        let (bundle, other) = (random.clone().pick(&bundles).clone(), random.pick(&bundles).clone());
        let changed = mutated(random, &bundle, &other);
        // Two mutations may undo each other.
        if !bundles.contains(&changed) {
            assert!(!verify(&changed, Some(&key)).passed());
        }
    });
}
