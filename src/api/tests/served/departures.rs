//! Every field of a schema, where it stands in an example, and the ways in which it can be wrong.

use serde_json::{Value, json};

/// A field of an example.
#[derive(Debug)]
pub(crate) struct Field {
    /// JSON Pointer to the object that it is a field of.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) schema: Value,
    pub(crate) required: bool,
    /// Whether its parent holds exactly one of several fields.
    pub(crate) only_choice: bool,
}

impl Field {
    pub(crate) fn pointer(&self) -> String {
        format!("{}/{}", self.parent, self.name)
    }

    /// The same path whatever the place in lists, for example `spec.tools[].name`.
    pub(crate) fn path(&self) -> String {
        let steps = self.pointer();
        steps.split('/').skip(1).fold(String::new(), |path, step| match step.parse::<usize>() {
            Ok(_) => path + "[]",
            Err(_) if path.is_empty() => step.to_owned(),
            Err(_) => path + "." + step,
        })
    }

    /// The example with another value for the field.
    pub(crate) fn with(&self, example: &Value, value: Value) -> Value {
        let mut changed = example.clone();
        changed.pointer_mut(&self.parent).unwrap()[&self.name] = value;
        changed
    }

    pub(crate) fn without(&self, example: &Value) -> Value {
        let mut changed = example.clone();
        changed.pointer_mut(&self.parent).unwrap().as_object_mut().unwrap().remove(&self.name).unwrap();
        changed
    }

    pub(crate) fn misspelt(&self, example: &Value) -> Value {
        let mut changed = example.clone();
        let fields = changed.pointer_mut(&self.parent).unwrap().as_object_mut().unwrap();
        let value = fields.remove(&self.name).unwrap();
        fields.insert(format!("{}Misspelt", self.name), value);
        changed
    }
}

/// Every field of an example's spec. Panics where the schema knows a field that the example does not have.
pub(crate) fn fields(schema: &Value, example: &Value) -> Vec<Field> {
    let mut found = Vec::new();
    walk("/spec".to_owned(), &schema["properties"]["spec"], &example["spec"], &mut found);
    found
}

fn walk(at: String, schema: &Value, value: &Value, found: &mut Vec<Field>) {
    if let Some(items) = schema.get("items") {
        walk(format!("{at}/0"), items, &value[0], found);
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let only_choice = schema.get("maxProperties") == Some(&json!(1));
    for (name, inner) in properties {
        let Some(value) = value.get(name) else {
            assert!(only_choice, "{at}/{name} is not in the example");
            continue;
        };
        let required = schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        let field = Field { parent: at.clone(), name: name.clone(), schema: inner.clone(), required, only_choice };
        let pointer = field.pointer();
        found.push(field);
        walk(pointer, inner, value, found);
    }
}

/// A value of another type than a schema wants; `None` if it wants any.
pub(crate) fn of_another_type(schema: &Value) -> Option<Value> {
    Some(match schema.get("type")?.as_str()? {
        "string" => json!(5),
        "integer" => json!("5"),
        "boolean" => json!("true"),
        "array" => json!({"0": "a"}),
        "object" => json!(["a"]),
        other => panic!("{other}"),
    })
}

/// Values at the bounds of a schema, with what they are.
pub(crate) fn at_bounds(schema: &Value, now: &Value) -> Vec<(&'static str, Value)> {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_i64);
    let mut values = Vec::new();
    if let Some(most) = bound("maxLength").filter(|_| schema.get("format").is_none()) {
        values.push(("the longest text", json!("a".repeat(usize::try_from(most).unwrap()))));
    }
    if let Some(least) = bound("minLength") {
        values.push(("the shortest text", json!("a".repeat(usize::try_from(least).unwrap()))));
    }
    if let Some(most) = bound("maxItems") {
        values.push(("the longest list", list(now, most)));
    }
    if let Some(least) = bound("minItems") {
        values.push(("the shortest list", list(now, least)));
    }
    values.extend(bound("minimum").map(|least| ("the least number", json!(least))));
    values.extend(bound("maximum").map(|most| ("the greatest number", json!(most))));
    for name in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
        values.push(("a choice", name.clone()));
    }
    values
}

/// Values just past the bounds of a schema, with what they are.
pub(crate) fn past_bounds(schema: &Value, now: &Value) -> Vec<(&'static str, Value)> {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_i64);
    let mut values = Vec::new();
    if let Some(most) = bound("maxLength") {
        values.push(("too long a text", json!("a".repeat(usize::try_from(most + 1).unwrap()))));
    }
    if let Some(least) = bound("minLength") {
        values.push(("too short a text", json!("a".repeat(usize::try_from(least - 1).unwrap()))));
    }
    if let Some(most) = bound("maxItems") {
        values.push(("too long a list", list(now, most + 1)));
    }
    if let Some(least) = bound("minItems") {
        values.push(("too short a list", list(now, least - 1)));
    }
    values.extend(bound("minimum").map(|least| ("too small a number", json!(least - 1))));
    values.extend(bound("maximum").map(|most| ("too great a number", json!(most + 1))));
    if schema.get("enum").is_some() && schema["type"] == "string" {
        values.push(("no choice", json!("Sometimes")));
    }
    if schema.get("enum").is_some() && schema["type"] == "boolean" {
        values.push(("no choice", json!(false)));
    }
    if schema.get("pattern").is_some() {
        values.push(("another pattern", json!("../a")));
    }
    values
}

/// As many items as asked for, like the first one; each with a name of its own, where they have names.
fn list(now: &Value, many: i64) -> Value {
    let item = |at: i64| {
        let mut item = now[0].clone();
        if item.get("name").is_some() {
            item["name"] = json!(format!("n{at}"));
        }
        item
    };
    (0..many).map(item).collect()
}
