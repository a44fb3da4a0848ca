//! The four gates over a manifest of 10,000 tools and a policy of 1,000 rules, both compiled once.
//!
//! `cargo bench -p m87-core --features fixtures --bench gates`

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use criterion::{Criterion, criterion_group, criterion_main};
use m87_core::case::{Case, Rules};
use m87_core::fixtures::{actor, evidence, policy, proposal, tool};
use m87_core::gates::{judge_artifact, judge_budget, judge_constraints, judge_manifest};
use m87_core::resolve::Tools;
use std::hint::black_box;
use std::time::Instant;

fn gates(c: &mut Criterion) {
    let mut policy = policy();
    policy.constraints.targets_forbidden = (0..1000)
        .map(|n| match n % 3 {
            0 => format!("prod/team-{n}/**"),
            1 => format!("*/secret-{n}"),
            _ => format!("finance/{n}/*/ledger.json"),
        })
        .collect();
    let rules = Rules::new(&policy, None);
    let entries: Vec<_> = (0..10_000)
        .map(|n| {
            let mut entry = tool();
            if n != 7_777 {
                entry.name = format!("tool-{n}");
            }
            entry
        })
        .collect();
    let tools = Tools::new(&entries);
    let (proposal, actor, evidence) = (proposal(), actor(), evidence());
    let all = || {
        let case = Case::new(&proposal, &actor, true, Some(&rules), Some(&tools));
        let first = judge_constraints(&case).passed();
        let second = judge_manifest(&case).passed();
        let third = judge_budget(Some(&rules.effective.autonomy_budget), None, &evidence).passed();
        let fourth = judge_artifact(&evidence).passed();
        first && second && third && fourth
    };
    assert!(all());
    c.bench_function("four gates, 10,000 tools, 1,000 rules", |b| b.iter(|| black_box(all())));

    let case = Case::new(&proposal, &actor, true, Some(&rules), Some(&tools));
    c.bench_function("looking the case up", |b| {
        b.iter(|| black_box(Case::new(&proposal, &actor, true, Some(&rules), Some(&tools))));
    });
    c.bench_function("evaluate_constraints", |b| b.iter(|| black_box(judge_constraints(&case))));
    c.bench_function("tool_in_manifest", |b| b.iter(|| black_box(judge_manifest(&case))));
    c.bench_function("budget_exceeded_or_error", |b| {
        b.iter(|| black_box(judge_budget(Some(&rules.effective.autonomy_budget), None, &evidence)));
    });
    c.bench_function("artifact_verified", |b| b.iter(|| black_box(judge_artifact(&evidence))));

    let mut times: Vec<_> = (0..200_000)
        .map(|_| {
            let started = Instant::now();
            black_box(all());
            started.elapsed()
        })
        .collect();
    times.sort();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    println!("four gates: p50 {:?}, p99 {:?}, p99.9 {:?}", at(0.5), at(0.99), at(0.999));
}

criterion_group!(benches, gates);
criterion_main!(benches);
