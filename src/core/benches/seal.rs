//! Sealing one receipt (hash, statement, signature), and making it from dossier and evidence.
//!
//! `cargo bench -p m87-core --features fixtures --bench seal`

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use criterion::{Criterion, criterion_group, criterion_main};
use m87_core::fixtures::{at, dossier, evidence};
use m87_core::receipt::{Sealing, make};
use m87_core::sign::SigningKey;
use std::hint::black_box;

fn seal(c: &mut Criterion) {
    let key = SigningKey::from_seed(&[1; 32]);
    let sealing = Sealing { process: None, timestamp: at(8), key_id: key.key_id() };
    let (dossier, evidence) = (dossier(), evidence());
    let receipt = make(&dossier, &evidence, &sealing).unwrap();
    c.bench_function("receipt sealed", |b| {
        b.iter(|| black_box(receipt.seal(&key).unwrap()));
    });
    c.bench_function("receipt made", |b| b.iter(|| black_box(make(&dossier, &evidence, &sealing).unwrap())));
}

criterion_group!(benches, seal);
criterion_main!(benches);
