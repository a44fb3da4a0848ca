#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn text(value: &Value) -> String {
    canonical(value).unwrap()
}

#[test]
fn the_hash_vector_holds() {
    assert_eq!(
        compute_hash(&json!({"n": 1, "k": "v"})).unwrap(),
        "e18b0bd83a6696db623e23b627cb0ec836690d3317856e2c131750c1b2391993"
    );
}

/// RFC 8785, 3.2.2 and 3.2.4.
#[test]
fn rfc_8785_example_is_written_as_published() {
    let value: Value = serde_json::from_str(
        r#"{
          "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
          "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
          "literals": [null, true, false]
        }"#,
    )
    .unwrap();
    let expected = concat!(
        "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b3333333333333333332e333333333333332c",
        "31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c75303030665c6e4127425c225c5c5c5c5c222f227d"
    );
    assert_eq!(hex::encode(text(&value)), expected);
}

/// RFC 8785, 3.2.3.
#[test]
fn rfc_8785_keys_are_sorted_as_published() {
    let value: Value = serde_json::from_str(
        r#"{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
            "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}"#,
    )
    .unwrap();
    let order: Vec<_> =
        ["\\r", "1", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"].map(|key| format!("\"{key}\":")).into();
    let written = text(&value);
    let found: Vec<_> = order.iter().map(|key| written.find(key.as_str()).unwrap()).collect();
    assert!(found.is_sorted(), "{written}");
}

/// RFC 8785, appendix B.
#[test]
fn rfc_8785_numbers_are_written_as_published() {
    let vectors: &[(u64, &str)] = &[
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];
    for &(bits, expected) in vectors {
        assert_eq!(text(&json!(f64::from_bits(bits))), expected, "{bits:x}");
    }
}

#[test]
fn an_integer_that_would_lose_digits_is_refused() {
    for value in [json!(9_007_199_254_740_993_i64), json!(-9_007_199_254_740_993_i64), json!(u64::MAX), json!(i64::MAX)]
    {
        assert!(matches!(canonical(&json!({"key": [value]})), Err(JsonError::Integer(_))), "{value}");
    }
    assert_eq!(text(&json!([MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER])), "[9007199254740991,-9007199254740991]");
}

#[test]
fn deep_nesting_is_refused_without_a_crash() {
    let mut value = json!(1);
    for _ in 0..200 {
        value = json!([value]);
    }
    assert_eq!(canonical(&value), Err(JsonError::TooDeep));
}

#[test]
fn one_differing_byte_is_not_canonical() {
    assert_eq!(from_canonical::<Value>(b"{\"a\":1}").unwrap(), json!({"a": 1}));
    for bytes in [
        &b"{\"a\": 1}"[..],
        b"{\"a\":1} ",
        b"{\"a\":1.0}",
        b"{\"a\":1,\"a\":1}",
        b"{\"b\":1,\"a\":1}",
        b"{\"a\":\"\\u0041\"}",
    ] {
        assert!(from_canonical::<Value>(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_writer_agrees_with_another_implementation(value in any_json()) {
        prop_assert_eq!(text(&value), serde_json_canonicalizer::to_string(&value).unwrap());
    }

    #[test]
    fn the_size_is_the_written_texts(value in any_json(), large in any::<i64>(), unsigned in any::<u64>()) {
        let size = |value: &Value| canonical_size(value);
        prop_assert_eq!(size(&value), canonical(&value).map(|text| text.len()));
        for value in [json!({"a": [large, value]}), json!([unsigned])] {
            prop_assert_eq!(size(&value), canonical(&value).map(|text| text.len()));
        }
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_text(value in any_json()) {
        let written = text(&value);
        let read: Value = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(text(&read), written.clone());
        prop_assert!(from_canonical::<Value>(written.as_bytes()).is_ok());
    }
}

#[test]
fn types_are_written_as_their_tree_would_be() {
    use std::collections::BTreeMap;
    #[derive(Serialize)]
    enum Any {
        Unit,
        New(i32),
        Tuple(i32, &'static str),
        #[allow(non_snake_case)]
        Struct {
            z: Option<()>,
            A: f64,
            m: BTreeMap<u8, Box<Any>>,
        },
    }
    let inner = BTreeMap::from([(10, Box::new(Any::Unit)), (9, Box::new(Any::New(-1)))]);
    let value = vec![Any::Unit, Any::Tuple(1, "\u{7f}\\"), Any::Struct { z: None, A: 1.50, m: inner }];
    assert_eq!(to_canonical(&value).unwrap(), text(&serde_json::to_value(&value).unwrap()));
    let dossier = crate::fixtures::dossier();
    assert_eq!(to_canonical(&dossier).unwrap(), text(&serde_json::to_value(&dossier).unwrap()));
    assert_eq!(to_canonical(&f64::NAN), Err(JsonError::NotFinite));
    assert!(to_canonical(&BTreeMap::from([(vec![1], 1)])).is_err());
}

#[test]
fn what_has_no_canonical_text_has_no_size() {
    let deep = |levels: usize| (0..levels).fold(Value::Null, |inner, _| json!([inner]));
    for value in
        [json!(u64::MAX), json!(i64::MIN), json!(9_007_199_254_740_993_i64), deep(MAX_DEPTH), deep(MAX_DEPTH + 1)]
    {
        assert_eq!(canonical_size(&value), canonical(&value).map(|text| text.len()), "{value}");
    }
    assert_eq!(canonical_size(&deep(MAX_DEPTH + 1)), Err(JsonError::TooDeep));
}
