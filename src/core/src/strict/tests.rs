#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// That hostile input takes no time is measured.
#![allow(clippy::disallowed_methods)]
use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::time::{Duration, Instant};

#[track_caller]
fn refused(error: StrictError, line: usize, path: &str, says: &str) {
    assert_eq!((error.line, error.path.as_str()), (line, path), "{error}");
    assert!(error.message.contains(says), "{error}");
}

#[test]
fn a_repeated_key_is_refused_with_its_place() {
    refused(json(b"{\n\"a\": {\"b\": 1,\n\"b\": 2}}").unwrap_err(), 3, "a", "\"b\" is there twice");
    refused(json(b"{\"a\": 1, \"\\u0061\": 2}").unwrap_err(), 1, "", "\"a\" is there twice");
    refused(yaml(b"a:\n  - x: 1\n    y: 2\n    x: 3\n").unwrap_err().clone(), 4, "a[0]", "\"x\" is there twice");
    refused(yaml(b"a: 1\n---\nb: 1\n\"b\": 2\n").unwrap_err(), 4, "", "\"b\" is there twice");
}

#[test]
fn what_is_no_number_is_refused() {
    for text in ["a: .nan", "a: .NaN", "a: .inf", "a: -.INF", "a: +.inf"] {
        refused(yaml(text.as_bytes()).unwrap_err(), 1, "a", "NaN and infinities");
    }
    for text in [
        "{\"a\": NaN}",
        "{\"a\": Infinity}",
        "{\"a\": 1e999}",
        "{\"a\": 01}",
        "{\"a\": +1}",
        "{\"a\": .5}",
        "{\"a\": 0x10}",
    ] {
        assert!(json(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn an_integer_that_could_lose_digits_is_refused() {
    for integer in [
        "9007199254740992",
        "-9007199254740992",
        "18446744073709551615",
        "18446744073709551616",
        "1000000000000000000000000",
        "99999999999999999999999999999999999999999999999999",
    ] {
        let error =
            json(format!("{{\"s\": \"9007199254740993\\\"\",\n \"a\": [1, {integer}]}}").as_bytes()).unwrap_err();
        assert!(
            error.line == 2 && error.message.contains("2^53") && error.message.contains(integer),
            "{integer}: {error}"
        );
        let error = yaml(format!("a:\n- {integer}\n").as_bytes()).unwrap_err();
        assert!(error.line == 2 && error.path == "a[0]" && error.message.contains("2^53"), "{integer}: {error}");
    }
    assert_eq!(
        json(b"[9007199254740991, -9007199254740991, 1e300, 0.1, 1E30]").unwrap()[0],
        json!(9_007_199_254_740_991_i64)
    );
    assert_eq!(
        yaml(b"[9007199254740991, 1.5, -0.5, 1e3]").unwrap(),
        [json!([9_007_199_254_740_991_i64, 1.5, -0.5, 1e3])]
    );
}

#[test]
fn only_the_core_schemas_words_are_booleans() {
    let read = yaml(b"[true, True, FALSE, yes, no, on, off, y, n, ~, null, \"true\", 1_000, 0o17, 012, 1:30]").unwrap();
    assert_eq!(
        read,
        [json!([
            true, true, false, "yes", "no", "on", "off", "y", "n", null, null, "true", "1_000", 15, "012", "1:30"
        ])]
    );
}

#[test]
fn aliases_cannot_make_a_text_grow() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let started = Instant::now();
    let error = yaml(bomb.as_bytes()).unwrap_err();
    assert!(error.message.contains("aliases") || error.message.contains("repetition"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2));
    for text in ["a: &a [*a]", "a: *nope", "&a {x: *a}"] {
        assert!(yaml(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_control_character_is_refused_where_it_stands() {
    for (text, line, code) in
        [("b: 1\na: x\u{1}y", 2, "U+0001"), ("a: \"\0\"", 1, "U+0000"), ("#\n\n- \u{7f}", 3, "U+007F")]
    {
        refused(yaml(text.as_bytes()).unwrap_err(), line, "", code);
    }
    assert_eq!(yaml(b"a: \"\\u0001\"\n").unwrap(), [json!({"a": "\u{1}"})]);
}

#[test]
fn what_only_looks_like_a_number_or_has_a_tag_of_yaml_is_text() {
    assert_eq!(yaml(b"[1e999, !!binary aGk=, !!str 1, !!int \"1\"]").unwrap(), [json!(["1e999", "aGk=", "1", 1])]);
    refused(yaml(b"a: 1.0e18").unwrap_err(), 1, "a", "2^53");
}

#[test]
fn nothing_deep_large_or_binary_is_read() {
    for levels in [65, 200, 100_000] {
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for error in [json(deep.as_bytes()).unwrap_err(), yaml(deep.as_bytes()).unwrap_err()] {
            assert!(error.message.contains("nested") || error.message.contains("recursion"), "{error}");
        }
    }
    let fine = format!("{}{}", "[".repeat(64), "]".repeat(64));
    assert!(json(fine.as_bytes()).is_ok() && yaml(fine.as_bytes()).is_ok());
    let large = vec![b' '; Bounds::DEFAULT.bytes + 1];
    assert!(json(&large).unwrap_err().message.contains("bytes") && yaml(&large).unwrap_err().message.contains("bytes"));
    let error = yaml(b"a: 1\nb: \xff\n").unwrap_err();
    assert_eq!((error.line, error.column), (2, 4), "{error}");
    assert!(json(b"\"\xc3\x28\"").is_err() && json(b"\"\\ud800\"").is_err());
    for text in [&b""[..], b" ", b"{} {}", b"{\"a\":1,}", b"{'a':1}", b"// x\n1", b"\xef\xbb\xbf{}", b"{\"a\":\"\n\"}"]
    {
        assert!(json(text).is_err(), "{}", String::from_utf8_lossy(text));
    }
}

/// A megabyte of brackets, quotes or indentation is answered at once, whatever the answer.
#[test]
fn hostile_text_is_answered_in_time() {
    let size = 1 << 20;
    let started = Instant::now();
    for unit in [
        "[", "{", "- ", "? ", "[{", "\"", "'", "&a ", "*a ", "!t ", "|\n", ": ", "a: {", "%", "--- ", "a:\n", "\t",
        "#\n", "[a,", "{a: ", "[ #]\n", "[\"]\", ",
    ] {
        let text = unit.repeat(size / unit.len());
        let _ = yaml(text.as_bytes());
        let _ = json(text.as_bytes());
        assert!(started.elapsed() < Duration::from_secs(60), "{unit:?} took too long");
    }
}

#[test]
fn keys_are_strings_and_own_tags_are_refused() {
    for text in ["1: a", "true: a", "null: a", "1.5: a", "[a]: b", "{a: b}: c", "~: a"] {
        assert!(yaml(text.as_bytes()).is_err(), "{text}");
    }
    for text in ["a: !secret x", "!x {a: b}", "- !include [a]"] {
        assert!(yaml(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(yaml(b"\"1\": a\n").unwrap(), [json!({"1": "a"})]);
}

#[test]
fn all_documents_are_read_and_empty_ones_left_out() {
    assert_eq!(
        yaml(b"# only a comment\n---\na: 1\n---\n---\n# nothing\n---\nb: |\n  x\n  y\n").unwrap(),
        [json!({"a": 1}), json!({"b": "x\ny\n"})]
    );
    assert!(yaml(b"").unwrap().is_empty());
    assert!(yaml(b"---\n---\n").unwrap().is_empty());
    let error = yaml("---\n".repeat(100_001).as_bytes()).unwrap_err();
    assert!(error.message.contains("documents"), "{error}");
}

#[test]
fn a_syntax_error_says_where() {
    let error = yaml(b"a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
    assert!(error.line >= 2 && error.column >= 1, "{error}");
    let error = json(b"{\"a\": [1, 2}\n").unwrap_err();
    assert_eq!((error.line, error.path.as_str()), (1, "a[2]"), "{error}");
    assert!(!error.to_string().contains("at line"), "{error}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = json(text.as_bytes());
        let _ = yaml(text.as_bytes());
        let _ = json(&bytes);
        let _ = yaml(&bytes);
    }

    #[test]
    fn no_yaml_shaped_text_makes_the_reader_panic(text in "[-a:{}\\[\\],&*!|>'\"#% \n\t0.~?]{0,60}") {
        let _ = yaml(text.as_bytes());
    }
}
