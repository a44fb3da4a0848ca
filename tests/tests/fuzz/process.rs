//! The reader, the rules and the prover of BPMN; the parser and the evaluator of FEEL.

use crate::fuzz;
use crate::mutate::{Random, mutated, soup, value};
use m87_bpmn::{EXECUTABLE, REFERENCE, feel, lint, model, prove, svg, validate};
use m87_core::time::Timestamp;
use serde_json::{Map, Value};

#[test]
fn bpmn() {
    let mut proved = 0;
    fuzz("bpmn", |random| {
        let text = mutated(random, EXECUTABLE.as_bytes(), REFERENCE.as_bytes());
        let Ok(definitions) = model::parse(&text) else { return };
        let _ = lint::lint(&definitions);
        let _ = svg::draw(&definitions, &[]);
        let _ = validate::deployable(&definitions).map_err(|problems| validate::report("fuzz", &problems));
        let proof = prove::prove(&definitions);
        assert_eq!(proof, prove::prove(&definitions));
        proved += usize::from(proof.is_ok());
    });
    crate::say(&format!("bpmn: {proved} proved"));
}

const PIECES: &[&str] = &[
    "1",
    "-",
    "2.5",
    "x",
    "y",
    "`a b`",
    "\"s\"",
    "true",
    "null",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ".",
    "..",
    "+",
    "*",
    "**",
    "/",
    "=",
    "!=",
    "<",
    ">=",
    "and",
    "or",
    "in",
    "between",
    "instance of",
    "number",
    "if",
    "then",
    "else",
    "for",
    "return",
    "some",
    "every",
    "satisfies",
    "not(",
    "count(",
    "function(",
    "get or else(",
    "date and time(",
    "@\"P1D\"",
    "@\"2026-01-01\"",
    "?",
    "item",
    "partial",
    "substring(",
    "sort(",
    "time offset",
    "//",
    "/*",
    "*/",
    "é",
    "$",
    "%",
    "matches(",
    "\"(a+)+$\"",
    "split(",
    "string join(",
    "list",
    "context",
    "79228162514264337593543950335",
    "0.0000000000000000000000000001",
    "@\"PT9223372036854775807S\"",
];

fn scope(random: &mut Random) -> Map<String, Value> {
    ["x", "y", "a b"].into_iter().map(|name| (name.to_owned(), value(random, 3))).collect()
}

#[test]
fn feel_expressions() {
    let corpus = [
        "get or else(x = true, false)",
        "not(get or else(budget_exceeded = false, false))",
        "for i in 1..10 return if i > partial[-1] then i else sum(partial)",
        "some a in x, b in [1, 2] satisfies a.b = b and b instance of number",
        "{a: function(x, y) x + y, b: a(1, 2), c: [b, b][item > 1]}",
        "date and time(\"2026-01-31T10:00:00@Europe/Berlin\") + duration(\"P1M\") < now()",
    ];
    let now = Timestamp::from_millis(1_769_860_800_000);
    fuzz("feel_expressions", |random| {
        let text = if random.one_in(2) {
            soup(random, PIECES, 40)
        } else {
            let (one, other) = (*random.pick(&corpus), *random.pick(&corpus));
            String::from_utf8_lossy(&mutated(random, one.as_bytes(), other.as_bytes())).into_owned()
        };
        let Ok(expression) = feel::parse(&text) else { return };
        let variables = scope(random);
        let evaluated = expression.eval(&variables, now).value.to_json();
        assert_eq!(evaluated, expression.eval(&variables, now).value.to_json(), "{text}");
        let _ = expression.variables();
    });
}
