#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use crate::fixtures::at;
use proptest::prelude::*;

/// The leaves that the Certificate Transparency project's test data is built of.
const LEAVES: [&str; 8] =
    ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"];

const ROOTS: [&str; 8] = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

fn published() -> Log {
    let mut log = Log::default();
    for leaf in LEAVES {
        log.append(Hash::leaf(&hex::decode(leaf).unwrap()));
    }
    log
}

fn counted(size: u64) -> Log {
    let mut log = Log::default();
    for index in 0..size {
        assert_eq!(log.append(Hash::leaf(&index.to_be_bytes())), index);
    }
    log
}

#[test]
fn roots_are_the_published_ones() {
    let log = published();
    for (index, root) in ROOTS.iter().enumerate() {
        assert_eq!(log.root_at(index as u64 + 1).unwrap().to_string(), *root);
    }
    assert_eq!(Log::default().root().to_string(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(log.root_at(9), None);
}

#[test]
fn an_inclusion_proof_is_the_published_one() {
    let proof: Vec<_> = published().inclusion(0, 8).unwrap().iter().map(Hash::to_string).collect();
    assert_eq!(
        proof,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
        ]
    );
}

#[test]
fn every_proof_of_small_trees_holds_and_no_other_does() {
    let log = counted(20);
    for size in 1..=20 {
        let root = log.root_at(size).unwrap();
        for index in 0..size {
            let proof = log.inclusion(index, size).unwrap();
            let leaf = Hash::leaf(&index.to_be_bytes());
            assert!(verify_inclusion(leaf, index, size, &proof, root));
            for other in 0..=size {
                assert_eq!(verify_inclusion(leaf, other, size, &proof, root), other == index);
            }
            let longer: Vec<_> = proof.iter().copied().chain([root]).collect();
            assert!(!verify_inclusion(leaf, index, size, &longer, root));
            if let [first, rest @ ..] = proof.as_slice() {
                assert!(!verify_inclusion(leaf, index, size, rest, root));
                assert!(!verify_inclusion(*first, index, size, &proof, root));
            }
        }
        for old in 0..=size {
            let proof = log.consistency(old, size).unwrap();
            let old_root = log.root_at(old).unwrap();
            assert!(verify_consistency(old, size, old_root, root, &proof), "{old} {size}");
            if old != size {
                assert!(old == 0 || !verify_consistency(old, size, root, root, &proof));
                assert!(old == 0 || !verify_consistency(old, size, old_root, old_root, &proof));
            }
        }
    }
    assert_eq!(log.inclusion(20, 20), None);
    assert_eq!(log.inclusion(0, 21), None);
    assert_eq!(log.consistency(3, 21), None);
    assert_eq!(log.consistency(4, 3), None);
}

proptest! {
    #[test]
    fn proofs_of_any_tree_hold_and_changed_ones_do_not(size in 1_u64..400, index in any::<prop::sample::Index>(), old in any::<prop::sample::Index>(), bit in 0_usize..256) {
        let log = counted(size);
        let index = index.index(size as usize) as u64;
        let old = old.index(size as usize) as u64;
        let mut proof = log.inclusion(index, size).unwrap();
        prop_assert!(verify_inclusion(Hash::leaf(&index.to_be_bytes()), index, size, &proof, log.root()));
        if let Some(first) = proof.first_mut() {
            first.0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!verify_inclusion(Hash::leaf(&index.to_be_bytes()), index, size, &proof, log.root()));
        }
        let mut proof = log.consistency(old, size).unwrap();
        let old_root = log.root_at(old).unwrap();
        prop_assert!(verify_consistency(old, size, old_root, log.root(), &proof));
        if let Some(first) = proof.first_mut() {
            first.0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!verify_consistency(old, size, old_root, log.root(), &proof));
        }
    }

    #[test]
    fn no_proof_makes_the_verifier_panic(index in any::<u64>(), size in any::<u64>(), length in 0_usize..80) {
        let proof = vec![Hash::empty(); length];
        let _ = verify_inclusion(Hash::empty(), index, size, &proof, Hash::empty());
        let _ = verify_consistency(index, size, Hash::empty(), Hash::empty(), &proof);
    }
}

#[test]
fn a_checkpoint_opens_only_with_its_key() {
    let key = SigningKey::from_seed(&[1; 32]);
    let checkpoint = Checkpoint::new("cluster", "namespace", &counted(3), at(0));
    let sealed = checkpoint.seal(&key).unwrap();
    assert_eq!(Checkpoint::open(&sealed, &key.verifying_key()).unwrap(), checkpoint);
    assert!(Checkpoint::open(&sealed, &SigningKey::from_seed(&[2; 32]).verifying_key()).is_err());
    let other = Checkpoint { kind: "Receipt".to_owned(), ..checkpoint };
    assert!(Checkpoint::open(&other.seal(&key).unwrap(), &key.verifying_key()).is_err());
}

#[test]
fn every_opened_run_is_sealed_once_or_listed_as_open() {
    let entries = |text: &str| -> Vec<LogEntry> {
        text.split_whitespace()
            .map(|word| match word.split_at(1) {
                ("+", run) => LogEntry::opened(run, "p"),
                (_, run) => LogEntry::sealed(run, "r"),
            })
            .collect()
    };
    let open = |text: &str| closure(&entries(text)).map(|open| open.into_keys().collect::<Vec<_>>());
    assert_eq!(open(""), Ok(vec![]));
    assert_eq!(open("+a +b -a +c -c"), Ok(vec!["b".to_owned()]));
    assert_eq!(open("+a -a -a"), Err(ClosureError::SealedNotOpen { index: 2, run: "a".to_owned() }));
    assert_eq!(open("-a"), Err(ClosureError::SealedNotOpen { index: 0, run: "a".to_owned() }));
    assert_eq!(open("+a -a +a"), Err(ClosureError::OpenedTwice { index: 2, run: "a".to_owned() }));
    assert_eq!(open("+a +a"), Err(ClosureError::OpenedTwice { index: 1, run: "a".to_owned() }));
}

#[test]
fn entries_of_one_hash_but_another_meaning_have_other_leaves() {
    let leaves = [LogEntry::opened("a", "h"), LogEntry::sealed("a", "h"), LogEntry::opened("h", "a")]
        .map(|entry| entry.leaf().unwrap());
    assert!(leaves[0] != leaves[1] && leaves[0] != leaves[2] && leaves[1] != leaves[2]);
}
