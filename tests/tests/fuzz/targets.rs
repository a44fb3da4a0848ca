//! Targets and globs.

use crate::fuzz;
use crate::mutate::{soup, text};
use m87_core::target::{Globs, Of, validate};

const PIECES: &[&str] = &[
    "a", "b", "ab", "/", "/", "/", "*", "**", "?", "{", "}", ",", ".", "..", "%2e", "é", "\\", "[", "]", "!",
    "reports", "2026", "-", "@",
];

fn joined(random: &mut crate::mutate::Random) -> String {
    soup(random, PIECES, 14).replace(' ', "")
}

#[test]
fn globs() {
    fuzz("globs", |random| {
        let list: Vec<String> = (0..1 + random.below(8)).map(|_| joined(random)).collect();
        let target = if random.one_in(8) { text(random) } else { joined(random) };
        let is_target = validate(&target).is_ok();
        if is_target {
            let itself = Globs::new(&[&target], Of::Targets).expect("a target is a glob");
            assert!(itself.matches(&target), "{target}");
            assert!(Globs::new(&["**"], Of::Targets).unwrap().matches(&target));
            let segments = target.split('/').count();
            let stars = vec!["*"; segments].join("/");
            assert!(Globs::new(&[&stars], Of::Targets).unwrap().matches(&target));
            let more = format!("{stars}/*");
            assert!(!Globs::new(&[&more], Of::Targets).unwrap().matches(&target), "* crosses /: {target}");
        }
        for of in [Of::Targets, Of::Usernames] {
            let Ok(globs) = Globs::new(&list, of) else { continue };
            let any = list.iter().any(|glob| Globs::new(&[glob], of).is_ok_and(|one| one.matches(&target)));
            assert_eq!(globs.matches(&target), any, "{list:?} {target:?}: a list matches what one of it matches");
        }
    });
}
